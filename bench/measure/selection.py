"""Selection of the fastest of several candidates, with claims that hold although the data chose which to make.

The candidate that looks fastest does so partly by luck, and its interval alone would be too good. So every claim here
holds for all candidates at once that may have been chosen. Those that are far behind could not have been chosen,
whatever the noise, and a tenth of the error probability is spent on telling them apart from the rivals.

A regret is a difference from the fastest of all, whichever that is. So the claims about a candidate and its rivals are
comparisons with one cell, whose errors have much in common: see `bench.measure.simultaneous`. Other claims have
Bonferroni's correction.

One launch says nothing of how far the launches of a cell differ. So no regret is claimed before the cell and the rivals
that are near it have been launched in `LEAST_LAUNCHES` blocks each.

Sources: Bechhofer 1954, doi 10.1214/aoms/1177728845 (indifference zone); Hsu 1984, doi 10.1214/aos/1176346732
(comparisons with the best, and why one cell that the data did not choose needs no correction); Zrnic and Fithian 2024,
arXiv 2212.09009 (correction for the plausible selections).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from bench.measure import simultaneous, stats
from bench.measure.comparison import Fitted
from bench.measure.looks import nominal
from bench.measure.stats import Effect, Estimate, exp

SPENT = stats.ALPHA / 10
"""Probability of error that goes into telling rivals from candidates that are far behind."""
LEAST_LAUNCHES = 2
"""Fewest launches, in blocks of their own, of a winner and of each of its rivals before a regret is claimed."""
_APART = 0.05
"""A rival that was shown to be slower by this share needs no second launch; only larger tolerances have such rivals."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Selection:
    """The candidate with the smallest estimate, and what is sure of it and of its rivals.

    All regrets of up to `within` together are true with 95 % confidence, and so are all statements that candidates are
    slower. A larger regret is a bound for candidates that are not told apart, to compare such candidates by.

    Attributes:
        first: the candidate that looks fastest.
        others: the other candidates, fastest first.
        rivals: those of the others that may be the fastest of all but for `within`.
        slower: those of the others that were shown to be slower than the first by more than `within`. That says more
            than to be no rival: the first candidate was chosen by the data, so it is a statement about pairs.
        regrets: by name, for the first candidate and its rivals, the largest share by which the candidate may be slower
            than the fastest of all candidates; infinite while it, or one of the others but those that are far slower
            (`_APART`), has too few launches.
        within: largest share by which a candidate may be slower and still count as equally good.
        alpha: probability of error of each comparison, on one side.
    """

    first: str
    others: tuple[str, ...]
    rivals: tuple[str, ...]
    slower: tuple[str, ...]
    regrets: Mapping[str, float]
    within: float
    alpha: float


def select(fitted: Fitted, candidates: Sequence[str], *, within: float, looks: int = 1) -> Selection | None:
    """Select the fastest of the candidates that ran beside the baseline; None without any.

    Args:
        fitted: the cells of one group.
        candidates: names of the cells to choose among.
        within: largest share by which a candidate may be slower and still count as equally good.
        looks: how often the candidates may be looked at until the claims are answered; see `bench.measure.looks`.
    """

    def level(alpha: float) -> float:  # of each look, on one side
        return nominal(2 * alpha, looks) / 2

    levels = {name: fitted.effect(name, fitted.baseline).value for name in candidates if name in fitted.names}
    if not levels:
        return None
    ordered = sorted(levels, key=lambda name: (levels[name], name))
    first, others = ordered[0], ordered[1:]
    each = level(SPENT / max(1, len(others)))
    rivals = [name for name in others if lowest(fitted.effect(name, first), each) <= math.log1p(within)]
    alpha = level(simultaneous.level(fitted.covariance((first, *rivals)), stats.ALPHA - SPENT))
    # Within the rivals the usual level tells more: those that are slower by more than the margin are no rivals.
    rivals = [name for name in rivals if lowest(fitted.effect(name, first), alpha) <= math.log1p(within)]
    best = (first, *rivals)  # one of them is the fastest for sure
    regrets = {name: _regret(fitted, name, [other for other in best if other != name], alpha) for name in best}
    if not is_known(fitted, first):
        regrets[first] = math.inf
    pairs = _num_plausible(fitted, first, others) * max(1, len(others))
    behind = [lowest(fitted.effect(name, first), (stats.ALPHA - SPENT) / pairs) for name in others]
    return Selection(
        first=first,
        others=tuple(others),
        rivals=tuple(rivals),
        slower=tuple(name for name, least in zip(others, behind, strict=True) if least > math.log1p(within)),
        regrets=regrets,
        within=within,
        alpha=alpha,
    )


