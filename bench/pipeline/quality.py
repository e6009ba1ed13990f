"""The judgement of outputs against the reference's outputs, the same for every runtime: loss, metrics and errors."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from bench.api import Arrays, Points, Samples, Task, ragged
from bench.api.errors import PluginError
from bench.api.loss_units import DB, SHARE
from bench.onnxfile.deferred import np
from bench.pipeline import differences, feeding
from bench.pipeline.differences import Differences
from bench.records import metric_loss
from bench.records.lines import Quality
from bench.records.metric_loss import Lost

EXACT, CLOSE, DRIFTED, BROKEN = "exact", "close", "drifted", "broken"
_NOT_FINITE = (
    "no value of output {} is finite in the reference either, so its fidelity says little; give samples with --dataset"
)
_EMPTY = (
    "output {} has no element in any sample that ran, and neither has the reference's, so nothing of it was compared; "
    "give samples with --dataset for which it has some"
)
_NO_METRIC = (
    "{} of the reference is no finite number, so only outputs that equal its own count as right; leave out the samples "
    "and the targets of which it is none"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """The samples of a split that ran, and the figures of the reference on the whole split.

    The figures of a part are those of the reference on the whole split and the difference, on the part, of the outputs
    from the reference's: samples that are harder than others count for both, and equal answers have equal figures. The
    metrics that do not rank are known where the difference is zero.

    Attributes:
        rows: indices of the samples, the first in the drawn order of the split.
        loss: loss of the reference.
        metrics: metrics of the reference by name; None where they are not finite.
    """

    rows: Sequence[int]
    loss: float | None
    metrics: Mapping[str, float | None]


def judge(
    task: Task,
    samples: Samples,
    outputs: Arrays,
    expected: Arrays | None,
    *,
    part: Part | None = None,
    in_order: bool = False,
) -> Quality:
    """Judge the outputs of a split, or of a part of it.

    Args:
        task: defines the loss, the metrics and the limits.
        samples: the split.
        outputs: output arrays by name, with the samples along the first axis: those of the part, in its order.
        expected: the reference's outputs for the split, which are also the targets where the samples have none; None
            for the reference itself.
        part: the samples that ran; None for the whole split.
        in_order: whether the whole split ran in its drawn order, and might have ended sooner: see `Lost.of`.

    Returns:
        The fidelity with its reason, the loss, the metrics and the errors; the fields about the run are left empty.
        Of a part, `broken` with metrics says no more than that the whole split may be so.

    Raises:
        PluginError: the task's loss is in dB, and its points have another score than 1.
    """
    whole = outputs if expected is None else expected
    targets = _rows(whole, samples.num_samples) if samples.targets is None else samples.targets
    figures: dict[str, Any] = {"metric_name": task.metric_name, "higher_is_better": task.higher_is_better}
    if task.metric_loss_unit != SHARE:
        figures["metric_loss_unit"] = task.metric_loss_unit
    if task.judged_as is not None:
        figures["judged_as"] = task.judged_as
    if samples.targets is not None and (chance := task.chance(targets)) is not None:
        figures["chance"] = chance
    expected = whole if part is None else feeding.rows_of(whole, part.rows)
    if part is not None:
        figures["num_samples"] = len(part.rows)
    beside = differences.between(outputs, expected, None if part is None else part.rows)
    if beside.fault is not None:
        return Quality(**figures, fidelity=BROKEN, reason=beside.fault)
    num_samples = samples.num_samples if part is None else len(part.rows)
    if beside.num_unlike < num_samples:
        figures |= {"max_abs_error": _finite(beside.absolute), "relative_error": _finite(beside.relative)}
    if beside.shapes and not _may_differ(task, outputs, whole, beside.shapes):
        return Quality(**figures, fidelity=BROKEN, reason=beside.reason(num_samples))
    loss, metrics = _figures(task, outputs, expected, targets, part, is_equal=beside.is_equal)
    figures |= {
        "loss": _finite(loss),
        "metrics": {name: _finite(value) for name, value in metrics.items()},
        "doubts": _doubts(beside),
    }
    right = task.points(whole, targets)
    if isinstance(right, Points) and right.convention is not None:
        figures["convention"] = right.convention
    figures["lost"] = _lost(task, outputs, whole, right, targets, part, in_order=in_order)
    if beside.is_equal:
        return Quality(**figures, metric_loss=0.0, fidelity=EXACT)
    reference_metric = _reference_metric(task, expected, targets, part)
    figures["metric_loss"] = _finite(task.metric_loss(metrics[task.metric_name], reference_metric))
    sign = 1 if task.higher_is_better else -1
    lost = sign * (reference_metric - metrics[task.metric_name])
    if not math.isfinite(reference_metric):
        return Quality(**figures, fidelity=BROKEN, reason=_NO_METRIC.format(task.metric_name))
    if not lost <= task.max_metric_loss:  # a metric that is no number counts as lost
        by, most = _told_apart(lost, task.max_metric_loss)
        unit = " dB" if task.metric_name.endswith("_db") else ""
        reason = f"{task.metric_name} is worse than the reference's by {by}{unit}; at most {most}{unit} is allowed"
        return Quality(**figures, fidelity=BROKEN, reason=reason)
    is_close = not beside.shapes and beside.relative <= task.close
    return Quality(**figures, fidelity=CLOSE if is_close else DRIFTED)


def _may_differ(task: Task, outputs: Arrays, whole: Arrays, names: Iterable[str]) -> bool:
    """Whether a task judges outputs of other shapes than the reference's, which follow from the data.

    Args:
        task: the task.
        outputs: output arrays by name.
        whole: the reference's, for the whole split.
        names: names of the outputs that have other shapes.
    """
    open_ranks = {
        spec.name: len(spec.shape) + (not task.batched)
        for spec in task.outputs
        if any(isinstance(dim, str) for dim in spec.shape[int(task.batched) :])
    }
    return task.judges_other_shapes and all(
        ragged.is_ragged(whole[name])
        or ragged.is_ragged(outputs[name])
        or outputs[name].ndim == whole[name].ndim == open_ranks.get(name)
        for name in names
    )


def _figures(
    task: Task, outputs: Arrays, expected: Arrays, targets: Sequence[Any], part: Part | None, *, is_equal: bool
) -> tuple[float, dict[str, float]]:
    """The loss and the metrics by name; the arrays are of the samples that ran, the targets of the split."""
    if part is None:
        return float(task.loss(outputs, targets)), _metrics(task, outputs, targets)
    targets = [targets[row] for row in part.rows]
    loss = _known(part.loss) + (float(task.loss(outputs, targets)) - float(task.loss(expected, targets)))
    changes = dict.fromkeys(part.metrics, 0.0)
    if not is_equal:  # else a part may be too few samples for a metric, which is then NaN
        changes = _changes(task, outputs, expected, targets, part.metrics)
    return loss, {name: _known(part.metrics.get(name)) + change for name, change in changes.items()}


def _changes(
    task: Task, outputs: Arrays, expected: Arrays, targets: Sequence[Any], names: Iterable[str]
) -> dict[str, float]:
    """By name, how far the metrics of some samples are from the reference's on them."""
    ranked = task.metric_name
    if (change := float(task.metric(outputs, targets)) - float(task.metric(expected, targets))) != 0:
        # The others change, too, and may be no mean over samples, as a score of rare classes is not.
        return {**dict.fromkeys(names, math.nan), ranked: change}
    own, beside = _metrics(task, outputs, targets), _metrics(task, expected, targets)
    changes = {name: value - beside[name] for name, value in own.items()}
    return {name: change if change == 0 or name == ranked else math.nan for name, change in changes.items()}


