"""What `bench load` finds as the highest rate of a queue, over the rate that the queue holds: by simulation.

A slice begins with nobody waiting and has some hundred requests, so its percentile is less than that of hours, and the
rate that is found is higher. The script prints by how much, for queues with fixed and with exponential service times,
with the slices and the search of `bench load`. The service takes a millisecond in the mean. Before these come lines of
the 99th percentile of a slice, and of all requests of a launch, over that of hours.

    python benchmarks/highest_simulated.py
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from bench.features.load import highest
from bench.features.load.lines import P90, P99, PERCENTILES
from bench.features.load.paired import SLICE_REQUESTS, Arrivals, Bound

SERVICE_NS = 1e6
HOURS = 300_000
"""Requests that tell what a queue holds."""
DRAWN = 1000
"""Arrivals that are drawn for a search, as the load generator draws them."""
MOST_BIAS = 1.15
"""Rate found over the rate that is held, at most, in the geometric mean over searches."""
LOAD, SLICES = 0.7, 6
"""Share of the capacity at which `bench load` compares latencies, and slices of a launch."""


def latency_ns(due_ns: np.ndarray, service_ns: np.ndarray) -> np.ndarray:
    """Latencies of one server by Lindley's recursion, N, in nanoseconds.

    Args:
        due_ns: increasing times of N arrivals.
        service_ns: N service times.
    """
    done = np.cumsum(service_ns)
    began = np.maximum.accumulate(due_ns - np.r_[0.0, done[:-1]])
    return began + done - due_ns


def percentile(values: np.ndarray, statistic: str) -> float:
    """As `bench load` takes it of a slice."""
    return float(np.percentile(values, PERCENTILES[statistic], method="inverted_cdf"))


def services(rng: np.random.Generator, is_fixed: bool, number: int) -> np.ndarray:
    """Service times in nanoseconds."""
    return np.full(number, SERVICE_NS) if is_fixed else rng.exponential(SERVICE_NS, number)


def held(is_fixed: bool, bound: Bound) -> float:
    """The rate at which the percentile of very many requests is the bound."""
    rng = np.random.default_rng(1)
    gaps, service_ns = rng.exponential(1e9, HOURS), services(rng, is_fixed, HOURS)
    low, high = 1.0, 1e9 / SERVICE_NS
    while high > 1.001 * low:
        rate = (low + high) / 2
        keeps = percentile(latency_ns(np.cumsum(gaps) / rate, service_ns), bound.statistic) <= bound.most_ns
        low, high = (rate, high) if keeps else (low, rate)
    return low


def found(rng: np.random.Generator, is_fixed: bool, bound: Bound) -> float:
    """The highest rate by the search of a launch's pass; NaN where it finds none."""
    due_ns = np.cumsum(rng.exponential(SERVICE_NS / 0.7, DRAWN)).astype(np.int64)
    arrivals = Arrivals(due_ns=due_ns, rows=np.zeros(DRAWN, np.int64))

    def try_rate(rate: float) -> float:
        probing = arrivals.probing(0, rate, bound)
        return percentile(latency_ns(probing.due_ns, services(rng, is_fixed, len(probing.due_ns))), bound.statistic)

    return highest.search(try_rate, bound.most_ns, arrivals.rate).rate or float("nan")


def tails(rng: np.random.Generator, is_fixed: bool, launches: int) -> tuple[float, float]:
    """The 99th percentile of a slice (geometric mean) and of a launch (mean), each over that of hours."""

    def drawn(number: int) -> np.ndarray:
        due_ns = np.cumsum(rng.exponential(SERVICE_NS / LOAD, number))
        return latency_ns(due_ns, services(rng, is_fixed, number))

    whole = percentile(drawn(HOURS), P99)
    found = [[drawn(SLICE_REQUESTS) for _ in range(SLICES)] for _ in range(launches)]
    of_slices = [np.log(percentile(one, P99)) for slices in found for one in slices]
    of_launches = [percentile(np.concatenate(slices), P99) for slices in found]
    return float(np.exp(np.mean(of_slices))) / whole, float(np.mean(of_launches)) / whole


def main() -> int:
    """Print a line for each queue and bound; fails where what is found is far above what is held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=200, help="of each queue and bound")
    given = parser.parse_args()
    rng, is_sound = np.random.default_rng(2), True
    for is_fixed in (True, False):
        of_slice, of_launch = tails(rng, is_fixed, given.searches)
        queue = "M/D/1" if is_fixed else "M/M/1"
        print(
            f"{queue} at {100 * LOAD:.0f} %, p99 over that of hours: a slice {of_slice:.2f}, a launch {of_launch:.2f}"
        )
    print("queue, bound in service times: rate found over rate held (geometric mean), scatter of one search, none")
    for is_fixed, statistic, times in (
        (True, P99, 4),
        (True, P99, 10),
        (False, P99, 8),
        (False, P99, 20),
        (True, P90, 4),
        (True, P90, 20),
        (False, P90, 10),
    ):
        bound = Bound(statistic=statistic, most_ns=int(times * SERVICE_NS))
        rates = [found(rng, is_fixed, bound) for _ in range(given.searches)]
        shares = np.log(np.array(rates) / held(is_fixed, bound))
        bias = float(np.exp(np.nanmean(shares)))
        is_sound &= bias <= MOST_BIAS
        queue = "M/D/1" if is_fixed else "M/M/1"
        lacking = 100 * float(np.isnan(shares).mean())
        print(f"{queue}, {statistic} <= {times}: {bias:.3f}, {100 * float(np.nanstd(shares)):.0f} %, {lacking:.1f} %")
    return int(not is_sound)


if __name__ == "__main__":
    sys.exit(main())
