"""The client of a service: it sends requests at given times, and notes when each was answered.

It runs in a process of its own, see `bench.measure.worker`. Where it has no core to itself, it sleeps between what it
does, so that it takes as little as possible of the processor from the workers that it times.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import time
from pathlib import Path

import numpy as np

from bench.features.load import wire
from bench.features.load.ledger import Ledger

_PR_SET_TIMERSLACK = 29
_LEAD_NS = 20_000_000
"""Time before the first request is due, in which the client gets ready."""


def replay(
    *, requests: str, answers: str, plan: str, target: str, most_waiting: int, silent_ns: int, spins: bool
) -> dict[str, str | None]:
    """Send requests at the times of a plan, and write when each was answered.

    Args:
        requests: path of the pipe of requests.
        answers: path of the pipe of answers.
        plan: `.npz` file with `due_ns`, increasing nanoseconds after the beginning at which requests are due, and
            `rows`, the samples that they ask about; both int64, of N requests.
        target: file to write, see `Ledger.save`.
        most_waiting: requests that may wait at a time: of more, the service is overloaded, and no further one is sent.
        silent_ns: nanoseconds without an answer, while requests wait, after which no answer is expected any more.
        spins: see `Ledger`.

    Returns:
        Why the client gave up, as `gave_up`: `overloaded`, `silent` or None.
    """
    with np.load(plan) as saved:
        due, rows = saved["due_ns"].tolist(), saved["rows"].tolist()
    with (
        wire.opened(Path(requests), blocking=False) as queue,
        wire.opened(Path(answers), blocking=False) as replies,
    ):
        client = Client(queue, replies, most_waiting=most_waiting, silent_ns=silent_ns, spins=spins)
        sharpen_timers()
        gc.collect()
        gc.disable()
        try:
            begin = time.perf_counter_ns() + _LEAD_NS
            gave_up = client.run([begin + each for each in due], rows)
        finally:
            gc.enable()
            wire.drop_waiting(queue)
    client.ledger.save(Path(target))
    return {"gave_up": gave_up}


class Client:
    """Sends requests when they are due, and takes answers when they come.

    Args:
        queue: descriptor of the requests, which does not block.
        replies: descriptor of the answers, which does not block.
        most_waiting: see `replay`.
        silent_ns: see `replay`.
        spins: see `Ledger`.
    """

    def __init__(self, queue: int, replies: int, *, most_waiting: int, silent_ns: int, spins: bool = False) -> None:
        self._queue, self._replies = queue, replies
        self._most_waiting, self._silent_ns = most_waiting, silent_ns
        self.ledger = Ledger(spins=spins)

    def run(self, due: list[int], rows: list[int]) -> str | None:
        """Send all requests and wait for the answers, or give up; returns why: `overloaded`, `silent` or None.

        Args:
            due: nanoseconds of the clock at which each request is due, increasing.
            rows: the row of the sample that each asks about.
        """
        clock, pack = time.perf_counter_ns, wire.REQUEST.pack
        queue, ledger, total = self._queue, self.ledger, len(due)
        ledger.due_ns, ledger.rows, sent = due, rows, ledger.sent_ns
        number = 0
        while number < total:
            now = clock()
            while number < total and due[number] <= now:
                if number - ledger.num_answered >= self._most_waiting:
                    self._wait_for(number - wire.drop_waiting(queue))
                    return "overloaded"
                sent.append(clock())
                try:
                    os.write(queue, pack(number, rows[number]))
                except BlockingIOError:  # the system gave the pipe less room than `most_waiting` requests take
                    sent.pop()
                    self._wait_for(number - wire.drop_waiting(queue))
                    return "overloaded"
                number += 1
            if number < total:
                if self._is_silent(number):
                    return "silent"
                ledger.take(self._replies, due[number] - clock())
        return None if self._wait_for(total) else "silent"

    def _wait_for(self, number: int) -> bool:
        """Wait until so many requests are answered; False where no more answers come."""
        while self.ledger.num_answered < number:
            if self._is_silent(number):
                return False
            self.ledger.take(self._replies, self._silent_ns)
        return True

    def _is_silent(self, number: int) -> bool:
        """Whether an answer should have come, after so many requests."""
        if self.ledger.num_answered == number:
            return False
        since = max(self.ledger.last_ns(), self.ledger.sent_ns[self.ledger.num_answered])
        return time.perf_counter_ns() - since > self._silent_ns


def sharpen_timers() -> None:
    """Have the system wake this thread when its time comes, and not up to 50 microseconds later; its threads, too.

    Source: prctl(2).
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
