"""The search for the highest rate that keeps a latency, against services whose latency is a formula."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from bench.measure.load import highest

BOUND_NS = 20e6


def queue(capacity: float, service_ns: float = 1e6) -> Callable[[float], float]:
    """A latency that grows without end as the rate comes to the capacity."""

    def latency_ns(rate: float) -> float:
        return service_ns / (1 - rate / capacity) if rate < capacity else math.inf

    return latency_ns


@pytest.mark.parametrize("guess", [700.0, 70.0, 949.0, 950.0, 951.0, 3000.0])
def test_the_rate_at_the_bound_is_found_from_any_guess(guess: float) -> None:
    found = highest.search(queue(1000.0), BOUND_NS, guess)
    assert found.rate == pytest.approx(950, rel=0.02)  # 1 ms / (1 - 0.95) = 20 ms
    rates = [probe.rate for probe in found.probes]
    assert len(set(rates)) == len(rates) <= 25
    kept = max(probe.rate for probe in found.probes if probe.latency_ns <= BOUND_NS)
    assert kept <= found.rate <= kept * highest.RESOLUTION


def test_a_service_that_is_always_too_slow_has_no_rate() -> None:
    found = highest.search(lambda rate: 30e6, BOUND_NS, 100.0)
    assert found.rate is None
    assert min(probe.rate for probe in found.probes) >= highest.LOWEST_SHARE * 100


def test_where_the_service_breaks_down_the_highest_rate_is_one_that_was_kept() -> None:
    found = highest.search(lambda rate: 1e6 if rate <= 333 else math.inf, BOUND_NS, 100.0)
    assert found.rate in [probe.rate for probe in found.probes]
    assert 333 / highest.RESOLUTION <= found.rate <= 333
