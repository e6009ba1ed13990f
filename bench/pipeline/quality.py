"""The judgement of outputs against the reference's outputs, the same for every runtime: loss, metrics and errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from bench.api import Arrays, Samples, Task
from bench.graphs.deferred import np
from bench.records import metric_loss
from bench.records.lines import Quality
from bench.records.metric_loss import Lost

EXACT, CLOSE, DRIFTED, BROKEN = "exact", "close", "drifted", "broken"


def judge(task: Task, samples: Samples, outputs: Arrays, expected: Arrays | None) -> Quality:
    """Judge the outputs of a whole split.

    Args:
        task: defines the loss, the metrics and the limits.
        samples: the split.
        outputs: output arrays by name, with the N samples along the first axis.
        expected: the reference's outputs for the same samples, which are also the targets where the samples have none;
            None for the reference itself.

    Returns:
        The fidelity with its reason, the loss, the metrics and the errors; the fields about the run are left empty.
    """
    expected = outputs if expected is None else expected
    targets = _rows(expected, samples.num_samples) if samples.targets is None else samples.targets
    figures: dict[str, Any] = {"metric_name": task.metric_name, "higher_is_better": task.higher_is_better}
    if task.judged_as is not None:
        figures["judged_as"] = task.judged_as
    if samples.targets is not None and (chance := task.chance(targets)) is not None:
        figures["chance"] = chance
    if (reason := _malformed(outputs, expected)) is not None:
        return Quality(**figures, fidelity=BROKEN, reason=reason)
    errors = [_error(outputs[name], expected[name]) for name in expected]
    absolute_error = max(absolute for absolute, _ in errors)
    relative_error = max(relative for _, relative in errors)
    metrics = {name: float(value) for name, value in task.metrics(outputs, targets).items()}
    figures |= {
        "max_abs_error": _finite(absolute_error),
        "relative_error": _finite(relative_error),
        "loss": _finite(float(task.loss(outputs, targets))),
        "metrics": {name: _finite(value) for name, value in metrics.items()},
    }
    figures["lost"] = _lost(task, outputs, expected, targets)
    if absolute_error == 0:
        return Quality(**figures, metric_loss=0.0, fidelity=EXACT)
    reference_metric = float(task.metrics(expected, targets)[task.metric_name])
    figures["metric_loss"] = _finite(task.relative_loss(metrics[task.metric_name], reference_metric))
    sign = 1 if task.higher_is_better else -1
    lost = sign * (reference_metric - metrics[task.metric_name])
    if not lost <= task.max_metric_loss:  # a metric that is no number counts as lost
        by, most = _told_apart(lost, task.max_metric_loss)
        unit = " dB" if task.metric_name.endswith("_db") else ""
        reason = f"{task.metric_name} is worse than the reference's by {by}{unit}; at most {most}{unit} is allowed"
        return Quality(**figures, fidelity=BROKEN, reason=reason)
    return Quality(**figures, fidelity=CLOSE if relative_error <= task.close else DRIFTED)


def _told_apart(value: float, limit: float) -> tuple[str, str]:
    """Two different numbers with as many digits, four at least, as tell them apart."""
    texts = ((f"{value:.{digits}g}", f"{limit:.{digits}g}") for digits in range(4, 18))
    return next(pair for pair in texts if pair[0] != pair[1])


def _lost(task: Task, outputs: Arrays, expected: Arrays, targets: Sequence[Any]) -> Lost | str:
    """What the samples lose of the ranked metric, or why that cannot be told."""
    right = task.points(expected, targets)
    if isinstance(right, str):
        return right
    own = task.points(outputs, targets)
    assert not isinstance(own, str), f"{task.name} has points for some outputs only"
    if not (np.isfinite(own.values).all() and np.isfinite(right.values).all()):
        return "the points of a sample are not finite"
    if not (right.score > 0 and right.most > 0):
        return "the score of the reference, or all that a sample can lose of it, is zero"
    return metric_loss.lost(own.values, right.values, score=right.score, most=right.most)


def _rows(arrays: Arrays, num_samples: int) -> list[dict[str, np.ndarray]]:
    return [{name: array[row] for name, array in arrays.items()} for row in range(num_samples)]


def _finite(value: float) -> float | None:
    """The value; None where it is not finite, and so no number in JSON."""
    return value if math.isfinite(value) else None


def _malformed(outputs: Arrays, expected: Arrays) -> str | None:
    """Why the outputs cannot be compared; None where they can."""
    for name, reference in expected.items():
        output = outputs[name]
        if output.shape != reference.shape:
            return f"output {name} has shape {output.shape}; the reference has {reference.shape}"
        if reference.dtype.kind == "U":
            if output.dtype.kind != "U":
                return f"output {name} holds {output.dtype}, not strings"
            continue
        if not np.issubdtype(output.dtype, np.number) and output.dtype != np.bool_:
            return f"output {name} holds {output.dtype}, not numbers"
        if num_bad := np.count_nonzero(~np.isfinite(output)):
            return f"output {name} holds {num_bad} values that are not finite, of {output.size}"
    return None


def _error(output: np.ndarray, reference: np.ndarray) -> tuple[float, float]:
    """The largest absolute difference, and its ratio to the largest magnitude of the reference; strings differ by 1."""
    if reference.dtype.kind == "U":
        differs = float(np.any(output != reference))
        return differs, differs
    absolute = float(np.abs(output.astype(np.float64) - reference.astype(np.float64)).max(initial=0.0))
    scale = float(np.abs(reference.astype(np.float64)).max(initial=0.0))
    return absolute, absolute / scale if scale else absolute


def compare(task: Task, outputs: Arrays, expected: Arrays) -> Quality:
    """Judge outputs by their elements alone: a few samples may be too few for the task's metrics.

    Returns:
        The errors, and the fidelity: `broken` where the outputs cannot be compared, never for the metric.
    """
    if (reason := _malformed(outputs, expected)) is not None:
        return Quality(fidelity=BROKEN, reason=reason)
    errors = [_error(outputs[name], expected[name]) for name in expected]
    absolute, relative = (max(each) for each in zip(*errors, strict=True))
    fidelity = EXACT if absolute == 0 else CLOSE if relative <= task.close else DRIFTED
    return Quality(fidelity=fidelity, max_abs_error=_finite(absolute), relative_error=_finite(relative))


def hinted(judged: Quality, hints: Sequence[str]) -> Quality:
    """The quality with sentences about the model by which its outputs may differ, in the reason or in the warning."""
    field = "reason" if judged.fidelity == BROKEN else "warning"
    own = getattr(judged, field) or ""
    told = [own, *(hint for hint in hints if hint not in own)]  # a stored quality has them
    return replace(judged, **{field: "; ".join(filter(None, told)) or None})
