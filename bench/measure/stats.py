"""Statistics of the comparison: from paired bursts to a ratio, its interval and a verdict.

Three levels of noise are kept apart. Within a burst, the median of its samples. Within a launch, the median of the
paired log-ratios of its passes: a neighbour on the machine slows whole bursts, so up to half of the pairs may be off on
either side, which is more than a mean or the Hodges-Lehmann centre can bear. Across launches, Student's interval,
because each launch (memory layout, thread placement) is one sample however many inferences it ran. Few launches
estimate their own spread poorly, so it is moderated by the A/A controls, whose true log-ratio is known to be zero.

Sources: McKean and Schrader 1984, doi 10.1080/03610928408828722 (error of a median from its order statistics); Smyth
2004, doi 10.2202/1544-6115.1027 (moderated variance); Kalibera and Jones 2013, doi 10.1145/2464157.2464160 (levels of
repetition).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np
from scipy import optimize, special

ALPHA = 0.05  # of the 95 % intervals
SMALLEST_P = 1e-12  # a smaller p-value says nothing more
PRIOR_WEIGHT = 4.0  # launches' worth of belief in the A/A controls' spread, at most
NOISE_FLOOR = 0.005  # a smaller difference is no win: the place of code in memory causes as much
MIN_LAUNCHES = 2  # fewest launches of a verdict
LARGEST_LOG = 700.0  # the exponential of a larger number is no float
NUM_RESAMPLES = 1000
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
class Pairs:
    """One launch's comparison: for each pass, the medians of both bursts of that pass, in nanoseconds."""

    cell_ns: tuple[float, ...]
    reference_ns: tuple[float, ...]

    def log_ratios(self) -> np.ndarray:
        """Natural logarithms of the cell's latency over the reference's, one for each pass."""
        return np.log(np.asarray(self.cell_ns, float) / np.asarray(self.reference_ns, float))


def centre(values: np.ndarray) -> float:
    """The median of one launch's log-ratios."""
    return float(np.median(values))


def centre_error(values: np.ndarray) -> float:
    """Standard error of `centre`: half the distance of the order statistics one deviation around the middle."""
    if len(values) < 2:
        return math.inf
    middle, deviation = (len(values) - 1) / 2, math.sqrt(len(values)) / 2
    low, high = max(0, math.floor(middle - deviation)), min(len(values) - 1, math.ceil(middle + deviation))
    ordered = np.sort(values)
    return float(ordered[high] - ordered[low]) / 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Error:
    """How well a mean over launches is known, on the log scale.

    Attributes:
        across: standard error from the spread across launches.
        freedom: degrees of freedom of `across`.
        within: standard error from the spread across the passes of the launches. Launches cannot agree better than
            their own passes allow; when they seem to, it is luck.
        launches: number of launches.
    """

    across: float
    freedom: float
    within: float
    launches: float

    def half_width(self, alpha: float = ALPHA) -> float:
        """Half of the interval that misses with probability `alpha`."""
        if self.freedom == 0:
            return math.inf
        student, normal = -special.stdtrit(self.freedom, alpha / 2), -special.ndtri(alpha / 2)
        return float(max(student * self.across, normal * self.within))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Effect:
    """Logarithm of a ratio of latencies: the estimate, and the independent errors that add up in it."""

    value: float
    errors: tuple[Error, ...]

    def half_width(self, alpha: float = ALPHA) -> float:
        """Half of the interval, on the log scale."""
        return math.hypot(*(error.half_width(alpha) for error in self.errors))

    def ratio(self, alpha: float = ALPHA) -> Estimate:
        """The ratio, with the interval that misses it with probability `alpha`."""
        half = self.half_width(alpha)
        return Estimate(value=math.exp(self.value), low=math.exp(self.value - half), high=exp(self.value + half))

    def p_value(self) -> float:
        """The smallest `alpha` whose interval leaves out a ratio of one; never below `SMALLEST_P`."""
        size = abs(self.value)
        if self.half_width(SMALLEST_P) < size:
            return SMALLEST_P
        if size == 0 or not math.isfinite(self.half_width()):
            return 1.0
        log_p = optimize.brentq(lambda log_p: self.half_width(math.exp(log_p)) - size, math.log(SMALLEST_P), 0.0)
        return math.exp(log_p)

    def after(self, times: float) -> Effect:
        """The effect to expect after `times` as many launches, if later launches scatter as the launches so far."""
        shrink = math.sqrt(times)
        errors = [
            Error(
                across=error.across / shrink,
                freedom=error.freedom + (times - 1) * error.launches,
                within=error.within / shrink,
                launches=times * error.launches,
            )
            for error in self.errors
        ]
        return Effect(value=self.value, errors=tuple(errors))

    def __sub__(self, other: Effect) -> Effect:
        """The effect of the quotient of two ratios.

        The errors count as independent. Two ratios to one baseline have errors in common, so the interval is too wide
        rather than too narrow.
        """
        return Effect(value=self.value - other.value, errors=self.errors + other.errors)


