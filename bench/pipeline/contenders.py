"""The cells of a sweep whose metric matters for its answer: those that may be the fastest, and the smaller they are.

A sweep knows how fast its cells are, roughly, after one launch of each. It verifies these cells further, and leaves the
others at the samples that every cell runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from bench.measure import comparison
from bench.measure.comparison import Fitted
from bench.measure.ledgers import Group
from bench.measure.selection import select
from bench.pipeline.flow import Verified
from bench.pipeline.quality import BROKEN
from bench.records.lines import Quality
from bench.records.metric_loss import Lost
from bench.records.pareto import undominated

WITHIN = 0.1
"""A cell that may be slower than the fastest by no more than this share is a contender: the smaller, the more often a
later launch names a fastest cell that was not verified further."""
RARE = 0.01
"""Probability at which the loss on a part of the split rules a cell out."""


def of(groups: Sequence[Group], values: Mapping[str, Verified], limit: float) -> set[str]:
    """Keys of the contenders among the cells of some groups.

    Args:
        groups: the cells with their launches so far.
        values: the verified cells by key.
        limit: largest share of the metric that a deployment may lose.
    """
    fits = comparison.fit([group.launched() for group in groups])
    return {key for group, fitted in zip(groups, fits, strict=True) for key in _of(group, fitted, values, limit)}


def _of(group: Group, fitted: Fitted, values: Mapping[str, Verified], limit: float) -> set[str]:
    names = [
        ledger.name
        for ledger in group.ledgers
        if ledger.name in fitted.names and not ledger.failed and may_keep(values[ledger.name].quality, limit)
    ]
    selection = select(fitted, names, within=WITHIN)
    if selection is None:
        return set()
    points = [(fitted.effect(name, fitted.baseline).value, float(values[name].artifact.size_bytes)) for name in names]
    return {selection.first, *selection.rivals, *(names[index] for index in undominated(points))}


def may_keep(quality: Quality, limit: float) -> bool:
    """Whether a cell may be shown to lose no more than a share of its metric.

    The whole split has shown it or not. A part leaves it open unless so large a loss on it were rare, with a
    probability of 1 % at most, for a cell at the limit: a few samples that lose something are no evidence.

    Source: Hoeffding 1963, doi 10.1080/01621459.1963.10500830 (means of bounded variables).
    """
    if quality.fidelity == BROKEN or quality.metric_loss is None:
        return False
    if quality.is_whole or not isinstance(quality.lost, Lost):
        return quality.loss_bound is not None and quality.loss_bound <= limit
    lost = quality.lost
    mean, level = (share * lost.score / lost.most for share in (lost.mean, limit))
    return mean <= level or lost.num_samples * _divergence(min(mean, 1.0), level) < -math.log(RARE)


def _divergence(one: float, other: float) -> float:
    """Of one Bernoulli distribution from another, by Kullback and Leibler, by their means."""
    pairs = ((one, other), (1 - one, 1 - other))
    return sum(share * math.log(share / beside) if beside else math.inf for share, beside in pairs if share)