def _reference_metric(task: Task, expected: Arrays, targets: Sequence[Any], part: Part | None) -> float:
    if part is not None:
        return _known(part.metrics.get(task.metric_name))
    return float(task.metric(expected, targets))


def _known(value: float | None) -> float:
    return math.nan if value is None else value


def _metrics(task: Task, outputs: Arrays, targets: Sequence[Any]) -> dict[str, float]:
    return {name: float(value) for name, value in task.metrics(outputs, targets).items()}


def _told_apart(value: float, limit: float) -> tuple[str, str]:
    """Two different numbers with as many digits, four at least, as tell them apart."""
    texts = ((f"{value:.{digits}g}", f"{limit:.{digits}g}") for digits in range(4, 18))
    return next(pair for pair in texts if pair[0] != pair[1])


def _lost(
    task: Task,
    outputs: Arrays,
    whole: Arrays,
    right: Points | str,
    targets: Sequence[Any],
    part: Part | None,
    *,
    in_order: bool,
) -> Lost | str:
    """What the samples lose of the ranked metric, or why that cannot be told.

    Args:
        task: defines the points.
        outputs: of the samples that ran.
        whole: the reference's outputs for the split.
        right: the points of these, or why there are none.
        targets: of the split.
        part: the samples that ran; None for all.
        in_order: see `judge`.

    Raises:
        PluginError: see `judge`.
    """
    if isinstance(right, str):
        return right
    if task.metric_loss_unit == DB and right.score != 1:
        raise PluginError(
            f"{task.path}: points() has the score {right.score:g}; of a task whose metric_loss_unit is {DB!r} it must "
            "be 1, or what is lost would be told as a share of it"
        )
    if part is None:
        own = task.points(outputs, targets)
    else:  # points are over the whole split: of a sample that has not run, no difference is known
        own_outputs = {name: ragged.replaced(array, part.rows, outputs[name]) for name, array in whole.items()}
        own = task.points(own_outputs, targets)
    assert not isinstance(own, str), f"{task.name} has points for some outputs only"
    if not (np.isfinite(own.values).all() and np.isfinite(right.values).all()):
        return "the points of a sample are not finite"
    if not (right.score > 0 and right.most > 0):
        return "the score of the reference, or all that a sample can lose of it, is zero"
    everyone = range(len(right.values))
    chosen: Sequence[int] = everyone
    if part is not None:
        place = {row: number for number, row in enumerate(right.rows or everyone)}
        chosen = [place[row] for row in part.rows if row in place]
    if not len(chosen):
        return "no sample that ran counts for the metric"
    of = len(right.values) if part is not None or in_order else None
    return metric_loss.lost(own.values[chosen], right.values[chosen], score=right.score, most=right.most, of=of)


