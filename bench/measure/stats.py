"""Statistics of the comparison: a ratio with its interval, a verdict, and percentiles of samples.

Ratios come from the model of the measurement, see `bench.measure.model`, as differences of logarithms of latencies.

Source: MLPerf inference's early stopping, `loadgen/early_stopping.cc` (samples that a tail percentile needs).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math

import numpy as np
from scipy import special

ALPHA = 0.05  # of the 95 % intervals
NOISE_FLOOR = 0.005  # a smaller difference is no win: the place of code in memory causes as much
_LARGEST_LOG = 700.0  # the exponential of a larger number is no float
FASTER, SLOWER, NOISE, UNDECIDED = "faster", "slower", "noise", "undecided"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure and its 95 % interval, in the figure's own unit."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval, as a share of the value."""
        return (self.high - self.low) / 2 / self.value


@dataclasses.dataclass(frozen=True, kw_only=True)
class Effect:
    """Natural logarithm of a ratio of latencies, or of a latency.

    Attributes:
        value: the estimate.
        error: its standard error.
        freedom: degrees of freedom of `error`; its interval is Student's.
    """

    value: float
    error: float
    freedom: float

    def half_width(self, alpha: float = ALPHA) -> float:
        """Half of the interval that misses with probability `alpha`, on the log scale."""
        return float(-special.stdtrit(self.freedom, alpha / 2) * self.error)

    def ratio(self, alpha: float = ALPHA) -> Estimate:
        """The ratio, with the interval that misses it with probability `alpha`."""
        half = self.half_width(alpha)
        return Estimate(value=math.exp(self.value), low=exp(self.value - half), high=exp(self.value + half))

    def p_value(self) -> float:
        """Probability of so large an estimate, on either side, where the true logarithm is 0."""
        if self.error == 0:
            return float(self.value == 0)
        return float(min(1.0, 2 * special.stdtr(self.freedom, -abs(self.value) / self.error)))

    def after(self, times: float) -> Effect:
        """The effect to expect after `times` as many launches, if these scatter as the launches so far."""
        return Effect(value=self.value, error=self.error / math.sqrt(times), freedom=self.freedom * times)

    def __sub__(self, other: Effect) -> Effect:
        """The difference of two effects with independent errors: Satterthwaite's degrees of freedom."""
        squares = (self.error**2, other.error**2)
        if not (total := sum(squares)):
            return Effect(value=self.value - other.value, error=0.0, freedom=min(self.freedom, other.freedom))
        freedom = total**2 / (squares[0] ** 2 / self.freedom + squares[1] ** 2 / other.freedom)
        return Effect(value=self.value - other.value, error=math.sqrt(total), freedom=freedom)


def exp(value: float) -> float:
    """The exponential function; infinity where the result is too large for a float."""
    return math.exp(value) if value < _LARGEST_LOG else math.inf


def verdict(ratio: Estimate, *, margin: float, may_win: bool = True) -> str:
    """The verdict on a cell against its reference.

    `faster` and `slower`: the whole interval lies outside the noise floor.
    `noise`: no winner, and the whole interval lies within the margin, so any difference is smaller than that.
    `undecided`: neither can be said yet.

    Args:
        ratio: latency of the cell over its reference's.
        margin: largest difference that counts as none, as a share.
        may_win: whether a winner may be called; false for a comparison that a correction for many did not select.
    """
    if may_win and ratio.high < 1 - NOISE_FLOOR:
        return FASTER
    if may_win and ratio.low > 1 + NOISE_FLOOR:
        return SLOWER
    return NOISE if 1 - margin <= ratio.low and ratio.high <= 1 + margin else UNDECIDED


def percentile(samples: np.ndarray, percent: float) -> float | None:
    """Percentile by nearest rank (`inverted_cdf`): the smallest sample that `percent` of all samples do not exceed.

    Returns:
        None when there are fewer than `min_samples(percent)`.
    """
    if len(samples) < min_samples(percent):
        return None
    return float(np.percentile(samples, percent, method="inverted_cdf"))


@functools.cache
def min_samples(percent: float) -> int:
    """Samples that a tail percentile needs: 64 for p90, 662 for p99.

    It is the smallest number of which, with 99 % confidence, at least two lie above the percentile.
    Source: the binomial bound of MLPerf inference's early stopping, `loadgen/early_stopping.cc`.
    """
    above = 1 - percent / 100
    return next(n for n in itertools.count(2) if special.bdtr(1, n, above) <= 0.01)