def effect(launches: Sequence[Pairs], controls: Sequence[Pairs]) -> Effect | None:
    """Latency of a cell over that of its reference, over its launches.

    Args:
        launches: launches of the cell, each paired with its reference.
        controls: A/A comparisons, one for each block: the reference's twin against the reference.

    Returns:
        None without a launch; without a control, one launch has no interval but (0, inf).
    """
    if not launches:
        return None
    effects = np.array([centre(pairs.log_ratios()) for pairs in launches])
    null_effects = np.array([centre(pairs.log_ratios()) for pairs in controls])
    return Effect(value=float(effects.mean()), errors=(_error(launches, effects, null_effects),))


def ratio(launches: Sequence[Pairs], controls: Sequence[Pairs]) -> Estimate | None:
    """The ratio of `effect`, with its 95 % interval."""
    found = effect(launches, controls)
    return found.ratio() if found else None


def _error(launches: Sequence[Pairs], effects: np.ndarray, null_effects: np.ndarray) -> Error:
    """Error of the mean effect of a cell's launches."""
    own_freedom = len(effects) - 1
    own_squares = float(((effects - effects.mean()) ** 2).sum())
    prior_freedom = min(float(len(null_effects)), PRIOR_WEIGHT)  # their mean is known, so none is lost to it
    prior_variance = float((null_effects**2).mean()) if len(null_effects) else 0.0
    if own_freedom and own_squares / own_freedom > prior_variance * _credible(own_freedom, len(null_effects)):
        prior_freedom = 0.0  # a noisier cell than its baseline speaks for itself
    freedom = own_freedom + prior_freedom
    variance = (own_squares + prior_freedom * prior_variance) / freedom if freedom else math.inf
    inner_variance = float(np.mean([centre_error(pairs.log_ratios()) ** 2 for pairs in launches]))
    number = len(effects)
    across, within = math.sqrt(variance / number), math.sqrt(inner_variance / number)
    return Error(across=across, freedom=freedom, within=within, launches=number)


@functools.cache
def _credible(own_freedom: int, num_controls: int) -> float:
    """The largest ratio of a cell's variance to the controls' at which the controls still inform it: F at 90 %."""
    return float(special.fdtri(own_freedom, num_controls, 0.9)) if num_controls else math.inf


def exp(value: float) -> float:
    """The exponential function; infinity where the result is too large for a float."""
    return math.exp(value) if value < LARGEST_LOG else math.inf


def verdict(
    estimate: Estimate, control: Estimate | None, *, num_launches: int, margin: float, may_win: bool = True
) -> str:
    """The verdict on a cell against its reference.

    `faster` and `slower`: the whole interval lies outside the A/A control's interval and outside the noise floor.
    `noise`: no winner, and the whole interval lies within the margin, so any difference is smaller than that.
    `undecided`: neither can be said yet.

    Args:
        control: the A/A control's own ratio, estimated the same way.
        margin: half-width of the interval that was aimed at, as a share.
        may_win: whether a winner may be called; false for a comparison that a correction for many did not select.
    """
    low = min(1 - NOISE_FLOOR, control.low if control else 1.0)
    high = max(1 + NOISE_FLOOR, control.high if control else 1.0)
    if num_launches < MIN_LAUNCHES:
        return UNDECIDED
    if may_win and estimate.high < low:
        return FASTER
    if may_win and estimate.low > high:
        return SLOWER
    return NOISE if 1 - margin <= estimate.low and estimate.high <= 1 + margin else UNDECIDED


def percentile_ns(samples_ns: np.ndarray, percent: float) -> float | None:
    """Percentile by nearest rank (`inverted_cdf`): the smallest sample that `percent` of all samples do not exceed.

    Returns:
        None when there are fewer than `min_samples(percent)`.
    """
    if len(samples_ns) < min_samples(percent):
        return None
    return float(np.percentile(samples_ns, percent, method="inverted_cdf"))


@functools.cache
def min_samples(percent: float) -> int:
    """Samples that a tail percentile needs: 64 for p90, 662 for p99.

    It is the smallest number of which, with 99 % confidence, at least two lie above the percentile.
    Source: the binomial bound of MLPerf inference's early stopping, `loadgen/early_stopping.cc`.
    """
    above = 1 - percent / 100
    return next(n for n in itertools.count(2) if special.bdtr(1, n, above) <= 0.01)


def median_ns(launches: Sequence[Sequence[Sequence[int]]]) -> Estimate | None:
    """Median of the passes' median latencies, with a hierarchical bootstrap interval: launches, and passes within them.

    A pass counts once, however many samples it holds: a slow pass has fewer samples, and would count for less than its
    time.

    Args:
        launches: for each launch, for each pass, the steady samples in nanoseconds.
    """
    found = [[np.median(samples) for samples in passes if len(samples)] for passes in launches]
    medians = [np.array(passes) for passes in found if passes]
    if not medians:
        return None
    random = np.random.default_rng(0)
    drawn = [passes[random.integers(len(passes), size=(NUM_RESAMPLES, len(passes)))] for passes in medians]
    chosen = random.integers(len(medians), size=(NUM_RESAMPLES, len(medians)))
    resampled = [
        np.median(np.concatenate([drawn[launch][row] for launch in chosen[row]])) for row in range(NUM_RESAMPLES)
    ]
    tail = ALPHA / 2 * 100
    low, high = np.percentile(resampled, [tail, 100 - tail])
    return Estimate(value=float(np.median(np.concatenate(medians))), low=float(low), high=float(high))
