"""A model of one's own: `bench run --model PATH` makes it a task like any other."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.api import Task, cache, loading
from bench.api.errors import ChildError, InputError, PluginError
from bench.graphs.shapes import given
from bench.measure.limits import Limits
from bench.measure.process import ask_once
from bench.plugins import catalog, fingerprint
from bench.tasks import examine, kinds

SCHEMA = 3  # raise it when the same file would become another task
LONGEST_NAME = 60
NEEDED = ("sources", "inputs", "outputs", "metric_name", "max_metric_loss")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What is said of a model besides its path.

    Attributes:
        dataset: an `.npz` file, a folder of samples or a Python file.
        dims: sizes of dimensions that the model leaves open, as `seq=128`.
        shapes: shapes of inputs, as `image=1x3x224x224`.
        trust: whether code that the file holds may run.
    """

    dataset: Path | None = None
    dims: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    trust: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adopted:
    """A task that was made, and what to tell of it."""

    name: str
    notes: tuple[str, ...] = ()


def adopt(path: Path, options: Options = Options()) -> Adopted:
    """Make a model a task, for this process and its children.

    Args:
        path: what `kinds.ALLOWED` says; an `.onnx` file has its external data in the same folder, if it has any.

    Raises:
        InputError: there is no such model, or it cannot be measured; the message says why.
    """
    given.dims_from(options.dims)
    given.shapes_from(options.shapes)
    if path.is_dir() and (path / "task.py").is_file():
        if options != Options():
            raise InputError(f"{path} is a task with samples and sizes of its own; change its task.py instead")
        adopted = Adopted(name=_adopt_folder(path))
    else:
        adopted = _adopt_model(path, options)
    task = catalog.task(adopted.name)
    missing = [attribute for attribute in NEEDED if not hasattr(task, attribute)]
    if missing:
        raise InputError(f"{task.path}: {type(task).__name__} does not define {', '.join(missing)}")
    return adopted


def recall(name: str, wanted: Callable[[Task], bool] = lambda _: True) -> Task | None:
    """A task that was made of a model before and still lies in the cache: the newest that is wanted, or None."""
    if _name(name) != name:
        return None
    before = os.environ.get("BENCH_PATH", "")
    for path in sorted((cache.folder() / "tasks").glob(f"*/models/{name}/task.py"), key=_changed, reverse=True):
        _put_first(path.parents[2])
        with contextlib.suppress(PluginError):  # what an older version wrote
            if wanted(task := catalog.task(name)):
                return task
        os.environ["BENCH_PATH"] = before
        catalog.forget()
    return None


def _changed(path: Path) -> float:
    return path.stat().st_mtime


def _adopt_folder(path: Path) -> str:
    path = path.resolve()
    known = loading.find("models").get(path.name)
    if known is not None and known.parent.resolve() == path:
        return path.name
    name = _name(path.name)
    place = cache.folder() / "tasks" / cache.digest(str(path))
    (place / "models").mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):  # the same link, since the place is named by the path
        (place / "models" / name).symlink_to(path)
    _put_first(place)
    return name


def _adopt_model(path: Path, options: Options) -> Adopted:
    kind = kinds.kind_of(path)
    if kind.code is not None and not options.trust:
        raise InputError(f"{path} holds {kind.code}; add --trust to load it")
    if options.dataset is not None:
        kinds.check_dataset(options.dataset)
    name = _name(path.stem if path.is_file() else path.resolve().name)
    tasks = cache.folder() / "tasks"
    tasks.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=tasks, prefix=cache.MAKING) as making:
        folder = Path(making, name)
        folder.mkdir()
        found = _examine(kind, path.absolute(), folder, options)

        def make(target: Path) -> dict[str, Any]:
            target.parent.parent.mkdir(parents=True)
            shutil.move(folder, target.parent)
            return {}

        key = cache.digest([SCHEMA, name, fingerprint.digest_folder(folder)])
        weights, _ = cache.obtain(f"tasks/{key}", f"models/{name}/{found['weights']}", make)
    _put_first(weights.parents[2])
    notes = list(found["notes"])
    if found["guessed"]:
        sizes = ", ".join(f"{dim}={size}" for dim, size in found["guessed"].items())
        notes.append(f"sizes left open were guessed: {sizes}; say others with --dim")
    return Adopted(name=name, notes=tuple(notes))


def _examine(kind: kinds.Kind, path: Path, folder: Path, options: Options) -> dict[str, Any]:
    """Have a child open the model: nothing of it is parsed here."""
    limits = Limits.of(step_s=None, memory_bytes=None)
    try:
        answer: dict[str, Any] = ask_once(
            examine.examine,
            timeout_s=limits.prepare_s,
            memory_bytes=limits.memory_bytes,
            module=kind.module,
            path=str(path),
            folder=str(folder),
            data=str(options.dataset.absolute()) if options.dataset else None,
            dims=options.dims,
            shapes=options.shapes,
            trust=options.trust,
        )
    except ChildError as error:
        raise InputError(f"cannot use {path}: {error.reason}") from error
    return answer


def _name(text: str) -> str:
    """A task's name from a file's: a part of a cell's path that no other task has."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", text).strip("._-")[:LONGEST_NAME] or "model"
    adopted = cache.folder() / "tasks"
    taken = [known for known, path in loading.find("models").items() if not path.is_relative_to(adopted)]
    return f"{name}_own" if name in taken else name


def _put_first(place: Path) -> None:
    """Let this process and its children look for plugins there first."""
    others = [folder for folder in os.environ.get("BENCH_PATH", "").split(os.pathsep) if folder]
    os.environ["BENCH_PATH"] = os.pathsep.join(dict.fromkeys([str(place), *others]))
    catalog.forget()
