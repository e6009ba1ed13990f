"""The capacity of a service that more requests are sent to than may wait, so that none is answered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from bench.api.errors import ChildError
from bench.features.load import capacity
from bench.features.load.served import Run, Served

REQUEST_NS = 10_000_000


class FullDriver:
    """Serves requests one after the other; of more than `most` at once, none."""

    def __init__(self, most: int) -> None:
        self.most = most

    def replay(self, service: object, due_ns: np.ndarray, rows: np.ndarray) -> Run:
        fits = len(due_ns) <= self.most
        due = due_ns if fits else np.empty(0, np.int64)
        end = due + REQUEST_NS if due.any() else REQUEST_NS * np.arange(1, len(due) + 1)
        served = Served(
            due_ns=due,
            rows=rows[: len(due)],
            sent_ns=due,
            start_ns=end - REQUEST_NS,
            end_ns=end,
            received_ns=end,
            worker=np.zeros(len(due), np.int64),
            batch=np.ones(len(due), np.int64),
        )
        return Run(served=served, gave_up=None if fits else "overloaded", checked=0, wrong=0)


def measured(most: int) -> capacity.Capacity:
    service: Any = SimpleNamespace(num_rows=8, setup=SimpleNamespace(at_once=1))
    return capacity.measure(cast(Any, FullDriver(most)), service)


def test_the_last_requests_that_were_answered_tell_the_rate() -> None:
    found = measured(capacity.FIRST_REQUESTS)
    assert (found.rate, found.latency_ns) == (pytest.approx(100), REQUEST_NS)


def test_a_service_that_answers_nothing_is_told() -> None:
    with pytest.raises(ChildError, match="it answers none of 16 requests that are sent at once"):
        measured(1)
