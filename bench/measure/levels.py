"""The level of each launch of a block: a robust fit of launch and pass to the medians of its bursts.

The machine changes its speed from pass to pass, for all launches of a block alike, and a neighbour slows single bursts.
So the logarithm of a burst's median is taken as level of the launch + effect of the pass + noise. Medians of rows and
of columns in turn (median polish) find both although up to half of the bursts are off. Tukey's bisquare then averages
what agrees with them: it is nearly as precise as a mean where the noise is normal, and bursts that are far off count
for nothing.

Sources: Tukey 1977, Exploratory Data Analysis (median polish); Beaton and Tukey 1974, doi 10.2307/1267936 (bisquare).
"""

from __future__ import annotations

import dataclasses

import numpy as np

MAX_STEPS = 12  # of polishing and of the bisquare; either has converged long before
_BISQUARE = 4.685  # residuals beyond so many standard deviations count for nothing
_LEAST_WEIGHT = 0.001  # of a burst however far off: the weights of a pass must not all be zero
_NORMAL_MAD = 1.4826  # standard deviation of a normal variable over its median absolute deviation
_COMMON_PASSES = 4.0  # weight of the block's common noise beside a launch's own, in passes
_LEAST_SCALE = 1e-6  # of the residuals, on the log scale: clocks tick in nanoseconds


@dataclasses.dataclass(frozen=True, kw_only=True)
class Levels:
    """Levels of the launches of one block.

    Attributes:
        log_ns: for each launch, the natural logarithm of its latency in nanoseconds, without the effects of the passes
            (whose median is 0).
        variances: of `log_ns` by the noise of the passes alone; 0 where a single pass or a single launch does not tell.
    """

    log_ns: np.ndarray
    variances: np.ndarray


def levels(passes_LP: np.ndarray) -> Levels:
    """Fit the levels of L launches of one block from their P passes.

    Args:
        passes_LP: float64 of shape (L, P), the median latency of each burst in nanoseconds.
    """
    logs_LP = np.log(passes_LP)
    level_L, effect_P = np.median(logs_LP, axis=1), np.zeros(passes_LP.shape[1])
    for _ in range(MAX_STEPS):
        effect_P = np.median(logs_LP - level_L[:, None], axis=0)
        level_L = np.median(logs_LP - effect_P, axis=1)
    if len(passes_LP) == 1:  # alone, its noise cannot be told from the effects of the passes
        return Levels(log_ns=level_L, variances=np.zeros(1))
    scale_L1 = _scales(logs_LP)[:, None]
    for _ in range(MAX_STEPS):
        inside_LP = np.maximum(0.0, 1 - ((logs_LP - level_L[:, None] - effect_P) / (_BISQUARE * scale_L1)) ** 2)
        precision_LP = np.maximum(_LEAST_WEIGHT, inside_LP**2) / scale_L1**2
        effect_P = _weighted_mean(logs_LP - level_L[:, None], precision_LP, axis=0)
        effect_P -= np.median(effect_P)
        level_L = _weighted_mean(logs_LP - effect_P, precision_LP, axis=1)
    if passes_LP.shape[1] == 1:
        return Levels(log_ns=level_L, variances=np.zeros(len(level_L)))
    slope_L = np.maximum(0.3, (inside_LP * (5 * inside_LP - 4)).mean(axis=1))
    # Of many passes this is 25 % too much, which makes up for the scale of few passes being an estimate itself.
    return Levels(log_ns=level_L, variances=scale_L1[:, 0] ** 2 / slope_L / (passes_LP.shape[1] - 1))


def _weighted_mean(values: np.ndarray, weights: np.ndarray, axis: int) -> np.ndarray:
    return np.asarray((values * weights).sum(axis=axis) / weights.sum(axis=axis))


def _scales(logs_LP: np.ndarray) -> np.ndarray:
    """Standard deviation of the noise of each launch's passes, of shape (L,), without the effects of the passes.

    The difference of two launches has no effect of a pass in it, and its variance is the sum of theirs. Few passes tell
    little of a launch, so its variance leans on that of the whole block.
    """
    num_launches, num_passes = logs_LP.shape
    differences_LLP = logs_LP[:, None] - logs_LP[None]
    differences_LLP -= np.median(differences_LLP, axis=2, keepdims=True)
    sum_LL = (_NORMAL_MAD * np.median(np.abs(differences_LLP), axis=2)) ** 2 * num_passes / max(1, num_passes - 1)
    total_L = sum_LL.sum(axis=1)
    common = np.median(sum_LL[np.triu_indices(num_launches, 1)]) / 2
    own_L = np.full(num_launches, common)
    if num_launches > 2:
        own_L = (total_L - total_L.sum() / (2 * (num_launches - 1))) / (num_launches - 2)
    own_L = np.maximum(own_L, common / 8)
    return np.asarray(
        np.sqrt((num_passes * own_L + _COMMON_PASSES * common) / (num_passes + _COMMON_PASSES)) + _LEAST_SCALE
    )
