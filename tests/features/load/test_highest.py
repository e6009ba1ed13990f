"""The search for the highest rate that keeps a latency, against services whose latency is a formula."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from bench.features.load import highest

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
    assert len(set(rates)) == len(rates) <= 26
    assert found.fall is None
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


def idle_then_queue(rate: float) -> float:
    """A runtime that is slow after it was idle, as long as requests come apart, and a queue."""
    return 25e6 if rate < 300 else queue(1000.0)(rate)


@pytest.mark.parametrize("guess", [60.0, 250.0, 310.0, 599.0])
def test_a_latency_that_falls_while_the_rate_rises_has_no_highest_rate(guess: float) -> None:
    found = highest.search(idle_then_queue, BOUND_NS, guess)
    assert found.rate is None
    assert found.fall is not None
    low, high = found.fall
    assert (low.latency_ns, low.rate < 300 <= high.rate) == (25e6, True)
    assert high.latency_ns < BOUND_NS
    assert sum(probe.rate == low.rate for probe in found.probes) == 2, "it was tried again"


def test_a_single_slow_answer_at_a_low_rate_is_noise() -> None:
    tried: set[float] = set()

    def latency_ns(rate: float) -> float:
        is_first = rate not in tried
        tried.add(rate)
        return 90e6 if is_first and rate < 300 else queue(1000.0)(rate)

    found = highest.search(latency_ns, BOUND_NS, 500.0)
    assert found.fall is None
    assert found.rate == pytest.approx(950, rel=0.02)


def test_no_fall_is_told_that_was_not_tried_again() -> None:
    """The first answer at each low rate is slow by chance; for the last ones no more probes are made again."""
    tried: set[float] = set()

    def latency_ns(rate: float) -> float:
        is_first = rate not in tried
        tried.add(rate)
        return 90e6 if is_first and rate < 500 else 30e6

    found = highest.search(latency_ns, BOUND_NS, 500.0)
    rates = [probe.rate for probe in found.probes]
    assert len(rates) - len(set(rates)) == highest.MOST_AGAIN
    assert highest.fall(found.probes, BOUND_NS) is not None, "by single probes it would fall"
    assert (found.rate, found.fall) == (None, None)


def test_a_flat_latency_above_the_bound_has_no_rate_and_does_not_fall() -> None:
    found = highest.search(lambda rate: 24e6 if round(rate) % 2 else 22e6, BOUND_NS, 100.0)
    assert (found.rate, found.fall) == (None, None)


@pytest.mark.parametrize("times", [6, 8, 20])
def test_of_a_queue_with_random_service_times_a_fall_is_hardly_ever_told(times: int) -> None:
    """By Lindley's recursion for one server: the same arrivals at all rates, service times of their own at each."""
    rng = np.random.default_rng(1)
    falls = 0
    for _ in range(60):
        gaps_N = rng.exponential(1.0, 700)

        def latency_ns(rate: float, gaps_N: np.ndarray = gaps_N) -> float:
            due_N, service_N = np.cumsum(gaps_N) * 1e9 / rate, rng.exponential(1e6, 700)
            done_N = np.cumsum(service_N)
            latency_N = np.maximum.accumulate(due_N - np.r_[0.0, done_N[:-1]]) + done_N - due_N
            return float(np.percentile(latency_N, 99, method="inverted_cdf"))

        falls += highest.search(latency_ns, times * 1e6, 700.0).fall is not None
    assert falls <= 2


def test_a_service_whose_idle_threads_sleep_is_told_of_its_falling_latency() -> None:
    """One server that takes 15 ms for a request after 9 ms of idleness, and 1 ms otherwise."""
    rng = np.random.default_rng(2)
    told = 0
    for _ in range(10):
        gaps_N = rng.exponential(1.0, 700)

        def latency_ns(rate: float, gaps_N: np.ndarray = gaps_N) -> float:
            free, latencies = 0.0, []
            for due in np.cumsum(gaps_N) * 1e9 / rate:
                free = max(free, due) + (15e6 if due - free > 9e6 else 1e6)
                latencies.append(free - due)
            return float(np.percentile(latencies, 99, method="inverted_cdf"))

        told += highest.search(latency_ns, 10e6, 700.0).fall is not None
    assert told >= 8
