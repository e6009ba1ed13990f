"""What a service does when it is not loaded, and when it never waits for a request."""

from __future__ import annotations

import dataclasses

import numpy as np

from bench.api.errors import ChildError
from bench.features.load.service import Driver, Service

CAPACITY_S = 1.0
"""Seconds of requests that tell how many a service answers in a second."""
FIRST_REQUESTS = 16
_MOST_REQUESTS = 4096
ALONE = 16
"""Requests that are sent one after the other, to tell the latency when none waits."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Capacity:
    """The ends of what a service can do.

    Attributes:
        rate: requests that it answers in a second when it never waits for one.
        latency_ns: median latency of requests that come one at a time.
    """

    rate: float
    latency_ns: float


def measure(driver: Driver, service: Service) -> Capacity:
    """Send many requests at once, and then a few one at a time.

    Raises:
        ChildError: the client or a worker failed, or an answer is missing or wrong.
    """
    number, rate = FIRST_REQUESTS, 0.0
    while True:
        run = driver.replay(service, np.zeros(number, np.int64), np.arange(number) % service.num_rows)
        served = run.must_be_right().served
        if len(served.due_ns) == 0:  # more waited than may, before the first answer
            break
        seconds = float(served.received_ns.max() - served.sent_ns.min()) / 1e9
        rate = len(served.due_ns) / seconds
        if seconds >= CAPACITY_S or 2 * number > _MOST_REQUESTS or run.gave_up is not None:
            break  # where more would wait than may, those that were answered tell
        number = min(_MOST_REQUESTS, max(2 * number, int(number * CAPACITY_S / seconds)))
    if rate == 0:
        raise ChildError("error", f"it answers none of {number} requests that are sent at once")
    apart_ns = int(4e9 * service.setup.at_once / rate)
    apart = driver.replay(service, apart_ns * np.arange(ALONE), np.arange(ALONE) % service.num_rows)
    alone = apart.must_be_whole().served
    return Capacity(rate=rate, latency_ns=float(np.median(alone.latency_ns)))