def _rows(arrays: Arrays, num_samples: int) -> list[dict[str, np.ndarray]]:
    return [{name: array[row] for name, array in arrays.items()} for row in range(num_samples)]


def _finite(value: float) -> float | None:
    """The value; None where it is not finite, and so no number in JSON."""
    return value if math.isfinite(value) else None


def compare(task: Task, outputs: Arrays, expected: Arrays) -> Quality:
    """Judge outputs by their elements alone: a few samples may be too few for the task's metrics.

    No metric then tells whether classes, indices or hashes that are near by number are as good, so only the same are
    `close`.

    Returns:
        The errors and the fidelity: `broken` where outputs cannot be compared, never for the metric.
    """
    beside = differences.between(outputs, expected)
    if (reason := beside.reason(len(next(iter(expected.values()))))) is not None:
        return Quality(fidelity=BROKEN, reason=reason)
    is_close = beside.relative <= task.close and not beside.is_other
    fidelity = EXACT if beside.is_equal else CLOSE if is_close else DRIFTED
    return Quality(
        fidelity=fidelity,
        max_abs_error=_finite(beside.absolute),
        relative_error=_finite(beside.relative),
    )


def _doubts(beside: Differences) -> str | None:
    """What outputs that are not broken leave open."""
    doubts = [*beside.shapes.values(), *map(_NOT_FINITE.format, beside.unknown), *map(_EMPTY.format, beside.empty)]
    return "; ".join(doubts) or None


def hinted(judged: Quality, hints: Sequence[str]) -> Quality:
    """The quality with sentences about the model by which its outputs may differ, in the reason or in the doubts."""
    field = "reason" if judged.fidelity == BROKEN else "doubts"
    own = getattr(judged, field) or ""
    sentences = [own, *(hint for hint in hints if hint not in own)]  # a stored quality has them
    return replace(judged, **{field: "; ".join(filter(None, sentences)) or None})
