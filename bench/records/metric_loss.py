"""How much of the metric a deployment may lose for all that its held-out samples tell: a one-sided 95 % bound.

The bound is the 95 % quantile of the Bayesian bootstrap of the mean points lost, paired by sample, with one sample
added that loses the most that a sample can lose. Where no sample differs, and where those that differ all lose
the most, it is the exact (Clopper-Pearson) bound of the binomial distribution, so it is never zero; with many samples
that differ, it is the percentile bound of the paired bootstrap. It needs no other assumption on the samples than that
they are independent and that none can lose more; its coverage is known from proofs of special cases and from
simulations: `benchmarks/metric_bounds.py` shows that of the metrics here.

Sources: Gaffke 2005, "Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative
variable", Mathematical Methods of Statistics 14(4); Learned-Miller and Thomas 2019, arXiv:1905.06208 (the same bound,
and its coverage); Rubin 1981, doi 10.1214/aos/1176345338 (the Bayesian bootstrap); Davison and Hinkley 1988, doi
10.1093/biomet/75.3.417 (saddlepoint instead of resampling).
"""

from __future__ import annotations

import functools
import math
from typing import Annotated, TypeAlias

import msgspec
import numpy as np

ALPHA = 0.05  # of the one-sided bound
RESOLUTION = 1e-6
"""Points lost that are a smaller share of the score are taken for none: they are the rounding of sums."""
MOST_SAMPLES = 10_000_000
"""Largest number of samples that is named as enough."""
MOST_POINTS = 1e15
"""Points and scores are no larger: the bound is found by doubles, which could not tell larger points apart."""
Points: TypeAlias = Annotated[float, msgspec.Meta(ge=-MOST_POINTS, le=MOST_POINTS)]


class Lost(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """How the samples of a split differ from the reference's in the ranked metric.

    Attributes:
        num_samples: number of samples that the metric is over.
        score: the reference's score, in points a sample.
        most: the most points that a sample can lose, see `bench.api.plugin.Points`.
        points: number among the samples, and points lost, of each sample that differs; negative points are a gain.
    """

    num_samples: Annotated[int, msgspec.Meta(ge=1, le=MOST_SAMPLES)]
    score: Annotated[float, msgspec.Meta(gt=0, le=MOST_POINTS)]
    most: Annotated[float, msgspec.Meta(gt=0, le=MOST_POINTS)]
    points: tuple[tuple[Annotated[int, msgspec.Meta(ge=0)], Points], ...] = ()

    @property
    def mean(self) -> float:
        """The share of the score that is lost on these samples."""
        return sum(points for _, points in self.points) / self.num_samples / self.score

    def high(self, samples: float | None = None, *, alpha: float = ALPHA) -> float:
        """The largest share of the score that may be lost, with 95 % confidence.

        Args:
            samples: of as many samples, which differ as often and by as much as those here; None for these.
            alpha: probability that more is lost, by default 5 %.
        """
        return _high(self, (samples or self.num_samples) / self.num_samples, alpha)

    def enough(self, limit: float) -> int | None:
        """The number of samples that would show a loss of at most `limit`, were they to differ as those here do.

        Returns:
            None where the samples here lose more than the limit, or `MOST_SAMPLES` were not enough.
        """
        low, high = self.num_samples, self.num_samples
        while self.high(high) > limit:
            low, high = high, 2 * high
            if high > MOST_SAMPLES:
                return None
        while high - low > max(1, high // 100):
            middle = (low + high) // 2
            low, high = (middle, high) if self.high(middle) > limit else (low, middle)
        return high


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
    if not len(points):
        return most * -math.expm1(math.log(alpha) / (each * lost.num_samples)) / lost.score
    values, counts = np.unique(points, return_counts=True)
    rest = lost.num_samples - len(points)
    values, counts = np.append(values, (0.0, most)), np.append(counts * each, (rest * each, 1.0))
    return _quantile(values[counts > 0], counts[counts > 0], alpha) / lost.score


def lost(values: np.ndarray, reference: np.ndarray, *, score: float, most: float) -> Lost:
    """The points that each sample loses.

    Args:
        values: the points of each sample, N.
        reference: the points of the reference's samples, N.
        score: see `Lost`.
        most: see `Lost`.
    """
    differences = np.asarray(reference, np.float64) - np.asarray(values, np.float64)
    rows = np.flatnonzero(np.abs(differences) > RESOLUTION * abs(score))
    points = tuple((int(row), float(f"{differences[row]:.6g}")) for row in rows)
    return Lost(num_samples=len(differences), score=score, most=most, points=points)


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

    found = optimize.brentq(excess, 0.0, (1 - 1e-12) / most, xtol=1e-15 / most, rtol=1e-14)
    excess(found)
    return level
