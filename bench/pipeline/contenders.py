"""The cells of a sweep whose metric matters for its answer: those that may be the fastest, and the smaller they are.

A sweep knows how fast its cells are, roughly, after one launch of each. It verifies these cells further, and leaves the
others at the samples that every cell runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from bench.api.loss_units import AllowedLoss
from bench.measure import comparison
from bench.measure.comparison import Fitted
from bench.measure.ledgers import Group
from bench.measure.selection import select
from bench.pipeline import rounding
from bench.pipeline.flow import Verified
from bench.pipeline.quality import BROKEN
from bench.records.lines import Quality
from bench.records.measured_cell import what_answers
from bench.records.metric_loss import Lost, level
from bench.records.pareto import undominated

WITHIN = 0.1
"""A cell that may be slower than the fastest by no more than this share is a contender: the smaller, the more often a
later launch names a fastest cell that was not verified further."""


def of(groups: Sequence[Group], values: Mapping[str, Verified], allowed: AllowedLoss) -> set[str]:
    """Keys of the contenders among the cells of some groups.

    Args:
        groups: the cells with their launches so far.
        values: the verified cells by key.
        allowed: the most that a deployment may lose of the metric.
    """
    fits = comparison.fit([group.launched() for group in groups])
    return {key for group, fitted in zip(groups, fits, strict=True) for key in _of(group, fitted, values, allowed)}


def _of(group: Group, fitted: Fitted, values: Mapping[str, Verified], allowed: AllowedLoss) -> set[str]:
    precisions = {value.cell.path: value.quality.precision for value in values.values()}
    names = [
        ledger.name
        for ledger in group.ledgers
        if ledger.name in fitted.names and not ledger.failed
        if bound(values[ledger.name], precisions) == 0 or may_keep(values[ledger.name].quality, allowed)
    ]
    selection = select(fitted, names, within=WITHIN)
    if selection is None:
        return set()
    points = [(fitted.effect(name, fitted.baseline).value, float(values[name].artifact.size_bytes)) for name in names]
    return {selection.first, *selection.rivals, *(names[index] for index in undominated(points))}


def that_keep(
    group: Group,
    values: Mapping[str, Verified],
    precisions: Mapping[str, str | None],
    allowed: AllowedLoss,
    tolerance: float,
) -> set[str]:
    """Names of the cells of a group that keep their metric, by the rule by which a pick takes them.

    Lossy cells that a pick may ship share its probability of error (`bench.records.metric_loss.level`): those that by
    the launches so far are not slower than all others by more than the tolerance. Where the split is too small to be
    sure of any cell, those are named that keep the metric on the split.

    Args:
        group: the cells with their launches so far.
        values: the verified cells by key.
        precisions: see `bound`.
        allowed: the most that a deployment may lose of the metric.
        tolerance: largest share by which a deployment that is shipped may be slower than the fastest.
    """
    (fitted,) = comparison.fit([group.launched()])
    own = {ledger.name: values[ledger.name] for ledger in group.ledgers}
    bounds = {name: bound(value, precisions) for name, value in own.items()}
    lost = {
        name: value.quality.lost
        for name, value in own.items()
        if bounds[name] and isinstance(value.quality.lost, Lost)
        if rounding.is_lossy(value.cell, value.quality.precision)
    }
    limit = min((allowed.of(value.quality.loss_unit) for value in own.values()), default=0.0)  # of one task, it is one
    keep = {name for name, most in bounds.items() if name not in lost and most is not None and most <= limit}
    levels = {name: fitted.effect(name, fitted.baseline).value for name in own if name in fitted.names}
    fastest = min((levels[name] for name in keep if name in levels), default=math.inf)
    near = [each for name, each in lost.items() if levels.get(name, -math.inf) <= fastest + math.log1p(tolerance)]
    alpha = level([each for each in near if each.may_be_shown(limit)], limit)
    keep |= {name for name, each in lost.items() if each.high(alpha=alpha) <= limit}
    losses = {name: value.quality.metric_loss for name, value in own.items()}
    return keep or {name for name, loss in losses.items() if loss is not None and loss <= limit}


def most_lossy(contenders: Iterable[Verified]) -> int:
    """The most lossy contenders of one request, which share the probability of error; at least one.

    See `bench.records.metric_loss.level`. Those that claim to lose nothing are held to what rounding explains.
    """
    answers: dict[object, set[object]] = {}
    for value in contenders:
        if rounding.is_lossy(value.cell, value.quality.precision):
            answers.setdefault(value.cell.group, set()).add(what_answers(value.cell, value.artifact))
    return max(map(len, answers.values()), default=1)


def bound(value: Verified, precisions: Mapping[str, str | None]) -> float | None:
    """What a cell may lose of the metric: nothing where its outputs are the reference's.

    Args:
        value: the cell.
        precisions: of all cells by their paths, among them the reference, if it was verified.
    """
    quality = value.quality
    reference = precisions.get(quality.reference or "")
    return 0.0 if quality.loses_nothing(value.cell.path, reference) else quality.loss_bound


def may_keep(quality: Quality, allowed: AllowedLoss) -> bool:
    """Whether a cell may be shown to lose no more of its metric than is allowed.

    The whole split has shown it or not. A part leaves it open unless it rules it out: a few samples that lose something
    are no evidence.
    """
    if quality.fidelity == BROKEN or quality.metric_loss is None:
        return False
    limit = allowed.of(quality.loss_unit)
    if quality.is_whole or not isinstance(quality.lost, Lost):
        return quality.loss_bound is not None and quality.loss_bound <= limit
    return not quality.lost.rules_out(limit)
