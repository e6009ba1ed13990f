"""What a client and its service did: every request with its times, and the figures of a latency under load."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import numpy as np

from bench.api.errors import ChildError

_FORGED = "the workers sent answers that are none"
_LONG_AGO = np.iinfo(np.int64).min // 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Served:
    """The N requests that were answered, in the order in which they were due; times are nanoseconds of one clock.

    Attributes:
        due_ns: when each was to be sent, N. Latencies count from here: a client that is late hides no waiting.
        rows: the sample that each asked about, N.
        sent_ns: when each was sent, N.
        start_ns: when the inference that answered it began, N.
        end_ns: when that inference ended, N.
        received_ns: when the client had the answer, N.
        worker: number of the worker, N.
        batch: how many requests the same inference answered, N.
        lost_ns: when each of the requests was sent that were not answered.
    """

    due_ns: np.ndarray
    rows: np.ndarray
    sent_ns: np.ndarray
    start_ns: np.ndarray
    end_ns: np.ndarray
    received_ns: np.ndarray
    worker: np.ndarray
    batch: np.ndarray
    lost_ns: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def num_lost(self) -> int:
        """Requests that were sent and not answered."""
        return len(self.lost_ns)

    @property
    def latency_ns(self) -> np.ndarray:
        """From when a request was due until its answer was there, N."""
        return self.received_ns - self.due_ns

    @property
    def asked_s(self) -> float:
        """Seconds from the first request that was due to the last."""
        return float(self.due_ns[-1] - self.due_ns[0]) / 1e9

    @property
    def took_s(self) -> float:
        """Seconds from the first request that was due until the last answer."""
        return float(self.received_ns.max() - self.due_ns[0]) / 1e9

    def overhead_ns(self) -> np.ndarray:
        """Time that the harness took of each request, N.

        That is its latency without the inference, and without waiting for the inference before it on its worker.
        """
        order = np.lexsort((self.start_ns, self.worker))
        worker, start, end = self.worker[order], self.start_ns[order], self.end_ns[order]
        is_first = np.r_[True, (worker[1:] != worker[:-1]) | (start[1:] != start[:-1])]  # request of its inference
        workers, ends = worker[is_first], end[is_first]
        before = np.r_[_LONG_AGO, np.where(workers[1:] == workers[:-1], ends[:-1], _LONG_AGO)]
        free = before[np.cumsum(is_first) - 1]
        took = (start - np.maximum(self.due_ns[order], free)) + (self.received_ns[order] - end)
        overhead = np.empty_like(took)
        overhead[order] = took
        return overhead


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """What a run under load brought.

    Attributes:
        served: the requests that were answered.
        gave_up: `overloaded` or `silent` where the run was given up.
        checked: answers that were held against those of the idle service.
        wrong: those of them that were wrong.
        joules: energy that the machine used meanwhile; None where it does not count it.
        joules_of: what that is the energy of, such as `package-0` and `gpu-0`.
        delay_ns: nanoseconds that a request waited for others at most.
    """

    served: Served
    gave_up: str | None
    checked: int
    wrong: int
    joules: float | None = None
    joules_of: tuple[str, ...] = ()
    delay_ns: int = 0

    def must_be_right(self) -> Run:
        """This run.

        Raises:
            ChildError: an answer was wrong.
        """
        if self.wrong:
            raise ChildError("error", f"{self.wrong} of {self.checked} answers under load were wrong")
        return self

    def must_be_whole(self) -> Run:
        """This run.

        Raises:
            ChildError: an answer was wrong, or a request was not answered.
        """
        if self.gave_up is not None or self.served.num_lost:
            raise ChildError("error", f"{self.served.num_lost} requests were not answered")
        return self.must_be_right()


def read(path: Path, at_once: int) -> Served:
    """What `Ledger.save` wrote; the workers, which a hostile model may run, wrote most of it.

    Args:
        path: the file.
        at_once: sessions that answered.

    Raises:
        ChildError: answers that no worker of ours gives: of requests that were not sent, twice, or at other times.
    """
    with np.load(path) as saved:
        number, sent, begun = saved["number"], saved["sent_ns"], np.sort(saved["begun"])
        order = np.argsort(number, kind="stable")
        number = number[order]
        answered = {name: saved[name][order] for name in ("start_ns", "end_ns", "received_ns", "worker", "batch")}
        is_known = len(number) == 0 or (number[0] >= 0 and number[-1] < len(sent) and np.all(np.diff(number) > 0))
        is_known &= len(begun) == 0 or (begun[0] >= 0 and begun[-1] < len(sent) and np.all(np.diff(begun) > 0))
        if not is_known:
            raise ChildError("error", _FORGED)
        requests = {name: saved[name][number] for name in ("due_ns", "rows", "sent_ns")}
    times = (requests["sent_ns"], answered["start_ns"], answered["end_ns"], answered["received_ns"])
    is_in_order = all(np.all(earlier <= later) for earlier, later in itertools.pairwise(times))
    is_ours = np.all((answered["worker"] >= 0) & (answered["worker"] < at_once) & (answered["batch"] >= 1))
    if not is_in_order or not is_ours:
        raise ChildError("error", _FORGED)
    is_lost = np.ones(len(sent), bool)
    is_lost[number] = False
    return Served(**requests, **answered, lost_ns=sent[is_lost])
