"""Many comparisons at once: which differences stand, and the intervals of those that were picked out.

Of a hundred cells that did not change, five leave a ratio of one out of their 95 % interval, and a list of these five
would look like news. So winners are called among the cells that Benjamini and Hochberg's procedure selects: at most 5 %
of them are expected to be none, and where nothing changed at all, 95 % of runs call nothing. An interval that is looked
at because it was selected misses more often than it says: those of R selected ones of m are so much wider that of all
that were selected 5 % miss.

Cells that share a baseline are not independent, but lean the same way, under which the procedure still holds.

Two runs differ in more than their launches tell: the machine was busier in one of them, and that slows a baseline by
another factor than the cells beside it. No launch within a run samples this, but the cells together do, which move more
than their launches allow, or all alike. `with_drift` adds what is missing to the error of each.

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
from bench.measure.stats import Effect, Error, Estimate

MEDIAN_CHI2 = 0.454936  # of the square of a standard normal number
FEWEST_CELLS = 5
"""Of which a drift can be told."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judged:
    """What the data say of one comparison among many.

    Attributes:
        ratio: with the interval that misses it with probability `alpha`.
        p_value: adjusted for all comparisons: the smallest rate of false ones at which it would be selected; None where
            there were too few launches to test anything.
        verdict: see `stats.verdict`; a winner was selected, too.
    """

    ratio: Estimate
    alpha: float
    p_value: float | None
    verdict: str


def judge(comparisons: Sequence[Comparison], *, margin: float) -> list[Judged | None]:
    """Judge comparisons together.

    Args:
        margin: what counts as no difference, as a share.

    Returns:
        One for each, in their order; None for those that have no ratio.
    """
    tested = [index for index, found in enumerate(comparisons) if _can_be_tested(found)]
    p_values = dict(zip(tested, adjusted([_p_value(comparisons[index]) for index in tested]), strict=True))
    num_selected = sum(p_value <= stats.ALPHA for p_value in p_values.values())
    judged = []
    for index, found in enumerate(comparisons):
        p_value = p_values.get(index)
        is_selected = p_value is not None and p_value <= stats.ALPHA
        alpha = stats.ALPHA * num_selected / len(tested) if is_selected else stats.ALPHA
        judged.append(_judged(found, alpha, p_value, is_selected, margin))
    return judged


def _judged(found: Comparison, alpha: float, p_value: float | None, is_selected: bool, margin: float) -> Judged | None:
    if found.effect is None:
        return None
    ratio = found.effect.ratio(alpha)
    verdict = stats.verdict(ratio, found.control, num_launches=found.num_launches, margin=margin, may_win=is_selected)
    return Judged(ratio=ratio, alpha=alpha, p_value=p_value, verdict=verdict)


def _can_be_tested(found: Comparison) -> bool:
    """Whether it might get a verdict: which does not depend on the difference, so the others bear no extra burden."""
    enough = found.num_launches >= stats.MIN_LAUNCHES
    return enough and found.effect is not None and math.isfinite(found.effect.half_width())


def _p_value(found: Comparison) -> float:
    assert found.effect is not None
    return found.effect.p_value()


def adjusted(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's adjusted p-values, in the order of the p-values."""
    if not p_values:
        return []
    from scipy.stats import false_discovery_control

    return [float(value) for value in false_discovery_control(p_values)]


def drift(changes: Sequence[Comparison]) -> float:
    """Standard deviation, on the log scale, of what moved cells from one run to another besides their launches' noise.

    It comes from the median change and the median distance from it, so a few cells that really changed do not count;
    what moved most of them alike does, for it cannot be told from a baseline that moved.

    Args:
        changes: of cells of one baseline, see `compare.change`.

    Returns:
        0 for fewer than `FEWEST_CELLS`.
    """
    effects = [found.effect for found in changes if _can_be_tested(found) and found.effect is not None]
    if len(effects) < FEWEST_CELLS:
        return 0.0
    shift = statistics.median(effect.value for effect in effects)
    spread = statistics.median((effect.value - shift) ** 2 for effect in effects) / MEDIAN_CHI2
    expected = statistics.median(effect.half_width(0.5) ** 2 for effect in effects) / MEDIAN_CHI2
    return math.sqrt(max(0.0, shift**2 + spread - expected))


def with_drift(changes: Sequence[Comparison]) -> list[Comparison]:
    """The changes of one baseline's cells with their drift among their errors."""
    num_tested = sum(map(_can_be_tested, changes))
    error = Error(across=drift(changes), freedom=num_tested, within=0.0, launches=1)
    return [
        dataclasses.replace(found, effect=Effect(value=found.effect.value, errors=(*found.effect.errors, error)))
        if found.effect is not None and error.across > 0
        else found
        for found in changes
    ]
