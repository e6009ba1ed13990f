"""A model of one's own: `bench run --model PATH` makes it a task like any other."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path
from typing import Any

from bench import cache, plugins
from bench.api import TensorSpec
from bench.errors import ChildError, InputError
from bench.measure.process import ask_once
from bench.prepare import Limits

SCHEMA = 1  # raise it when the same file would become another task
LONGEST_NAME = 60
ALLOWED = "--model takes an .onnx file, or a folder with a task.py"
NEEDED = ("sources", "inputs", "outputs", "metric_name", "max_metric_loss")
TEMPLATE = '''"""An ONNX file as it is, with generated inputs.

`sizes` are guesses at the dimensions that the file leaves open. To measure with other sizes, or with real data and a
metric, copy this folder, change it and give it to `bench run --model`.
"""

from bench.api import TensorSpec
from bench.onnx_task import OnnxTask


class OwnModel(OnnxTask):
    """Inputs, outputs and guesses."""

    inputs = {inputs!r}
    outputs = {outputs!r}
    batched = {batched!r}
    sizes = {sizes!r}
'''


def adopt(path: Path) -> str:
    """Make a model a task, for this process and its children.

    Args:
        path: an `.onnx` file, with its external data in the same folder if it has any; or a folder with a `task.py`.

    Returns:
        The task's name.

    Raises:
        InputError: there is no such model, or it cannot be measured; the message says why.
    """
    if path.is_dir():
        name = _adopt_folder(path)
    elif path.is_file():
        name = _adopt_file(path)
    elif path.exists():
        raise InputError(f"{path} is neither a file nor a folder; {ALLOWED}")
    else:
        raise InputError(f"no such file or folder: {path}; {ALLOWED}")
    task = plugins.task(name)
    missing = [attribute for attribute in NEEDED if not hasattr(task, attribute)]
    if missing:
        raise InputError(f"{task.path}: {type(task).__name__} does not define {', '.join(missing)}")
    return name


def _adopt_folder(path: Path) -> str:
    path = path.resolve()
    if not (path / "task.py").is_file():
        raise InputError(f"no task.py in {path}; {ALLOWED}")
    known = plugins.find("models").get(path.name)
    if known is not None and known.parent.resolve() == path:
        return path.name
    name = _name(path.name)
    place = cache.folder() / "tasks" / cache.digest(str(path))
    (place / "models").mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):  # the same link, since the place is named by the path
        (place / "models" / name).symlink_to(path)
    _put_first(place)
    return name


def _adopt_file(path: Path) -> str:
    if path.suffix.lower() != ".onnx":
        raise InputError(f"{path} is not called .onnx; {ALLOWED}")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty")
    path, name = path.absolute(), _name(path.stem)
    found = _ask("inspect_onnx", path)
    text = TEMPLATE.format(
        inputs=_specs(found["inputs"]),
        outputs=_specs(found["outputs"]),
        batched=bool(found["batched"]),
        sizes={str(dim): int(size) for dim, size in found["sizes"].items()},
    )

    def make(target: Path) -> dict[str, Any]:
        target.parent.mkdir(parents=True)
        if found["data"]:
            _ask("embed_onnx", path, target=str(target))
        else:
            shutil.copyfile(path, target)
        target.with_name("task.py").write_text(text, encoding="utf-8")
        return {}

    content = [cache.file_digest(Path(file)) for file in (path, *found["data"])]
    key = cache.digest([SCHEMA, name, text, content])
    model, _ = cache.obtain(f"tasks/{key}", f"models/{name}/model.onnx", make)
    _put_first(model.parents[2])
    return name


def _ask(operation: str, path: Path, **request: Any) -> dict[str, Any]:
    """Have a child read the file: nothing of it is parsed here."""
    limits = Limits.of(step_s=None, memory_bytes=None)
    try:
        answer: dict[str, Any] = ask_once(
            operation, timeout_s=limits.open_s, memory_bytes=limits.memory_bytes, path=str(path), **request
        )
    except ChildError as error:
        raise InputError(f"cannot use {path}: {error.reason}") from error
    return answer


def _specs(fields: list[dict[str, Any]]) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(
            name=str(spec["name"]),
            dtype=str(spec["dtype"]),
            shape=tuple(dim if isinstance(dim, int) else str(dim) for dim in spec["shape"]),
        )
        for spec in fields
    )


def _name(text: str) -> str:
    """A task's name from a file's: a part of a cell's path that no other task has."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", text).strip("._-")[:LONGEST_NAME] or "model"
    adopted = cache.folder() / "tasks"
    taken = [known for known, path in plugins.find("models").items() if not path.is_relative_to(adopted)]
    return f"{name}_own" if name in taken else name


def _put_first(place: Path) -> None:
    """Let this process and its children look for plugins there first."""
    others = [folder for folder in os.environ.get("BENCH_PATH", "").split(os.pathsep) if folder]
    os.environ["BENCH_PATH"] = os.pathsep.join(dict.fromkeys([str(place), *others]))
    plugins.forget()
