"""How many passes a block has: as many as make the launches of a sweep tell most in the time that they take.

After n passes a launch's level has the variance `launch_sd`^2 + `pass_sd`^2 / n, and the block has taken `set_up_s` + n
`pass_s`. The product of both, the variance that a second of measuring leaves, is least at `best_number`.
Source: Cochran, Sampling Techniques, 3rd edition, 1977, section 10.6, optimum subsampling in two stages.

The first launch of a cell is to tell whether the cell may be the fastest. So it has no more passes than make their
noise small beside that between launches: see `brief_number`.
"""

from __future__ import annotations

import math

import numpy as np

from bench.measure.levels import levels


def best_number(*, set_up_s: float, pass_s: float, pass_sd: float, launch_sd: float) -> float:
    """The number of passes with the least variance for the time.

    Args:
        set_up_s: seconds to start, load and warm up the workers of a block.
        pass_s: seconds of one pass.
        pass_sd: standard deviation of the logarithm of one burst, within a launch.
        launch_sd: standard deviation of the logarithms of launches that have no noise within them.
    """
    return math.sqrt(set_up_s / pass_s) * pass_sd / launch_sd


def brief_number(*, pass_sd: float, launch_sd: float) -> float:
    """The number of passes whose mean has a quarter of the variance of a launch."""
    return 4 * (pass_sd / launch_sd) ** 2


def pass_sd(passes_LP: np.ndarray) -> float:
    """The standard deviation of the logarithm of one burst, robust, by the mean of the launches' variances.

    Args:
        passes_LP: as for `levels`.
    """
    return math.sqrt(passes_LP.shape[1] * np.mean(levels(passes_LP).variances))
