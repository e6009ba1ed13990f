"""Verdicts on many comparisons at once, corrected for their number: which differences are real, and how large.

Among a hundred cells that did not change, five are expected to have a 95 % interval without the ratio 1, and would be
reported as changes. Winners are therefore called only among the cells that the procedure of Benjamini and Hochberg
selects: at most 5 % of the selected cells are expected to be false, and where no cell changed, 95 % of runs call no
winner. Intervals that are shown because their cells were selected would also miss more often than 5 % of the time: for
R selected cells of m tested cells, the intervals are widened (to a level of 1 - 0.05 R / m), so that 5 % of them miss.

Cells that share a baseline depend on one another, mostly positively. The procedure is proved for such tests on one
side; on two sides, the simulations of `benchmarks/coverage.py` show that it holds.

Two runs differ by more than the spread of their launches: the machine may have been busier in one run, which slows the
baseline by another factor than the other cells. No launch within a run samples this difference, but the cells together
show it, as they all move alike or move further than their launches allow. `with_drift` adds this drift to the error of
each cell.

Sources: Benjamini and Hochberg 1995, doi 10.1111/j.2517-6161.1995.tb02031.x; Benjamini and Yekutieli 2001, doi
10.1214/aos/1013699998 (dependence), and 2005, doi 10.1198/016214504000001907 (intervals of the selected).
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence

from bench.measure import stats
from bench.measure.comparison import Comparison
from bench.measure.stats import Effect, Estimate

_MEDIAN_CHI2 = 0.454936  # median of the square of a standard normal variable
FEWEST_CELLS = 5
"""Fewest cells from which a drift can be estimated."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judged:
    """The result of one comparison, corrected for the number of comparisons.

    Attributes:
        ratio: the ratio of latencies, with the interval that misses it with probability `alpha`.
        alpha: probability that the interval misses the ratio.
        p_value: adjusted for all comparisons: the smallest false discovery rate at which the comparison would be
            selected.
        verdict: see `stats.verdict`; only a selected comparison is called `faster` or `slower`.
    """

    ratio: Estimate
    alpha: float
    p_value: float
    verdict: str


def judge(comparisons: Sequence[Comparison], *, margin: float, alpha: float = stats.ALPHA) -> list[Judged | None]:
    """Judge comparisons together.

    Args:
        comparisons: all comparisons that are reported together.
        margin: largest difference that counts as none, as a share.
        alpha: share of the called winners that may be false, and of the intervals that may miss.

    Returns:
        A result for each comparison, in their order; None for a comparison that has no ratio.
    """
    tested = {index: comparison.effect for index, comparison in enumerate(comparisons) if comparison.effect is not None}
    p_values = dict(zip(tested, adjusted([effect.p_value() for effect in tested.values()]), strict=True))
    num_selected = sum(p_value <= alpha for p_value in p_values.values())
    judged: list[Judged | None] = []
    for index, comparison in enumerate(comparisons):
        if comparison.effect is None:
            judged.append(None)
            continue
        p_value = p_values[index]
        is_selected = p_value <= alpha
        own_alpha = alpha * num_selected / len(tested) if is_selected else alpha
        ratio = comparison.effect.ratio(own_alpha)
        verdict = stats.verdict(ratio, margin=margin, may_win=is_selected)
        judged.append(Judged(ratio=ratio, alpha=own_alpha, p_value=p_value, verdict=verdict))
    return judged


def adjusted(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's adjusted p-values, in the order of the p-values.

    As `scipy.stats.false_discovery_control`, whose import takes half a second.
    """
    number = len(p_values)
    order = sorted(range(number), key=p_values.__getitem__)
    least = 1.0
    adjusted = [1.0] * number
    for rank, index in reversed([*enumerate(order, 1)]):
        least = min(least, p_values[index] * (number / rank))
        adjusted[index] = least
    return adjusted


def drift(changes: Sequence[Comparison]) -> float:
    """How far cells moved from one run to another beyond the noise of their launches.

    The drift is estimated from the median change and the median distance from it, so a few cells that really changed do
    not count; a change that most cells share does count, because it cannot be distinguished from a baseline that moved.

    Args:
        changes: changes of cells of one baseline, see `comparison.change`.

    Returns:
        A standard deviation on the log scale; 0 for fewer than `FEWEST_CELLS` testable changes.
    """
    effects = [change.effect for change in changes if change.effect is not None]
    if len(effects) < FEWEST_CELLS:
        return 0.0
    shift = statistics.median(effect.value for effect in effects)
    spread = statistics.median((effect.value - shift) ** 2 for effect in effects) / _MEDIAN_CHI2
    expected = statistics.median(effect.half_width(0.5) ** 2 for effect in effects) / _MEDIAN_CHI2
    return math.sqrt(max(0.0, shift**2 + spread - expected))


def with_drift(changes: Sequence[Comparison]) -> list[Comparison]:
    """The changes of the cells of one baseline, with their common drift added to the error of each."""
    num_tested = sum(change.effect is not None for change in changes)
    added = Effect(value=0.0, error=drift(changes), freedom=num_tested)
    if added.error == 0:
        return list(changes)
    return [dataclasses.replace(change, effect=change.effect and change.effect - added) for change in changes]
