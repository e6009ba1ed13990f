"""Makes a task of a user's own model, as `bench run --model PATH` does."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from bench.api import Task, cache, files, loading
from bench.api.errors import ChildError, InputError, PluginError
from bench.api.names import TaskName
from bench.measure.limits import Limits
from bench.measure.process import ask_once
from bench.onnxfile.shapes import size_options
from bench.onnxfile.shapes.size_choice import Chosen
from bench.onnxfile.shapes.stated_sizes import stated
from bench.plugins import catalog
from bench.tasks import dataset, examine, formats, names
from bench.tasks.hub import places
from bench.tasks.hub.reference import Reference
from bench.tasks.metric_options import Wanted

SCHEMA = 5  # raise it when the same file would become another task
LONGEST_NAME = 60
_TRYING = 0.5
"""Share of the time for opening a model in which it may be run: a model that runs for ever is a row, not an error."""
_TASKS = "tasks"
"""The folder of tasks in the cache."""
ORIGIN = "origin.txt"
"""A file beside the folders of a task in the cache whose model was fetched: from where. No figure depends on it."""
NEEDED = ("sources", "inputs", "outputs", "metric_name", "max_metric_loss")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a command that describe a model, besides its path.

    Attributes:
        dataset: an `.npz` file, a folder of samples or a Python file.
        dims: sizes of dimensions that the model leaves open, such as `seq=128`.
        shapes: shapes of inputs, such as `image=1x3x224x224`.
        trust: whether code that the file holds may run.
        metric: the metric that judges outputs against the targets of the data set, as `accuracy@0.5`.
        output: name of the output that it judges.
    """

    dataset: Path | None = None
    dims: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    trust: bool = False
    metric: str | None = None
    output: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adopted:
    """The name of a task that was made of a model, and lines to tell the user about it.

    Attributes:
        name: the name.
        notes: the lines.
        chosen: how the name was chosen among those of a folder of results, which `names.keep` notes there; or None.
        also: the names that the model would have by itself, where the task has another.
    """

    name: str
    notes: tuple[str, ...] = ()
    chosen: names.Chosen | None = None
    also: frozenset[str] = frozenset()

    def glob(self, pattern: str) -> str:
        """A glob over the cells of the task, for one over the model's that may begin with a name of the model.

        `model/*` given with a file `model.onnx` is about that file, also where its task has another name because the
        results named `model` are of another file.
        """
        first, slash, rest = pattern.partition("/")
        name = TaskName.parse(first).model
        if name in {self.name, *self.also}:
            return self.name + first.removeprefix(name) + slash + rest
        return f"{self.name}/{pattern}"


def adopt(
    path: Path,
    options: Options = Options(),
    *,
    sized: Collection[str] = (),
    limits: Limits | None = None,
    beside: str | None = None,
    results: Path | None = None,
) -> Adopted:
    """Make a task of a model, which this process and its children find by its name.

    Args:
        path: a model of one of `formats.known()`, or a folder with a `task.py`. External data of an `.onnx` file are in
            the file's folder.
        options: sizes, samples and trust; not for a folder with a `task.py`.
        sized: dimensions whose sizes the user told otherwise, so that no note is made of their guessed sizes.
        limits: time and memory of the child process that opens the model; None for those of every command.
        beside: name of a task that the new one must not take.
        results: folder of results in which no other model may have the task's name.

    Raises:
        InputError: there is no model at the path, or it cannot be measured; the message says why.
    """
    size_options.dims_from(options.dims)
    size_options.shapes_from(options.shapes)
    Wanted.of(options.metric, options.output)
    if path.is_dir() and (path / "task.py").is_file():
        if options != Options():
            raise InputError(
                f"{path} is a task with samples, sizes and a metric of its own, and takes no options of a file",
                fix=f"leave them out, or change {path / 'task.py'}",
            )
        adopted = _adopt_folder(path, beside, results)
    else:
        limits = limits or Limits.of(step_s=None, memory_bytes=None)
        adopted = _adopt_model(path, options, sized, limits, beside, results)
    task = catalog.task(adopted.name)
    missing = [attribute for attribute in NEEDED if not hasattr(task, attribute)]
    if missing:
        raise InputError(f"{task.path}: {type(task).__name__} does not define {', '.join(missing)}")
    return adopted


def origin_of(task: Task) -> str | None:
    """The model of the hub that a task was made of, as `hf:org/name@commit:path`; None for any other task."""
    place = task.folder.parent.parent
    if place.parent != cache.folder() / _TASKS:  # a task of a person's own says nothing of where it is from
        return None
    try:
        return str(Reference.of(files.read_text(place / ORIGIN).strip()))
    except (OSError, ValueError, InputError):
        return None


def recall(name: str, wanted: Callable[[Task], bool] = lambda _: True) -> Task | None:
    """The newest task of that name in the cache for which `wanted` is true, or None; its model was measured before."""
    family = TaskName.parse(name).model
    if _name(family) != family:
        return None
    before = os.environ.get("BENCH_PATH", "")
    paths = (cache.folder() / _TASKS).glob(f"*/models/{family}/task.py")
    for path in sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True):
        _put_first(path.parents[2])
        with contextlib.suppress(PluginError):  # an older version of this package wrote the file
            if wanted(task := catalog.task(name)):
                return task
        os.environ["BENCH_PATH"] = before
        catalog.forget()
    return None


