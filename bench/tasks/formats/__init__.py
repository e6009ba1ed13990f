"""The formats of `--model`, and which of them a path has: each file here reads one format, and no list names the files.

A file defines `FORMAT`, the class of the task that it makes, and `examine(path, folder, asked)`, which opens the model
and returns a `Found`; if it writes no weights file into `folder`, the model's file is copied there as it is. Importing
the file must be cheap: frameworks are imported inside functions, which run only in child processes. A format that no
exporter takes may define `write_graph(weights, target, shapes)`, too: it writes the graph of the model, of which the
task's folder holds the file `weights`, as an ONNX file, with the inputs' shapes by name. The commands that read graphs
read that file; nothing measures it.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import ModuleType

from bench.api.errors import InputError
from bench.api.files import refuse_special, refuse_special_within


@dataclasses.dataclass(frozen=True, kw_only=True)
class Format:
    """How models of a format are recognized before they are opened: by the names of their files, or by their content.

    Attributes:
        described: name of the format in messages, with an article, such as `an .onnx file`.
        suffixes: endings of the file's name, in lower case with the dot; empty for a format that is a folder.
        holds: whether a file whose name tells no format is a model of this one, as its content tells. It runs in the
            process of the command, so it must not parse more than the first bytes or the list of an archive's files.
        marker: name of the file that every folder of this format has; None for a format that is a file.
        code: what code a model holds that runs while it is opened, so that it needs `--trust`. None for no code, or
            for code that the user named.
        refusal: gives the reason why a folder with the marker cannot be read, or None.
        parts: the files of a model, of which none is code. It takes the file's name, empty for a folder; the names of
            all files in its folder, from there on; and whether pickles are trusted. Empty where the model is not whole
            without pickles, or not at all.
        mentions: names of further files that a model's file says it needs, from its folder on. It runs in the process
            of the command, so it must not parse the file.
        num_cautions: how many times more `examine` can be asked where its process was ended, each time doing without
            more of what may have ended it, see `Asked.crashed`.
        imports: modules that `examine` imports of any model of this format: the process that runs it may be a fork of
            one that has imported them, see `bench.measure.templates`. Empty where that depends on the model.
    """

    described: str
    suffixes: tuple[str, ...] = ()
    holds: Callable[[Path], bool] = lambda _: False
    marker: str | None = None
    code: str | None = None
    refusal: Callable[[Path], str | None] = lambda _: None
    parts: Callable[[str, Collection[str], bool], Sequence[str]] = lambda name, _, __: [name]
    mentions: Callable[[Path], Collection[str]] = lambda _: ()
    num_cautions: int = 0
    imports: tuple[str, ...] = ()

    def matches(self, path: Path) -> bool:
        """Whether a file has the name, or a folder has the marker, of a model of this format."""
        if path.is_dir():
            return self.marker is not None and (path / self.marker).is_file()
        return path.suffix.lower() in self.suffixes


@functools.cache
def known() -> Mapping[str, Format]:
    """The formats that have a file in `bench/tasks/formats/`, by the module's name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: module_of(name).FORMAT for name in names}


def module_of(name: str) -> ModuleType:
    """The module of a format, by its name as a key of `known()`."""
    return importlib.import_module(f"{__name__}.{name}")


def kinds() -> str:
    """The kinds of models that `--model` takes, as a text."""
    return f"{', '.join(model_format.described for model_format in known().values())}, or a folder with a task.py"


def allowed() -> str:
    """The end of a message that says what `--model` takes."""
    return f"--model takes {kinds()}"


def format_of(path: Path) -> str:
    """The format of a file, or of a folder without a `task.py`, as a key of `known()`.

    Raises:
        InputError: the path does not exist, or its format cannot be measured; the message says which can.
    """
    if not path.exists():
        raise InputError(f"no such file or folder: {path}; {allowed()}")
    refuse_special(path)
    name = next((name for name, model_format in known().items() if model_format.matches(path)), None)
    if name is None and path.is_file():
        name = next((name for name, model_format in known().items() if model_format.holds(path)), None)
    if name is None and path.is_dir():
        *first, last = (
            "task.py",
            *(model_format.marker for model_format in known().values() if model_format.marker is not None),
        )
        raise InputError(f"no {', '.join(first)} or {last} in {path}; {allowed()}")
    if name is None:
        raise InputError(f"{path} is of no kind that can be measured; {allowed()}")
    if path.is_dir():
        refuse_special_within(path)
    if path.is_file() and path.stat().st_size == 0:
        raise InputError(f"{path} is empty")
    if reason := known()[name].refusal(path):
        raise InputError(reason)
    return name
