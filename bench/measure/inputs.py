"""How far the latency of a cell differs from input to input, beyond noise: from passes that ran different requests.

The logarithm of a pass's median is taken as level of the launch + effect of the request + noise. Medians of launches
and of requests in turn find both although some passes are far off. An F-test on the ranks of the passes says whether
the requests differ at all: noise that is not normal does not mislead it.

Sources: Tukey 1977, Exploratory Data Analysis (median polish); Conover and Iman 1981, doi 10.2307/2683975 (ranks).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import special

from bench.measure.launch import Launch

_LEVEL = (
    0.001  # of the test, which takes passes as independent: a drift of the machine makes it err somewhat more often
)
_STEPS = 3  # of polishing
_NORMAL_MAD = 1.4826  # standard deviation of a normal variable over its median absolute deviation


def spread(launches: Sequence[Launch]) -> float | None:
    """Standard deviation of the latency between inputs, as a share of the latency.

    Returns:
        None where the launches show no more than noise, or had one request alone.
    """
    passes = [
        (number, (launch.first_request + index) % launch.num_requests, math.log(median))
        for number, launch in enumerate(launches)
        if launch.num_requests > 1
        for index, median in enumerate(launch.medians_ns)
    ]
    if not passes:
        return None
    launch_N, request_N, log_N = (np.array(column) for column in zip(*passes, strict=True))
    launch_N, request_N = (np.unique(column, return_inverse=True)[1] for column in (launch_N, request_N))
    num_launches, num_requests = launch_N.max() + 1, request_N.max() + 1
    freedom = len(log_N) - num_launches - num_requests + 1
    if num_requests < 2 or freedom < num_requests:
        return None
    effect_R = np.zeros(num_requests)
    for _ in range(_STEPS):
        centred_N = log_N - _medians(log_N - effect_R[request_N], launch_N)[launch_N]
        effect_R = _medians(centred_N, request_N)
    if _p_value(centred_N, request_N, freedom) > _LEVEL:
        return None
    noise_N = centred_N - effect_R[request_N]
    noise = _NORMAL_MAD * float(np.median(np.abs(noise_N - np.median(noise_N))))
    variance = noise**2 * len(log_N) / freedom
    of_medians_R = np.pi / (2 * np.bincount(request_N) + np.pi - 2)  # of the median of so many normal variables
    between = float(np.var(effect_R, ddof=1)) - variance * float(of_medians_R.mean())
    return math.sqrt(between) if between > 0 else None


def _medians(values_N: np.ndarray, group_N: np.ndarray) -> np.ndarray:
    return np.array([np.median(values_N[group_N == group]) for group in range(group_N.max() + 1)])


def _p_value(values_N: np.ndarray, group_N: np.ndarray, freedom: int) -> float:
    """Probability of such different ranks in the groups where none of the groups differs from the others."""
    rank_N = np.argsort(np.argsort(values_N)).astype(float)
    count_R = np.bincount(group_N)
    mean_R = np.bincount(group_N, rank_N) / count_R
    between = float(count_R @ (mean_R - rank_N.mean()) ** 2) / (len(count_R) - 1)
    within = float(((rank_N - mean_R[group_N]) ** 2).sum()) / freedom
    return float(special.fdtrc(len(count_R) - 1, freedom, between / within)) if within else 0.0
