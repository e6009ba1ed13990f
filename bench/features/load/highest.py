"""The highest rate of requests at which a service keeps its latency, by serving the same arrivals slower and faster.

Where requests wait for each other, more of them wait longer, so that one rate divides those at which the latency is
kept from the others. The latency of some services falls in places while the rate rises: what makes it long is something
else, such as a runtime's own threads. Such a curve is told instead of a rate.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

_STEP = 1.25
"""Ratio of two rates that are tried one after the other, until one keeps the latency and the other does not."""
RESOLUTION = 1.06
"""Ratio of the two rates between which the highest rate is interpolated, at most."""
_HIGHEST_TIMES = 1000.0
"""Times the first rate above which no rate is tried: requests are too few then to wait for each other."""
LOWEST_SHARE = 0.2
"""Share of the first rate below which no rate is tried, and none is said to keep the latency: the same requests take
long to come there."""
_BELOW = 0.5
"""Share of the lowest rate that was tried at which the latency is tried, too: there it must be kept all the more."""
_FALL = 1.25
"""Latency above the bound over that at a rate which is higher by `_STEP` or more, from which it is said to fall."""
MOST_AGAIN = 6
"""Probes that are made again in a search, to tell a fall from noise."""
_ROUNDED = 1 + 1e-9
"""Ratio of two rates that are the same but for rounding."""


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
        rate: requests a second; None where no rate keeps the latency, or the latency falls while the rate rises.
        probes: what was tried, in that order.
        fall: two probes of which the second is at a higher rate and has less latency, also when both rates are tried
            again; None where there are none.
    """

    rate: float | None
    probes: tuple[Probe, ...]
    fall: tuple[Probe, Probe] | None = None


class _Falls(Exception):  # noqa: N818
    """The latency falls while the rate rises."""


def search(try_rate: Callable[[float], float], bound_ns: float, guess: float) -> Found:
    """Enclose the highest rate between two rates, and interpolate.

    Args:
        try_rate: serves requests at a rate, and returns the latency in nanoseconds.
        bound_ns: most latency.
        guess: the rate to begin with, at most a few times what the service can answer.
    """
    probes: list[Probe] = []

    def probe(rate: float) -> float:
        probes.append(Probe(rate=rate, latency_ns=try_rate(rate)))
        return probes[-1].latency_ns

    def keeps(rate: float) -> bool:
        latency_ns = probe(rate)
        while (pair := fall(probes, bound_ns)) is not None:
            rates = [trial.rate for trial in probes]
            once = [trial.rate for trial in pair if rates.count(trial.rate) == 1]
            if not once:
                raise _Falls
            if len(rates) - len(set(rates)) >= MOST_AGAIN:
                break
            for lone_rate in once:
                probe(lone_rate)
        return latency_ns <= bound_ns

    try:
        rate = _highest(keeps, probes, bound_ns, guess)
    except _Falls:
        rate = None
    rates = [trial.rate for trial in probes]
    again = [trial for trial in probes if rates.count(trial.rate) > 1]  # the others may be noise: see `MOST_AGAIN`
    return Found(rate=rate, probes=tuple(probes), fall=fall(again, bound_ns) if rate is None else None)


def _highest(keeps: Callable[[float], bool], probes: Sequence[Probe], bound_ns: float, guess: float) -> float | None:
    low = high = guess
    if keeps(guess):
        while True:
            low, high = high, high * _STEP
            if high > _HIGHEST_TIMES * guess:
                return None
            if not keeps(high):
                break
    else:
        while True:
            low, high = low / _STEP, low
            if low < LOWEST_SHARE * guess:
                _look_above(keeps, probes)
                return None
            if keeps(low):
                break
    keeps(_BELOW * min(probe.rate for probe in probes))
    while high > low * RESOLUTION:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if keeps(middle) else (low, middle)
    first = {probe.rate: probe.latency_ns for probe in reversed(probes)}
    return _crossing((low, first[low]), (high, first[high]), bound_ns)


def _look_above(keeps: Callable[[float], bool], probes: Sequence[Probe]) -> None:
    """Try higher rates than the first, as long as the latency does not rise with the rate."""
    least_ns, rate = min(probe.latency_ns for probe in probes), probes[0].rate
    while next(probe.latency_ns for probe in probes if probe.rate == rate) <= _FALL * least_ns:
        rate *= 2
        if rate > _HIGHEST_TIMES * probes[0].rate or keeps(rate):
            return


def fall(probes: Sequence[Probe], bound_ns: float) -> tuple[Probe, Probe] | None:
    """Two rates of which the lower one is above the bound and the higher one has less latency, by `_FALL`.

    Of a rate that was tried again, that latency counts which makes the fall smaller. None where no two rates are so.
    """
    least, most = (
        [
            Probe(rate=rate, latency_ns=pick(probe.latency_ns for probe in probes if probe.rate == rate))
            for rate in rates
        ]
        for pick in (min, max)
        for rates in [dict.fromkeys(probe.rate for probe in probes)]
    )
    pairs = [
        (low, high)
        for low in least
        for high in most
        if high.rate * _ROUNDED >= low.rate * _STEP and low.latency_ns > max(bound_ns, _FALL * high.latency_ns)
    ]
    return max(pairs, key=lambda pair: pair[0].latency_ns / pair[1].latency_ns, default=None)


def _crossing(low: tuple[float, float], high: tuple[float, float], bound_ns: float) -> float:
    """The rate at which the latency is the bound, where both are straight between two points on logarithmic axes."""
    if not math.isfinite(high[1]):
        return low[0]
    share = math.log(bound_ns / low[1]) / math.log(high[1] / low[1])
    return low[0] * (high[0] / low[0]) ** share
