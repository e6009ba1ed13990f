"""Which files of a repository are the model: the one that is named, or the only one that can be measured."""

from __future__ import annotations

import dataclasses
import posixpath
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from bench.api.errors import InputError
from bench.tasks import formats
from bench.tasks.formats import Format
from bench.tasks.hub.listing import Entry, size_text
from bench.tasks.hub.reference import WHOLE, Reference
from bench.tasks.pretrained_folder import SAFE

CODE = ".py"
"""The end of a name of code, which is not fetched."""
_SELDOM = (".json", ".txt", CODE)
"""Ends of names that models have, and that many other files have: such a model must be named."""
_MOST_NAMED, _MOST_LOOKED_AT = 12, 40
"""Models that a message names, and those by whose names it is looked for others, at most."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice:
    """The model of a repository.

    Attributes:
        path: path of its file or folder, `.` for the repository's own folder.
        parts: its files; further ones may be named in the first.
        format: the format that its name tells; None where the content must tell it.
    """

    path: str
    parts: tuple[Entry, ...]
    format: Format | None

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(entry.size for entry in self.parts)


def choose(files: Mapping[str, Entry], reference: Reference, *, trust: bool) -> Choice:
    """The model that a name means.

    Args:
        files: the files of the repository at the commit.
        reference: the name, at the commit.
        trust: whether code and pickles in the model may be loaded.

    Raises:
        InputError: there is no such model, or there are several of which none is named, or it holds code or pickles
            that are not trusted; the message names the command that goes on.
    """
    if reference.path is not None:
        return _named(files, reference, reference.path, trust=trust)
    able, reasons = [], []
    candidates, passed_over = _candidates(files)
    for path in candidates:
        try:
            able.append(_named(files, reference, path, trust=trust))
        except InputError as error:
            reasons.append(error)
    if len(able) == 1 and not passed_over:
        return able[0]
    others = f"; {passed_over:,} more may be models, and were not looked at" if passed_over else ""
    if able:
        names = [f"{choice.path} ({size_text(choice.size)})" for choice in able[:_MOST_NAMED]]
        more = [f"{len(able) - len(names)} more"] if len(able) > len(names) else []
        raise InputError(
            f"{reference} has {_number(able)}: {', '.join(names + more)}{others}",
            fix=f"name one: --model {shlex.quote(str(reference.at(reference.revision, able[0].path)))}",
        )
    if passed_over:
        why = f": {reasons[0]}" if reasons else ""
        raise InputError(
            f"of the first {_MOST_LOOKED_AT} files and folders of {reference} that may be models none can be measured"
            f"{others}; name one by its path{why}"
        )
    if reasons:
        raise reasons[0]
    if any(path.endswith(SAFE) for path in files):
        raise InputError(
            f"{reference} holds weights alone ({SAFE}) and no config.json of transformers that tells their "
            "architecture, so nothing can run them; write a Python file with build(), and name that"
        )
    raise InputError(f"{reference} has no model that is known by its name; {formats.allowed()}")


def further(files: Mapping[str, Entry], choice: Choice, mentioned: Sequence[str]) -> list[Entry]:
    """The files that a model's file mentions and that lie in its folder or below; others are not fetched.

    Args:
        files: the files of the repository at the commit.
        choice: the model.
        mentioned: names from its folder on.
    """
    folder = posixpath.dirname(choice.path)
    paths = [posixpath.normpath(posixpath.join(folder, name)) for name in sorted(mentioned)]
    within = [path for path in paths if not folder or path.startswith(f"{folder}/")]
    return [files[path] for path in within if path in files and path != choice.path and not path.endswith(CODE)]


def code_beside(files: Mapping[str, Entry], choice: Choice) -> list[str]:
    """Names of the Python files in the folder of a model that is a folder."""
    if choice.path in files:
        return []
    return [name for name in _names(files, choice.path) if name.endswith(CODE) and "/" not in name]


def _number(able: Sequence[Choice]) -> str:
    return "1 model" if len(able) == 1 else f"{len(able)} models"


def _candidates(files: Mapping[str, Entry]) -> tuple[list[str], int]:
    """Paths of files and folders that are models by their names, and how many more were not looked at.

    A folder within the folder of a model is none.
    """
    known = formats.known().values()
    markers = {model_format.marker for model_format in known if model_format.marker is not None}
    suffixes = {suffix for model_format in known for suffix in model_format.suffixes} - {*_SELDOM}
    marked = {posixpath.dirname(path) or WHOLE for path in files if posixpath.basename(path) in markers}
    folders: list[str] = []
    num_looked_at = passed_over = 0
    for path in sorted(marked, key=lambda path: (path != WHOLE, path)):
        if any(other == WHOLE or path.startswith(f"{other}/") for other in folders):
            continue
        if num_looked_at == _MOST_LOOKED_AT:
            passed_over += 1
            continue
        num_looked_at += 1
        if _is_whole(files, path):
            folders.append(path)
    paths = [*folders, *sorted(path for path in files if PurePosixPath(path).suffix.lower() in suffixes)]
    return paths[:_MOST_LOOKED_AT], passed_over + len(paths[_MOST_LOOKED_AT:])


def _is_whole(files: Mapping[str, Entry], folder: str) -> bool:
    names = _names(files, folder)
    model_format = _format_of(names)
    return model_format is not None and bool(model_format.parts("", names, True))


def _named(files: Mapping[str, Entry], reference: Reference, path: str, *, trust: bool) -> Choice:
    """The model at a path.

    Raises:
        InputError: there is none, or it holds code or pickles that are not trusted.
    """
    here = reference.at(reference.revision, path)
    is_file = path in files
    folder = posixpath.dirname(path) or WHOLE if is_file else path
    names, name = _names(files, folder), posixpath.basename(path) if is_file else ""
    if not names:
        bare = dataclasses.replace(reference, path=None)
        raise InputError(f"no file or folder {path} in {bare}; without the path, its models are chosen from")
    if is_file:
        model_format = _format_of_file(name, here, trust=trust)
    elif (model_format := _format_of(names)) is None:
        raise InputError(
            f"{here} is a folder of no kind that can be measured; {formats.allowed()}",
            fix="name another path of the repository",
        )
    if model_format is not None and model_format.code is not None and not trust:
        raise InputError(f"{here} holds {model_format.code}; add --trust to fetch and load it")
    parts = model_format.parts(name, names, trust) if model_format else [name]
    if not parts and model_format is not None and not trust and model_format.parts(name, names, True):
        raise InputError(
            f"{here} has pickled weights alone, and a pickle may run any code; add --trust to fetch and load it"
        )
    if not parts:
        raise InputError(f"{here} is not whole: its weights are not in the repository")
    paths = [posixpath.normpath(posixpath.join(folder, part)) for part in parts]
    data = tuple(files[file_path] for file_path in dict.fromkeys(paths) if not file_path.endswith(CODE))
    return Choice(path=path, parts=data, format=model_format)


def _format_of_file(name: str, here: Reference, *, trust: bool) -> Format | None:
    """The format that a file's name tells; None for a pickle of any name that is trusted.

    Raises:
        InputError: nothing is known of such a file, it is code, or it may be a pickle and is not trusted.
    """
    suffix = PurePosixPath(name).suffix.lower()
    if suffix == CODE:
        raise InputError(f"{here} is code, which is not fetched; read it, and name a copy of your own")
    if suffix == SAFE:
        folder = shlex.quote(str(here.at(here.revision, WHOLE)))
        raise InputError(f"{here} holds weights alone; name the folder with its config.json, as {folder}")
    model_format = next((candidate for candidate in formats.known().values() if suffix in candidate.suffixes), None)
    if model_format is None and not trust:
        raise InputError(
            f"{here} is known by no ending of its name, and may be a pickle, which may run any code; add --trust to "
            f"fetch and load it; {formats.allowed()}"
        )
    return model_format


def _format_of(names: Sequence[str]) -> Format | None:
    """The format of a folder by the names of its files."""
    return next((model_format for model_format in formats.known().values() if model_format.marker in names), None)


def _names(files: Mapping[str, Entry], folder: str) -> list[str]:
    """The files of a folder, by their paths from it on."""
    if folder == WHOLE:
        return list(files)
    return [path.removeprefix(f"{folder}/") for path in files if path.startswith(f"{folder}/")]
