"""The scenarios of MLPerf, driven by its own load generator, whose rules decide whether a run counts.

Source: MLPerf Inference rules, https://github.com/mlcommons/inference_policies/blob/master/inference_rules.adoc, and
mlcommons-loadgen 6.0.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import math
import os
import re
import select
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api.errors import InputError
from bench.features.load import wire
from bench.features.load.client import sharpen_timers
from bench.features.load.ledger import Ledger

SERVER, OFFLINE = "server", "offline"
SCENARIOS = {
    "single_stream": "SingleStream",
    "multi_stream": "MultiStream",
    SERVER: "Server",
    OFFLINE: "Offline",
}
"""Names of the scenarios here, and those of the load generator."""
TOKENS = "use_token_latencies"
"""The load generator's setting by which first tokens are told, and its bounds are those on times of tokens."""
SUMMARY = "mlperf_log_summary.txt"
_RESULT = re.compile(r"^Result is : (VALID|INVALID)$", re.MULTILINE)
_UNMET = re.compile(r"^\s*([A-Za-z ]+?) satisfied *: *(?:NO|No)\b", re.MULTILINE)
_FIGURE = re.compile(r"^\s*([A-Za-z0-9. ()]+?)\s*: ([-+0-9.e]+)$", re.MULTILINE)
_ERRORS = re.compile(r"^[1-9]\d* ERRORS? encountered")
_POLL_NS = 50_000_000
"""Time after which the thread that takes answers looks whether it is still needed."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """What the load generator says of a run.

    Attributes:
        is_valid: whether the run counts.
        reason: why not; empty where it counts.
        figures: every figure of its summary, by its name there, such as `99.00 percentile latency (ns)`.
    """

    is_valid: bool
    reason: str
    figures: dict[str, float]


def require() -> None:
    """Raise `InputError` where the load generator is not installed."""
    if importlib.util.find_spec("mlperf_loadgen") is None:
        raise InputError("MLPerf's load generator is missing: pip install 'inferometer[load]'")


def drive(
    *,
    requests: str,
    answers: str,
    scenario: str,
    num_samples: int,
    settings: Mapping[str, float],
    folder: str,
    target: str,
    most_waiting: int,
    silent_ns: int,
    spins: bool,
    num_tokens: int = 0,
) -> dict[str, str | None]:
    """Run one scenario.

    Args:
        requests: path of the pipe of requests.
        answers: path of the pipe of answers.
        scenario: one of `SCENARIOS`.
        num_samples: rows that requests may ask about.
        settings: further fields of the load generator's `TestSettings`, by name.
        folder: where its logs are written.
        target: as of `client.replay`; a request is due when the load generator issues it.
        most_waiting: as of `client.replay`, in the server scenario.
        silent_ns: as of `client.replay`.
        spins: as of `client.replay`.
        num_tokens: tokens of each answer; 0 for answers that are no text.

    Returns:
        Why the run was given up, as `gave_up`: `overloaded`, `silent` or None.
    """
    import mlperf_loadgen as lg

    test, log = lg.TestSettings(), lg.LogSettings()
    test.scenario = getattr(lg.TestScenario, SCENARIOS[scenario])
    test.mode = lg.TestMode.PerformanceOnly
    for name, value in settings.items():
        setattr(test, name, bool(value) if name == TOKENS else value)
    log.log_output.outdir = folder
    log.log_output.copy_summary_to_stdout = False
    limit = most_waiting if scenario == "server" else math.inf
    with (
        wire.opened(Path(requests), blocking=False) as queue,
        wire.opened(Path(answers), blocking=False) as replies,
    ):
        service = _Service(
            lg, queue, replies, most_waiting=limit, silent_ns=silent_ns, spins=spins, num_tokens=num_tokens
        )
        library = lg.ConstructQSL(num_samples, num_samples, lambda _: None, lambda _: None)
        system = lg.ConstructSUT(service.issue, lambda: None)
        sharpen_timers()
        with service.answering():
            lg.StartTestWithLogSettings(system, library, test, log, "")
        lg.DestroySUT(system)
        lg.DestroyQSL(library)
    service.ledger.save(Path(target))
    return {"gave_up": service.gave_up}


class _Service:
    """The system under test as the load generator sees it: it is given queries, and tells when each is complete.

    Where a run is given up, the load generator, which cannot be stopped, is told that each further query is complete as
    soon as it comes. Such a run is void.
    """

    def __init__(
        self,
        lg: Any,
        queue: int,
        replies: int,
        *,
        most_waiting: float,
        silent_ns: int,
        spins: bool,
        num_tokens: int = 0,
    ) -> None:
        self._lg, self._queue, self._replies = lg, queue, replies
        self._most_waiting, self._silent_ns = most_waiting, silent_ns
        self._waiting: dict[int, int] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._spins, self._num_tokens = spins, num_tokens
        self.ledger = Ledger(spins=spins)
        self.gave_up: str | None = None

    def issue(self, samples: list[Any]) -> None:
        """Send queries to the workers."""
        clock, pack, ledger = time.perf_counter_ns, wire.REQUEST.pack, self.ledger
        for sample in samples:
            if len(self._waiting) >= self._most_waiting:
                self._give_up("overloaded")
            if self.gave_up is not None:
                self._complete([sample.id])
                continue
            number = len(ledger.sent_ns)
            ledger.due_ns.append(clock())
            ledger.rows.append(sample.index)
            ledger.sent_ns.append(clock())  # before others learn of it
            with self._lock:
                self._waiting[number] = sample.id
            self._put(pack(number, sample.index))

    def _put(self, record: bytes) -> None:
        while True:
            try:
                os.write(self._queue, record)
                return
            except BlockingIOError:  # offline, all requests come at once
                select.select([], [self._queue], [], _POLL_NS / 1e9)

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Take answers in a thread of its own for as long as the statements in the `with` block take."""
        thread = threading.Thread(target=self._answer)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join()

    def _answer(self) -> None:
        if self._spins:  # on the core of the load generator's own thread, which must not wait for this one
            with contextlib.suppress(OSError):
                os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        while not self._stopped.is_set():
            data = self.ledger.take(self._replies, _POLL_NS)
            firsts, ids = [], []
            with self._lock:
                for number, _, _, _, batch in wire.ANSWER_STRUCT.iter_unpack(data):
                    if batch == wire.FIRST_TOKEN:
                        firsts.append(self._waiting.get(number))
                    else:
                        ids.append(self._waiting.pop(number, None))
            self._begin([query for query in firsts if query is not None])
            self._complete([query for query in ids if query is not None])
            if not data and time.perf_counter_ns() - self._waits_since_ns() > self._silent_ns:
                self._give_up("silent")

    def _waits_since_ns(self) -> float:
        """When the last answer came, or the oldest request that waits was sent; infinite if none waits."""
        with self._lock:
            oldest = next(iter(self._waiting), None)  # requests are sent in their order
        return math.inf if oldest is None else max(self.ledger.last_ns(), self.ledger.sent_ns[oldest])

    def _give_up(self, why: str) -> None:
        self.gave_up = why
        wire.drop_waiting(self._queue)
        with self._lock:
            ids = list(self._waiting.values())
            self._waiting.clear()
        self._complete(ids)

    def _complete(self, ids: Sequence[int]) -> None:
        if ids:
            response, tokens = self._lg.QuerySampleResponse, self._num_tokens
            self._lg.QuerySamplesComplete(
                [response(query, 0, 0, tokens) if tokens else response(query, 0, 0) for query in ids]
            )

    def _begin(self, ids: Sequence[int]) -> None:
        """Tell that the first tokens of answers are there."""
        if ids and self._num_tokens:
            self._lg.FirstTokenComplete([self._lg.QuerySampleResponse(query, 0, 0, 1) for query in ids])


def summary(folder: Path) -> Summary:
    """What the load generator wrote of a run.

    Raises:
        OSError: it wrote no summary.
        ValueError: its summary has no result.
    """
    text = (folder / SUMMARY).read_text()
    head, _, rest = text.partition("Test Parameters Used")
    match = _RESULT.search(head)
    if match is None:
        raise ValueError(f"{SUMMARY} of the load generator has no result")
    unmet = [" ".join(name.split()).lower() for name in _UNMET.findall(head)]
    errors = [line.strip() for line in rest.splitlines() if _ERRORS.search(line)]
    reason = ", ".join((*(f"{name} not met" for name in unmet), *errors))
    figures = {name: float(value) for name, value in _FIGURE.findall(head)}
    is_valid = match[1] == "VALID"
    return Summary(is_valid=is_valid, reason="" if is_valid else reason or "no reason was given", figures=figures)
