"""The highest rate of requests at which a service keeps its latency, by serving the same arrivals slower and faster."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

STEP = 1.25
"""Ratio of two rates that are tried one after the other, until one keeps the latency and the other does not."""
RESOLUTION = 1.06
"""Ratio of the two rates between which the highest rate is interpolated, at most."""
HIGHEST_TIMES = 1000.0
"""Times the first rate above which no rate is tried: requests are too few then to wait for each other."""
LOWEST_SHARE = 0.2
"""Share of the first rate below which no rate is tried, and none is said to keep the latency: where the first rate is
near what the service can answer, hardly a request waits for another there, and the same requests take long to come."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Probe:
    """What was seen at one rate.

    Attributes:
        rate: requests a second.
        latency_ns: the latency that is bounded; infinite where the service could not keep up.
    """

    rate: float
    latency_ns: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Found:
    """The highest rate.

    Attributes:
        rate: requests a second; None where no rate keeps the latency.
        probes: what was tried, in that order.
    """

    rate: float | None
    probes: tuple[Probe, ...]


def search(try_rate: Callable[[float], float], bound_ns: float, guess: float) -> Found:
    """Enclose the highest rate between two rates, and interpolate.

    Args:
        try_rate: serves requests at a rate, and returns the latency in nanoseconds.
        bound_ns: most latency.
        guess: the rate to begin with, at most a few times what the service can answer.
    """
    probes: list[Probe] = []

    def keeps(rate: float) -> bool:
        probes.append(Probe(rate=rate, latency_ns=try_rate(rate)))
        return probes[-1].latency_ns <= bound_ns

    low = high = guess
    if keeps(guess):
        while True:
            low, high = high, high * STEP
            if high > HIGHEST_TIMES * guess:
                return Found(rate=None, probes=tuple(probes))
            if not keeps(high):
                break
    else:
        while True:
            low, high = low / STEP, low
            if low < LOWEST_SHARE * guess:
                return Found(rate=None, probes=tuple(probes))
            if keeps(low):
                break
    while high > low * RESOLUTION:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if keeps(middle) else (low, middle)
    latency = {probe.rate: probe.latency_ns for probe in probes}
    return Found(rate=_crossing((low, latency[low]), (high, latency[high]), bound_ns), probes=tuple(probes))


def _crossing(low: tuple[float, float], high: tuple[float, float], bound_ns: float) -> float:
    """The rate at which the latency is the bound, where both are straight between two points on logarithmic axes."""
    if not math.isfinite(high[1]):
        return low[0]
    share = math.log(bound_ns / low[1]) / math.log(high[1] / low[1])
    return low[0] * (high[0] / low[0]) ** share
