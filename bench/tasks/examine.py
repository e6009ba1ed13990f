"""The work of the child process of `bench run --model`: it opens a model of any format and writes its task's folder."""

from __future__ import annotations

import hashlib
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from bench.api import Arrays, TensorSpec, cache
from bench.api.arrays import save_arrays
from bench.api.errors import InputError
from bench.graphs.shapes import given
from bench.tasks import dataset, formats, metrics
from bench.tasks.code import imported_from
from bench.tasks.failures import explained
from bench.tasks.options import Asked, Found
from bench.tasks.user_task import DATASET, EXAMPLE, TARGETS, OwnTask

TEMPLATE = '''"""A model as it is.

`sizes` stand for the dimensions that the model leaves open. To measure with other samples or another metric than
`bench run --model` and `--dataset` allow, copy this folder, change it and give it to `bench run --model`.
"""

from bench.api import TensorSpec
{imports}


class OwnModel({bases}):
    """What was found out about the model."""

{attributes}
'''


def examine(
    *,
    module: str,
    path: str,
    folder: str,
    data: str | None,
    dims: Sequence[str],
    shapes: Sequence[str],
    trust: bool,
    try_s: float = math.inf,
) -> dict[str, Any]:
    """Write `task.py` and the files beside it.

    Args:
        module: name of the file in `bench/tasks/formats/` that reads models of this format.
        path: the model's file or folder.
        folder: the task's folder, which is empty.
        data: the path that `--dataset` names, or None.
        dims: sizes of dimensions, as `--dim` takes them.
        shapes: shapes of inputs, as `--shape` takes them.
        trust: whether code that the model holds may run.
        try_s: see `Asked`.

    Returns:
        `weights` (the weights file's name), `guessed` (sizes by dimension that the user did not give) and `notes`
        (lines to tell the user).

    Raises:
        InputError: the model or the data set cannot be used; the message says why.
    """
    source, target, place = Path(path), Path(folder), Path(data) if data else None
    kind = formats.module_of(module)
    _check_installed(kind)
    with explained(f"the data set {data} cannot be read"):
        arrays, targets = dataset.read(place) if place else (None, None)
    asked = Asked(dims=given.dims_from(dims), shapes=given.shapes_from(shapes), trust=trust, arrays=arrays, try_s=try_s)
    with explained("it cannot be opened, or run once"):  # whatever a format's own steps do not expect
        found: Found = kind.examine(source, target, asked)
    weights = target / found.task.weights
    if not weights.exists():  # the format keeps the file as it is
        shutil.copyfile(source, weights)
    if found.example is not None and place is None:
        save_arrays(target / EXAMPLE, found.example)
    judge, attributes = _judge(place, arrays, targets, found, target)
    code = imported_from(place.resolve().parent) if place is not None and place.suffix == dataset.PYTHON else []
    origins = {str(file): cache.file_digest(file) for file in (*found.files, *code)}
    _write(target, found, judge, {**attributes, "made_from": origins})
    return {"weights": found.task.weights, "guessed": found.guessed, "notes": list(found.notes)}


def _check_installed(kind: ModuleType) -> None:
    """Refuse a model none of whose tasks can work here.

    Raises:
        InputError: packages are not installed; the message has the command that installs them.
    """
    tasks = [item for item in vars(kind).values() if isinstance(item, type) and issubclass(item, OwnTask)]
    own = [item(name=item.__name__, path=Path(kind.__name__)) for item in tasks if item.__module__ == kind.__name__]
    reasons = [task.skip() for task in own]
    if reasons and all(reasons):  # a Python file may build with either framework
        raise InputError(str(reasons[0]))


def _judge(
    data: Path | None, arrays: Arrays | None, targets: Any, found: Found, folder: Path
) -> tuple[type[OwnTask] | None, dict[str, Any]]:
    """Write the samples beside the task; give the class that judges the outputs, and the attributes that it needs.

    The class is None where there are no targets: then fidelity judges.

    Raises:
        InputError: the samples do not fit the inputs or the targets, the targets fit no output, or the metric has no
            name.
    """
    if data is None or arrays is None:
        return None, {}
    arrays = dataset.fitted(arrays, found.inputs, batched=found.batched, what=str(data))
    if data.suffix == dataset.PYTHON:
        module = dataset.module(data)
        name = module.metric_name
        if not isinstance(name, str):
            raise InputError(f"{data}: metric_name must be a text, such as 'accuracy'")
        inputs = [
            (key, array.dtype.name, array.shape, hashlib.sha256(array.tobytes()).hexdigest())
            for key, array in arrays.items()
        ]
        return metrics.OwnMetrics, {
            "data": str(data.resolve()),
            "metric_name": name,
            "higher_is_better": bool(getattr(module, "higher_is_better", True)),
            "is_error_rate": bool(getattr(module, "is_error_rate", False)),
            "inputs_digest": cache.digest(inputs),
        }
    save_arrays(folder / DATASET, arrays)
    if targets is None:
        return None, {}
    count = len(next(iter(arrays.values())))
    if not targets.ndim or len(targets) != count:
        raise InputError(f"{data}: targets has shape {targets.shape}; there are {count} samples")
    judge, output = metrics.judge_of(targets, found.outputs, batched=found.batched, sizes=found.sizes)
    save_arrays(folder / TARGETS, {"targets": targets})
    return judge, {"judged": output}


def _write(folder: Path, found: Found, judge: type[OwnTask] | None, attributes: dict[str, Any]) -> None:
    """Write `task.py`; every value in it is written by `repr`, since names in a model may hold any text."""
    fields = {
        "inputs": found.inputs,
        "outputs": found.outputs,
        "batched": found.batched,
        "sizes": dict(found.sizes),
        **found.attributes,
        **attributes,
    }
    classes = [judge, found.task] if judge else [found.task]
    text = TEMPLATE.format(
        imports="\n".join(sorted(f"from {kind.__module__} import {kind.__name__}" for kind in classes)),
        bases=", ".join(kind.__name__ for kind in classes),
        attributes="\n".join(f"    {name} = {_literal(value)}" for name, value in fields.items()),
    )
    (folder / "task.py").write_text(text, encoding="utf-8")


def _literal(value: Any) -> str:
    """A value as Python text; of specs, one a line."""
    if isinstance(value, tuple) and value and isinstance(value[0], TensorSpec):
        return "(\n" + "".join(f"        {spec!r},\n" for spec in value) + "    )"
    return repr(value)
