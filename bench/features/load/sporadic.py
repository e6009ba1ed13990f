"""Latency of a service that has been idle, or whose processor did other work, and the time to its first answer."""

from __future__ import annotations

import numpy as np

from bench.features.load import wire
from bench.features.load.lines import Sporadic
from bench.features.load.service import Driver, Service, Setup
from bench.measure.limits import Limits
from bench.measure.subject import Subject

SCENARIO = "sporadic"
BUSY, OTHER_WORK = "busy", "other work"
IDLE_S = {"0.1 s": (0.1, 16), "1 s": (1.0, 5), "10 s": (10.0, 2)}
"""By name, seconds of idleness before each request, and how many requests."""
NUM_BUSY = 32
NUM_AFTER_WORK = 8
APART_NS = 500_000_000
"""From when other work is due to when the request behind it is due, and the other way round."""
COLD_STARTS = 3


def measure(subject: Subject, driver: Driver, limits: Limits, *, run: str, longest_s: float = 10.0) -> Sporadic:
    """Start a service of one worker several times, and send it requests now and then.

    Args:
        subject: the cell.
        driver: the client.
        limits: time and memory of the worker.
        run: the identifier of the run.
        longest_s: seconds of idleness, of which longer ones are left out.

    Raises:
        ChildError: the client or the worker failed, or an answer is missing or wrong.
    """
    cold = [_cold_start(subject, driver, limits) for _ in range(COLD_STARTS)]
    with Service(subject, Setup(), limits) as service:
        busy = np.zeros(NUM_BUSY, np.int64)
        served = driver.replay(service, busy, np.arange(NUM_BUSY) % service.num_rows).must_be_whole().served
        # The client sent all of them at once: a request is answered when the one before it is.
        ends = np.r_[served.sent_ns[0], served.received_ns]
        after = {BUSY: _durations(np.diff(np.sort(ends))[1:])}
        for name, (idle_s, number) in IDLE_S.items():
            if idle_s <= longest_s:
                after[name] = _apart(driver, service, int(1e9 * idle_s), number)
        after[OTHER_WORK] = _after_work(driver, service)
    return Sporadic(run=run, after_ns=after, cold_start_ns=tuple(cold))


def _cold_start(subject: Subject, driver: Driver, limits: Limits) -> int:
    with Service(subject, Setup(), limits, learns=False) as service:
        served = driver.replay(service, np.zeros(1, np.int64), np.zeros(1, np.int64)).must_be_whole().served
        return int(served.received_ns[0]) - service.started_ns


def _apart(driver: Driver, service: Service, idle_ns: int, number: int) -> tuple[int, ...]:
    """Latencies of requests that are so far apart; the first, which follows nothing, does not count."""
    usual = driver.replay(service, np.zeros(1, np.int64), np.zeros(1, np.int64)).must_be_whole().served.latency_ns[0]
    due = (idle_ns + int(usual)) * np.arange(number + 1)
    served = driver.replay(service, due, np.arange(number + 1) % service.num_rows).must_be_whole().served
    return _durations(served.latency_ns[1:])


def _after_work(driver: Driver, service: Service) -> tuple[int, ...]:
    due = APART_NS * np.arange(2 * NUM_AFTER_WORK)
    rows = np.arange(2 * NUM_AFTER_WORK) // 2 % service.num_rows
    rows[::2] = wire.OTHER_WORK
    return _durations(driver.replay(service, due, rows).must_be_whole().served.latency_ns[1::2])


def _durations(values: np.ndarray) -> tuple[int, ...]:
    return tuple(max(1, int(value)) for value in values)
