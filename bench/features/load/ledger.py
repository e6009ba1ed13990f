"""What a client sent and received, with the times: written as it happens and read when it is over."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.features.load import wire


class Ledger:
    """The requests that were sent and the answers that came; requests are numbered from 0.

    Args:
        spins: whether waiting for answers keeps a core busy, so that the system need not wake this process, which takes
            a virtual machine 100 microseconds and more.

    Attributes:
        due_ns: when each request was due, by the clock.
        rows: the sample that each asks about.
        sent_ns: when each was sent.
        received: when something was read from the pipe of answers, and what.
        num_answered: answers that came.
    """

    def __init__(self, *, spins: bool = False) -> None:
        self._spins = spins
        self.due_ns: list[int] = []
        self.rows: list[int] = []
        self.sent_ns: list[int] = []
        self.received: list[tuple[int, bytes]] = []
        self.num_answered = 0

    def take(self, replies: int, most_ns: int) -> bytes:
        """Take the answers that come within a time: some at once, or none.

        Args:
            replies: descriptor of the pipe of answers, which does not block.
            most_ns: nanoseconds to wait.
        """
        if not self._wait(replies, most_ns):
            return b""
        data = os.read(replies, wire.READ_BYTES)
        self.received.append((time.perf_counter_ns(), data))
        self.num_answered += int(np.count_nonzero(np.frombuffer(data, wire.ANSWER)["batch"] != wire.FIRST_TOKEN))
        return data

    def _wait(self, replies: int, most_ns: int) -> bool:
        """Whether there is an answer to take within a time."""
        if not self._spins:
            return bool(select.select([replies], [], [], max(0, most_ns) / 1e9)[0])
        until = time.perf_counter_ns() + most_ns
        while not select.select([replies], [], [], 0)[0]:
            if time.perf_counter_ns() >= until:
                return False
        return True

    def last_ns(self) -> int:
        """When the last answer came, or the first request was sent."""
        return self.received[-1][0] if self.received else self.sent_ns[0]

    def save(self, target: Path) -> None:
        """Write an `.npz` file.

        It has `due_ns`, `rows` and `sent_ns` of the requests that were sent, `begun`, the numbers of those whose first
        token was told, and for each answer, in the order in which
        they came, `received_ns` and the fields of `wire.ANSWER`.
        """
        parts = [np.frombuffer(data, wire.ANSWER) for _, data in self.received]
        answers = np.concatenate([np.empty(0, wire.ANSWER), *parts])
        received = np.repeat(np.array([at for at, _ in self.received], np.int64), [len(part) for part in parts])
        is_answer = answers["batch"] != wire.FIRST_TOKEN
        begun = answers["number"][~is_answer]
        answers, received = answers[is_answer], received[is_answer]
        columns: dict[str, Any] = {name: answers[name] for name in wire.ANSWER.names or ()}
        sent = np.array(self.sent_ns, np.int64)
        due, rows = (np.array(values[: len(sent)], np.int64) for values in (self.due_ns, self.rows))
        np.savez(target, due_ns=due, rows=rows, sent_ns=sent, received_ns=received, begun=begun, **columns)
