"""The level of each comparison of some cells with the fastest of them, so that all together are as sure as is said.

Comparisons with one cell err together: where that cell was lucky, all of them are wrong, and not in further sweeps. The
same is true of cells that share the state of their program. So each comparison may be wrong more often than
Bonferroni's share of the error. Which cell is the fastest is not known, so the level is the least that any of them
would leave.

Sources: Dunnett 1955, doi 10.1080/01621459.1955.10501294 (comparisons with one control); Hsu 1984, doi
10.1214/aos/1176346732 (with the best); Sidak 1967, doi 10.1080/01621459.1967.10482935 (correlation makes errors of any
kind no more frequent than independence does).
"""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy import special

_LOG_POINTS = 13
"""Logarithm to base 2 of the number of points of the integral: the level is known to 3 %, its bound to 1 %."""
MOST = 12
"""Cells that are compared so; among more, nothing is decided yet, and Bonferroni's share of the error takes no time."""


def level(covariance_CC: np.ndarray, alpha: float) -> float:
    """The probability of error of each comparison, on one side, so that that of any of them is `alpha`.

    Errors are taken as jointly normal. Those that are Student's, with an estimate of the variance that comparisons
    share, have more in common, so the level is on the safe side for them.

    Args:
        covariance_CC: covariance of the errors of the estimates of C cells, one of which is the fastest.
        alpha: the probability that some comparison of another cell with the fastest is wrong, on one side.

    Returns:
        A level from alpha / (C - 1), that of Bonferroni, to alpha.
    """
    num_others = len(covariance_CC) - 1
    if num_others <= 1:
        return alpha
    if len(covariance_CC) > MOST:
        return alpha / num_others
    values_C, vectors_CC = np.linalg.eigh(covariance_CC)
    error_SC = _points(num_others + 1) @ (vectors_CC * np.sqrt(np.maximum(values_C, 0.0))).T
    variance_C = np.diag(covariance_CC)
    variance_CC = np.maximum(np.add.outer(variance_C, variance_C) - 2 * covariance_CC, 0.0)
    beyond = max(1, math.floor(alpha * len(error_SC)))
    least = alpha
    for fastest, variance_c in enumerate(variance_CC):
        differ_c = np.flatnonzero(variance_c > 0)  # a cell never differs from itself
        if len(differ_c) > 1:
            largest_S = ((error_SC[:, differ_c] - error_SC[:, [fastest]]) / np.sqrt(variance_c[differ_c])).max(axis=1)
            bound = float(np.partition(largest_S, -beyond)[-beyond])
            least = min(least, float(special.ndtr(-bound)))
    return max(least, alpha / num_others)


@functools.lru_cache(maxsize=64)
def _points(number: int) -> np.ndarray:
    """Standard normal points that fill the space evenly, of shape (S, C), the same in every process."""
    from scipy.stats import qmc  # takes half a second

    uniform_SC = qmc.Sobol(number, rng=np.random.default_rng(0)).random_base2(_LOG_POINTS)
    return np.asarray(special.ndtri(np.clip(uniform_SC, 1e-12, 1 - 1e-12)))
