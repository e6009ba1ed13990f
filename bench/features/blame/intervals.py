"""Differences and shares of differences from paired blocks, with their intervals.

In each block the whole and its parts run under both sides, at the same speed of the machine. So each block has its own
differences, as shares of the whole's latency under the first side, and what acts on all of a block alike is in none of
them. The share that a part has in the whole's difference is a ratio of two means over the same blocks: its interval is
by Fieller's theorem, which knows that the two err together.

Source: Fieller 1954, Some problems in interval estimation, J. R. Stat. Soc. B 16 (the interval of a ratio of means).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import special

from bench.measure.stats import ALPHA, Estimate

FEWEST = 3
"""Blocks that an interval needs."""


def mean(values: Sequence[float], alpha: float = ALPHA) -> Estimate:
    """The mean of independent values, with the interval that misses it with probability `alpha` (Student's)."""
    array = np.asarray(values, dtype=np.float64)
    if len(array) < FEWEST:
        return Estimate(value=float(array.mean()), low=-math.inf, high=math.inf)
    half = -float(special.stdtrit(len(array) - 1, alpha / 2)) * float(array.std(ddof=1)) / math.sqrt(len(array))
    value = float(array.mean())
    return Estimate(value=value, low=value - half, high=value + half)


def ratio(times: Sequence[tuple[float, float]], alpha: float = ALPHA) -> Estimate:
    """The second time over the first of each pair: the geometric mean over blocks, with its interval."""
    logs = mean([math.log(after / before) for before, after in times], alpha)
    return Estimate(value=math.exp(logs.value), low=math.exp(max(logs.low, -700)), high=_exp(logs.high))


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def share(part: Sequence[float], whole: Sequence[float], alpha: float = ALPHA) -> Estimate:
    """The mean of a part's differences over the mean of the whole's, of the same blocks.

    Args:
        part: for each block, the part's difference.
        whole: for each block, the whole's difference.
        alpha: probability with which the interval misses the ratio.

    Returns:
        Without an end where the whole's difference is not clearly other than 0, or there are too few blocks.
    """
    y, x = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    number = len(x)
    value = float(y.mean() / x.mean()) if x.mean() else math.nan
    if number < FEWEST:
        return Estimate(value=value, low=-math.inf, high=math.inf)
    t = -float(special.stdtrit(number - 1, alpha / 2))
    covariances = np.cov(np.stack([y, x])) / number
    # The ratios r for which the mean of y - r x is not clearly other than 0: a r^2 - 2 b r + c <= 0.
    a = float(x.mean() ** 2 - t**2 * covariances[1, 1])
    b = float(y.mean() * x.mean() - t**2 * covariances[0, 1])
    c = float(y.mean() ** 2 - t**2 * covariances[0, 0])
    if a <= 0:
        return Estimate(value=value, low=-math.inf, high=math.inf)
    root = math.sqrt(max(0.0, b * b - a * c))
    return Estimate(value=value, low=(b - root) / a, high=(b + root) / a)