def is_known(fitted: Fitted, *names: str) -> bool:
    """Whether cells have been launched often enough for a claim about the fastest."""
    return all(fitted.num_launches[name] >= LEAST_LAUNCHES for name in names)


def regret(fitted: Fitted, name: str, others: Sequence[str]) -> float:
    """The largest share by which a cell that was not selected for its speed may be slower than the fastest of others.

    With 95 % confidence; infinite while the cell, or one of the others that may be faster, has too few launches.

    Args:
        fitted: the cells of one group.
        name: name of the cell.
        others: names of the others, each of which ran beside the baseline.
    """
    if others and not is_known(fitted, name):
        return math.inf
    faster = [other for other in others if highest(fitted.effect(name, other), stats.ALPHA) > 0]
    return _regret(fitted, name, faster, stats.ALPHA)


def _regret(fitted: Fitted, name: str, others: Sequence[str], alpha: float) -> float:
    """The largest share by which a cell may be slower than the fastest of some others.

    It is not known while one of them has too few launches, but for those that were shown to be slower by `_APART`.
    """
    most = {other: highest(fitted.effect(name, other), alpha) for other in others}
    near = [other for other in others if most[other] > -math.log1p(_APART)]
    if others and not is_known(fitted, name, *near):
        return math.inf
    return max([0.0, *(exp(value) - 1 for value in most.values())])


def _num_plausible(fitted: Fitted, selected: str, others: Sequence[str], within: float = 0.0) -> int:
    """The number of candidates that might have been selected, the selected one included.

    Args:
        within: largest share by which a candidate may be slower than the fastest and still be selected.
    """
    each = SPENT / max(1, len(others))
    # Twice the half-width: both the data and the truth may lie that far from one another.
    return 1 + sum(lowest(fitted.effect(name, selected), each, times=2) <= math.log1p(within) for name in others)


def selected_ratio(
    fitted: Fitted, selected: str, other: str, candidates: Sequence[str], *, within: float = 0.0
) -> Estimate | None:
    """A selected cell over another one, with an interval that holds although the cell was selected for its speed.

    Args:
        fitted: the cells of one group.
        selected: name of the cell that was selected among the candidates as the fastest.
        other: name of the cell to compare with.
        candidates: names of the cells that it was selected among.
        within: largest share by which a candidate may be slower than the fastest and still be selected.

    Returns:
        None where the two were not compared.
    """
    effect = fitted.between(selected, other).effect
    if effect is None:
        return None
    others = [name for name in candidates if name != selected and name in fitted.names]
    if not others:
        return effect.ratio()
    return effect.ratio((stats.ALPHA - SPENT) / _num_plausible(fitted, selected, others, within))


def lowest(effect: Effect, alpha: float, times: float = 1.0) -> float:
    """The least that the effect may be, on the log scale; wrong with probability `alpha`."""
    return effect.value - times * effect.half_width(2 * alpha)


def highest(effect: Effect, alpha: float) -> float:
    """The most that the effect may be, on the log scale; wrong with probability `alpha`."""
    return effect.value + effect.half_width(min(1.0, 2 * alpha))