def _adopt_folder(path: Path, beside: str | None, results: Path | None) -> Adopted:
    """Put a folder with a `task.py` on the search path by a link in the cache."""
    path = path.resolve()
    known = loading.find("models").get(path.name)
    if known is not None and known.parent.resolve() == path and path.name != beside:
        return Adopted(name=path.name)
    adopted = _named(path, "", beside, results)
    place = cache.folder() / _TASKS / cache.digest([str(path), adopted.name])
    (place / "models").mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):  # the same link, since the place is named by the path and the name
        (place / "models" / adopted.name).symlink_to(path)
    _put_first(place)
    return adopted


def _named(
    path: Path, content: str, beside: str | None, results: Path | None, fetched: Reference | None = None
) -> Adopted:
    """The name of a model's task, with a line about it where it is not that of the file.

    Args:
        path: the model.
        content: see `names.Claim`.
        beside, results: as for `adopt`.
        fetched: the model of the hub that it is, or None.
    """
    stem = path.stem if path.is_file() else path.resolve().name
    text = stem if fetched is None else fetched.task_name
    if results is None or beside is not None:
        return Adopted(name=_name(text, beside))
    chosen = names.choose(results, path, content, _name, fetched=fetched)
    notes = (chosen.note,) if chosen.note else ()
    return Adopted(name=chosen.name, notes=notes, chosen=chosen, also=frozenset({text, _name(text)} - {chosen.name}))


def _adopt_model(
    path: Path, options: Options, user_dims: Collection[str], limits: Limits, beside: str | None, results: Path | None
) -> Adopted:
    """Write the task's folder into the cache, and put it on the search path.

    Raises:
        InputError: the model or the data set cannot be used, or the model holds code and is not trusted.
    """
    module = formats.format_of(path)
    code = formats.known()[module].code
    if code is not None and not options.trust:
        raise InputError(f"{path} holds {code}; add --trust to load it")
    if options.dataset is not None:
        dataset.check(options.dataset)
    fetched = places.reference_of(path)
    tasks = cache.folder() / _TASKS
    tasks.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=tasks, prefix=cache.MAKING) as making:
        folder = Path(making, "model")
        folder.mkdir()
        facts = _examine(module, path.absolute(), folder, options, limits)
        content = cache.digest_folder(folder)
        named = _named(path, content, beside, results, fetched)

        def make(target: Path) -> dict[str, Any]:
            target.parent.parent.mkdir(parents=True)
            shutil.move(folder, target.parent)
            if fetched is not None:
                (target.parents[2] / ORIGIN).write_text(f"{fetched}\n", encoding="utf-8")
            return {}

        key = cache.digest([SCHEMA, named.name, content, str(fetched or "")])
        weights, _ = cache.obtain(f"{_TASKS}/{key}", f"models/{named.name}/{facts['weights']}", make)
    _put_first(weights.parents[2])
    sizes = {**facts["given"], **facts["guessed"], **facts["following"]}
    chosen = Chosen(stated=stated(sizes), given=facts["given"], sizes=sizes)
    others = [dim for dim in user_dims if dim not in facts["given"]]
    return dataclasses.replace(named, notes=(*named.notes, *facts["notes"], *chosen.lines(without=others)))


def _examine(module: str, path: Path, folder: Path, options: Options, limits: Limits) -> dict[str, Any]:
    """Examine the model in a child process: nothing of it is parsed in this one.

    Where a package crashes, the model is examined again with less of it, and in the end without, if its format can.

    Raises:
        InputError: the child refuses the model or fails; the message says why.
    """
    kind = formats.known()[module]
    ask: Callable[..., dict[str, Any]] = functools.partial(
        ask_once,
        examine.examine,
        timeout_s=limits.prepare_s,
        memory_bytes=limits.memory_bytes,
        modules=(examine.__name__, *kind.imports, f"{formats.__name__}.{module}") if kind.imports else None,
        module=module,
        path=str(path),
        folder=str(folder),
        data=str(options.dataset.absolute()) if options.dataset else None,
        dims=options.dims,
        shapes=options.shapes,
        trust=options.trust,
        metric=options.metric,
        output=options.output,
        try_s=_TRYING * limits.prepare_s,
    )
    crashes: list[ChildError] = []
    while True:
        try:
            return ask(crashed=[each.reason for each in crashes])
        except ChildError as error:
            if error.kind != "signal":
                raise _explained(error, path, options.dataset) from error
            crashes.append(error)
            if len(crashes) > kind.num_cautions:
                raise _explained(crashes[0], path, options.dataset) from error
            shutil.rmtree(folder)
            folder.mkdir()


def _explained(error: ChildError, path: Path, data: Path | None) -> InputError:
    """The error of the child as one about the file that is to blame: the data set, or else the model."""
    if data is not None and str(data.absolute()) in error.reason.partition(": ")[0]:
        return InputError(f"cannot use the data set: {error.reason.replace(str(data.absolute()), str(data))}")
    what = places.reference_of(path) or path
    if error.kind == "signal":
        return InputError(f"cannot use {what}: the process that opened it was {error.reason}; the file may be damaged")
    return InputError(f"cannot use {what}: {error.reason}")


def _name(text: str, beside: str | None = None) -> str:
    """A task's name from a file's: fit to be a part of a cell's path, and not the name of another task or `beside`."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", text).strip("._-")[:LONGEST_NAME] or "model"
    adopted = cache.folder() / _TASKS
    taken = [known for known, path in loading.find("models").items() if not path.is_relative_to(adopted)]
    name = f"{name}_own" if name in taken else name
    return f"{name}_new" if name == beside else name


def _put_first(place: Path) -> None:
    """Put a folder first on the search path of this process and its children."""
    others = [folder for folder in os.environ.get("BENCH_PATH", "").split(os.pathsep) if folder]
    os.environ["BENCH_PATH"] = os.pathsep.join(dict.fromkeys([str(place), *others]))
    catalog.forget()
