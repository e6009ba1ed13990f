"""The work of the child process of `bench run --model`: it opens a model of any format and writes its task's folder."""

from __future__ import annotations

import hashlib
import math
import shutil
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from bench.api import Arrays, TensorSpec, cache, ragged
from bench.api.arrays import save_arrays
from bench.api.errors import InputError
from bench.onnxfile.deferred import np
from bench.onnxfile.shapes import size_options
from bench.tasks import dataset, formats, metrics
from bench.tasks.code import imported_from
from bench.tasks.failures import explained
from bench.tasks.metric_options import Wanted
from bench.tasks.options import Asked, Found
from bench.tasks.targets import judge_of
from bench.tasks.user_task import DATASET, EXAMPLE, TARGETS, OwnTask

_NUM_OBSERVED, _OBSERVED_S, _OBSERVED_BYTES = 64, 5.0, 256 << 20
"""Most samples, seconds and bytes for running a model to learn how its outputs are compared with targets."""
_TEMPLATE = '''"""A model as it is.

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
    metric: str | None = None,
    output: str | None = None,
    crashed: Sequence[str] = (),
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
        metric: the metric that `--metric` names, or None.
        output: the output to judge that `--output` names, or None.
        crashed, try_s: see `Asked`.

    Returns:
        `weights` (the weights file's name), sizes by dimension that the user did not give (`guessed`), that the user
        gave (`given`) and that follow from others (`following`), and `notes` (lines to tell the user).

    Raises:
        InputError: the model or the data set cannot be used; the message says why.
    """
    source, target, place = Path(path), Path(folder), Path(data) if data else None
    wanted = Wanted.of(metric, output)
    kind = formats.module_of(module)
    _check_installed(kind)
    with explained(f"the data set {data} cannot be read"):
        arrays, targets = dataset.read(place) if place else (None, None)
    sizes: dict[str, Any] = {"dims": size_options.dims_from(dims), "shapes": size_options.shapes_from(shapes)}
    options = Asked(**sizes, trust=trust, arrays=arrays, crashed=tuple(crashed), try_s=try_s)
    with explained("it cannot be opened, or run once"):  # whatever a format's own steps do not expect
        facts: Found = kind.examine(source, target, options)
    weights = target / facts.task.weights
    if not weights.exists():  # the format keeps the file as it is
        shutil.copyfile(source, weights)
    if facts.example is not None and place is None:
        save_arrays(target / EXAMPLE, facts.example)
    with explained(f"the targets of {data} cannot be compared with the outputs"):
        judge, attributes, notes = _judge(place, arrays, targets, facts, target, wanted)
    code = imported_from(place.resolve().parent) if place is not None and place.suffix == dataset.PYTHON else []
    origins = {str(file): cache.file_digest(file) for file in (*facts.files, *code)}
    _write(target, facts, judge, {**attributes, "made_from": origins})
    sizes = {"guessed": facts.guessed, "given": dict(facts.chosen.given), "following": facts.chosen.following}
    return {"weights": facts.task.weights, **sizes, "notes": [*facts.notes, *notes]}


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
    data: Path | None, arrays: Arrays | None, targets: Any, facts: Found, folder: Path, wanted: Wanted
) -> tuple[type[OwnTask] | None, dict[str, Any], tuple[str, ...]]:
    """Write the samples beside the task.

    Returns:
        The class that judges the outputs, or None where there are no targets: then fidelity judges; the attributes that
        the class needs; and lines that tell the user what is judged.

    Raises:
        InputError: the samples do not fit the inputs or the targets, the targets fit no output, or the metric has no
            name.
    """
    if data is None or arrays is None:
        _refuse_named(wanted, "there are no targets to compare with: name them with --dataset")
        return None, {}, ()
    arrays = dataset.fitted(arrays, facts.inputs, batched=facts.batched, what=str(data))
    if data.suffix == dataset.PYTHON:
        _refuse_named(wanted, f"{data} has a metric of its own")
        return metrics.OwnMetrics, _own_metrics(data, arrays), ()
    save_arrays(folder / DATASET, arrays)
    if targets is None:
        _refuse_named(wanted, f"{data} has no array {dataset.TARGETS!r} to compare with")
        return None, {}, ()
    count = len(next(iter(arrays.values())))
    if not targets.ndim or len(targets) != count:
        raise InputError(f"{data}: targets has shape {targets.shape}; there are {count} samples")
    chosen = judge_of(
        targets,
        facts.outputs,
        batched=facts.batched,
        sizes=facts.sizes,
        observe=lambda names: _observed(facts, arrays, names),
        wanted=wanted,
        labels=facts.labels,
        data=str(data),
    )
    save_arrays(folder / TARGETS, {"targets": chosen.targets})
    return chosen.kind, dict(chosen.attributes), (chosen.note,)


def _refuse_named(wanted: Wanted, why: str) -> None:
    """Refuse a metric or an output that nothing can be judged by.

    Raises:
        InputError: the user named a metric or an output.
    """
    if wanted != Wanted():
        raise InputError(f"--metric and --output are about targets: {why}")


def _own_metrics(data: Path, arrays: Arrays) -> dict[str, Any]:
    """The attributes of a task with the metrics of a Python file.

    Raises:
        InputError: the metric has no name.
    """
    module = dataset.module(data)
    name = module.metric_name
    if not isinstance(name, str):
        raise InputError(f"{data}: metric_name must be a text, such as 'accuracy'")
    inputs = [
        (key, array.dtype.name, array.shape, hashlib.sha256(array.tobytes()).hexdigest())
        for key, array in arrays.items()
    ]
    return {
        "data": str(data.resolve()),
        "metric_name": name,
        "higher_is_better": bool(getattr(module, "higher_is_better", True)),
        "is_error_rate": bool(getattr(module, "is_error_rate", False)),
        "judged_as": f"metrics() of {data.name}",
        "inputs_digest": cache.digest(inputs),
    }


def _observed(facts: Found, arrays: Arrays, names: Collection[str]) -> Arrays | None:
    """Outputs for the first samples, along the first axis: as many as fit the time and the memory, one at least.

    Returns:
        None where the model does not run on them here; the cells that run it say why.
    """
    if facts.run is None:
        return None
    samples: list[dict[str, np.ndarray]] = []
    begun_s, num_bytes = time.monotonic(), 0
    try:
        for row in range(min(_NUM_OBSERVED, len(next(iter(arrays.values()))))):
            feeds = {name: array[row : row + 1] if facts.batched else array[row] for name, array in arrays.items()}
            outputs = {name: np.asarray(value) for name, value in facts.run(feeds).items() if name in names}
            samples.append({name: value[0] if facts.batched else value for name, value in outputs.items()})
            num_bytes += sum(value.nbytes for value in outputs.values())
            if time.monotonic() - begun_s > _OBSERVED_S or num_bytes > _OBSERVED_BYTES:
                break
        return {name: ragged.stacked(sample[name] for sample in samples) for name in samples[0]}
    except Exception:
        return None


def _write(folder: Path, facts: Found, judge: type[OwnTask] | None, attributes: dict[str, Any]) -> None:
    """Write `task.py`; every value in it is written by `repr`, since names in a model may hold any text."""
    fields = {
        "inputs": facts.inputs,
        "outputs": facts.outputs,
        "batched": facts.batched,
        "sizes": dict(facts.sizes),
        **({"labels": facts.labels} if facts.labels else {}),
        **facts.attributes,
        **attributes,
    }
    classes = [judge, facts.task] if judge else [facts.task]
    text = _TEMPLATE.format(
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
