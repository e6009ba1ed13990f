"""How much of the metric a deployment may lose for all that its held-out samples tell: a one-sided 95 % bound.

The bound is the 95 % quantile of the Bayesian bootstrap of the mean points lost, paired by sample, with one sample
added that loses the most that a sample can lose. Where no sample differs, and where those that differ all lose
the most, it is the exact (Clopper-Pearson) bound of the binomial distribution, so it is never zero; with many samples
that differ, it is the percentile bound of the paired bootstrap. It needs no other assumption on the samples than that
they are independent and that none can lose more; its coverage is known from proofs of special cases and from
simulations: `benchmarks/metric_bounds.py` shows that of the metrics here.

Where the fastest of several deployments is shipped that were shown to keep the metric, each has a chance to be shown so
by luck. `level` shares the 5 % among them.

Where samples run in a drawn order until the loss is known well enough, the bound must hold at all looks together, so
they share the 5 %. While no sample loses anything, it is the binomial bound again: it holds at all looks, because it
can only fail after as many samples as are unlikely to all lose nothing. Where some do, it is the largest mean loss
against which fair bets have not yet won; their wealth rarely gets that large, whenever one looks. At the end it is the
bound above.

Sources: Gaffke 2005, "Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative
variable", Mathematical Methods of Statistics 14(4); Learned-Miller and Thomas 2019, arXiv:1905.06208 (the same bound,
and its coverage); Rubin 1981, doi 10.1214/aos/1176345338 (the Bayesian bootstrap); Davison and Hinkley 1988, doi
10.1093/biomet/75.3.417 (saddlepoint instead of resampling); Waudby-Smith and Ramdas 2024, doi 10.1093/jrsssb/qkad009
(means of bounded variables by betting); Ville 1939 (the wealth of fair bets); Holm 1979, "A simple sequentially
rejective multiple test procedure", Scandinavian Journal of Statistics 6(2); Hoeffding 1963, doi
10.1080/01621459.1963.10500830 (means of bounded variables).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection
from typing import Annotated, TypeAlias

import msgspec
import numpy as np

ALPHA = 0.05  # of the one-sided bound
_NONE_LOST, _SOME_LOST, _AT_THE_END = 0.18, 0.02, 0.8
"""Shares of `ALPHA` that three bounds of one sequence of samples get: before its end, where none of the samples so far
loses anything, and where some do; and at its end, where the bound should be nearly that of a split that just ran."""
STAKES = {1.0: 0.5, 0.5: 0.2, 0.2: 0.2, 0.05: 0.1}
"""Shares of its wealth that each part of a bet stakes, and the part's share of the first wealth. Large stakes win where
few samples differ, small stakes where many do."""
RARE = 0.01
"""Probability at which a loss on some samples rules a deployment out."""
RESOLUTION = 1e-6
"""Points lost that are a smaller share of the points that samples have are taken for none: they are the rounding of
sums."""
_MOST_SAMPLES = 10_000_000
"""Largest number of samples that is named as enough."""
_MOST_POINTS = 1e15
"""Points and scores are no larger: the bound is found by doubles, which could not tell larger points apart."""
_Points: TypeAlias = Annotated[float, msgspec.Meta(ge=-_MOST_POINTS, le=_MOST_POINTS)]


class Lost(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """How the samples of a split differ from the reference's in the ranked metric.

    Attributes:
        num_samples: number of samples that the metric is over.
        score: the reference's score, in points a sample; 1 where the loss is told in points, as that in dB is.
        most: the most points that a sample can lose, see `bench.api.plugin.Points`.
        points: number among the samples, and points lost, of each sample that differs; negative points are a gain.
        of: number of samples of the split, where these are the first in its order that ran until the loss was known
            well enough; unset for a split that was to run as a whole.
    """

    num_samples: Annotated[int, msgspec.Meta(ge=1, le=_MOST_SAMPLES)]
    score: Annotated[float, msgspec.Meta(gt=0, le=_MOST_POINTS)]
    most: Annotated[float, msgspec.Meta(gt=0, le=_MOST_POINTS)]
    points: tuple[tuple[Annotated[int, msgspec.Meta(ge=0)], _Points], ...] = ()
    of: Annotated[int, msgspec.Meta(ge=1, le=_MOST_SAMPLES)] | msgspec.UnsetType = msgspec.UNSET

    @property
    def mean(self) -> float:
        """The share of the score that is lost on these samples, or the points, see `score`."""
        return sum(points for _, points in self.points) / self.num_samples / self.score

    @property
    def largest(self) -> float:
        """The most points that one of these samples loses; 0 where none loses any."""
        return max((points for _, points in self.points), default=0.0)

    @property
    def is_part(self) -> bool:
        """Whether these are some of the samples of a split, whose others did not run."""
        return self.of is not msgspec.UNSET and self.num_samples < self.of

    def high(self, samples: float | None = None, *, alpha: float = ALPHA) -> float:
        """The largest share of the score that may be lost, with 95 % confidence, or the most points, see `score`.

        Args:
            samples: of as many samples, which differ as often and by as much as those here; None for these.
            alpha: probability that more is lost, by default 5 %.
        """
        return _high(self, (samples or self.num_samples) / self.num_samples, alpha)

    def may_be_shown(self, limit: float) -> bool:
        """Whether a loss of at most `limit` might be shown: the samples are enough for it, and do not rule it out.

        They are enough where it would be shown if none of them lost anything. They rule it out where so large a loss on
        them is rare, with a probability of 1 % at most, for a deployment at the limit.
        """
        return not self.rules_out(limit) and msgspec.structs.replace(self, points=()).high() <= limit

    def rules_out(self, limit: float) -> bool:
        """Whether a deployment that loses `limit` rarely loses so much on these samples, by Hoeffding's bound."""
        mean, level = self.mean * self.score / self.most, limit * self.score / self.most
        return mean > level and self.num_samples * _divergence(min(mean, 1.0), level) >= -math.log(RARE)

    def enough(self, limit: float, *, alpha: float = ALPHA) -> int | None:
        """The number of samples that would show a loss of at most `limit`, were they to differ as those here do.

        Args:
            limit: the share of the score.
            alpha: see `high`.

        Returns:
            None where the samples here lose more than the limit, or `_MOST_SAMPLES` were not enough.
        """
        low, high = self.num_samples, self.num_samples
        while self.high(high, alpha=alpha) > limit:
            low, high = high, 2 * high
            if high > _MOST_SAMPLES:
                return None
        while high - low > max(1, high // 100):
            middle = (low + high) // 2
            low, high = (middle, high) if self.high(middle, alpha=alpha) > limit else (low, middle)
        return high


def level(losses: Collection[Lost], limit: float) -> float:
    """The probability of error at which each of several deployments is held against a limit, by Holm's procedure.

    With 95 % confidence, all that are shown at that level to lose no more than the limit do lose no more. Deployments
    that lose the same points on the same samples count once: to the metric their answers are the same.
    """
    different = set(losses)
    num_left = len(different)
    while True:
        alpha = ALPHA / max(1, num_left)
        left = sum(lost.high(alpha=alpha) > limit for lost in different)
        if left == num_left:
            return alpha
        num_left = left


@functools.lru_cache(maxsize=10_000)
def _high(lost: Lost, each: float, alpha: float) -> float:
    """See `Lost.high`; kept, because cells that differ in batch and threads alone lose the same.

    Args:
        lost: the samples.
        each: how many samples each of them stands for.
        alpha: probability that more is lost.
    """
    points = np.array([points for _, points in lost.points], float)
    most = max(lost.most, points.max(initial=0.0))
    if lost.of is not msgspec.UNSET and lost.num_samples * each < lost.of:
        if points.max(initial=0.0) <= 0:
            return _none_lost(lost.num_samples * each, most, _NONE_LOST * alpha) / lost.score
        return _bet_bound(points, each, lost.num_samples, most, _SOME_LOST * alpha) / lost.score
    alpha *= 1.0 if lost.of is msgspec.UNSET else _AT_THE_END
    if not len(points):
        return _none_lost(each * lost.num_samples, most, alpha) / lost.score
    values, counts = np.unique(points, return_counts=True)
    rest = lost.num_samples - len(points)
    values, counts = np.append(values, (0.0, most)), np.append(counts * each, (rest * each, 1.0))
    return _quantile(values[counts > 0], counts[counts > 0], alpha) / lost.score


def num_without_loss(limit: float, *, score: float, most: float, alpha: float = ALPHA) -> int:
    """The first samples of a split that, if none of them loses anything, bound the share that may be lost.

    Args:
        limit: the bound, as a share of the score.
        score, most: see `Lost`.
        alpha: probability that more is lost.
    """
    share = limit * score / most
    if share >= 1:
        return 1
    return math.ceil(math.log(_NONE_LOST * alpha) / math.log1p(-share)) if share > 0 else _MOST_SAMPLES


def _divergence(mean: float, other: float) -> float:
    """Of one Bernoulli distribution from another, by Kullback and Leibler, by their means."""
    pairs = ((mean, other), (1 - mean, 1 - other))
    return sum(share * math.log(share / beside) if beside else math.inf for share, beside in pairs if share)


def lost(values: np.ndarray, reference: np.ndarray, *, score: float, most: float, of: int | None = None) -> Lost:
    """The points that each sample loses.

    Args:
        values: the points of each sample, N.
        reference: the points of the reference's samples, N.
        score, most: see `Lost`.
        of: likewise; None for a split that was to run as a whole.
    """
    differences = np.asarray(reference, np.float64) - np.asarray(values, np.float64)
    scale = max(abs(score), float(np.abs(reference).mean()))
    rows = np.flatnonzero(np.abs(differences) > RESOLUTION * scale)
    points = tuple((int(row), float(f"{differences[row]:.6g}")) for row in rows)
    return Lost(
        num_samples=len(differences), score=score, most=most, points=points, of=msgspec.UNSET if of is None else of
    )


def _none_lost(num_samples: float, most: float, alpha: float) -> float:
    """The mean loss of which a share `alpha` of all draws of so many samples shows nothing, at least."""
    return most * -math.expm1(math.log(alpha) / num_samples)


def _bet_bound(points: np.ndarray, each: float, num_samples: int, most: float, alpha: float) -> float:
    """The least mean loss against which the bets on some samples have made 1 / `alpha` of 1.

    Args:
        points: points lost of the samples that differ, D.
        each: how many samples each of them stands for.
        num_samples: number of all samples.
        most: the most points that a sample can lose.
        alpha: probability that the mean loss is larger.
    """
    from scipy import optimize, special  # only here: a worker that verifies imports this module and needs no bound

    values, counts = np.unique(points, return_counts=True)
    values = np.append(values, 0.0)
    weights = np.append(counts, num_samples - len(points)) * each
    stakes, first = np.array([*STAKES]), np.array([*STAKES.values()])

    def wealth(level: float) -> float:
        """The logarithm of the wealth times `alpha`; it grows with the level."""
        with np.errstate(divide="ignore"):
            gains = np.log1p(np.outer(stakes, (level - values) / (most - level))) @ weights
        return float(special.logsumexp(gains, b=first)) + math.log(alpha)

    highest = most * (1 - 1e-9)
    lowest = float(values @ weights / weights.sum())  # a bet on the mean that was seen wins nothing
    if lowest >= highest or wealth(highest) <= 0:
        return most
    return float(optimize.brentq(wealth, lowest, highest, xtol=1e-12 * most, rtol=1e-12))


def _quantile(values: np.ndarray, counts: np.ndarray, alpha: float) -> float:
    """The 1 - `alpha` quantile of a mean of values, K, whose weights are of the Dirichlet distribution of counts, K.

    The mean is above a level as often as a sum of gamma variables of the shapes `counts`, times `values - level`, is
    above zero. That probability is by the formula of Lugannani and Rice 1980, doi 10.2307/1426607; the cumulant
    generating function of the sum is minus the sum of `counts * log(1 - t * (values - level))`. Its saddlepoint t and
    the level follow from one number, s = t / (1 + t * level): the level is the mean of the values with the weights
    `counts / (1 - s * values)`, and grows with s from the mean to the largest value.
    """
    mean, most = float(values @ counts / counts.sum()), float(values.max())
    room = 1e-9 * (most - mean)
    if mean + room >= most:
        return most
    level = mean

    def excess(s: float) -> float:
        nonlocal level
        rests = 1 - s * values
        weights = counts / rests
        level = float(weights @ values / weights.sum())
        stretch = 1 - s * level  # of t: 1 - t * (values - level) is the rest over this
        root = math.sqrt(max(0.0, 2 * float(counts @ np.log(rests / stretch))))
        width = s * math.sqrt(float(counts @ ((values - level) / rests) ** 2))
        if root < 1e-4:  # the formula is a difference of large numbers there
            return 0.5 - alpha
        density = math.exp(-root * root / 2) / math.sqrt(2 * math.pi)
        return float(special.ndtr(-root)) + density * (1 / width - 1 / root) - alpha

    from scipy import optimize, special  # only here: a worker that verifies imports this module and needs no bound

    solution = optimize.brentq(excess, 0.0, (1 - 1e-12) / most, xtol=1e-15 / most, rtol=1e-14)
    excess(solution)
    return level
