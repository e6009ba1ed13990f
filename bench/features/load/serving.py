"""A worker's side of a service: it takes requests from the queue, answers them, and looks at some of its answers.

What a plain service of Python does: it waits for a request, takes others that wait beside it into one inference where
the model has an open batch, runs, and answers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import random
import select
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

from bench.api import Arrays, Outputs, Session
from bench.api.fidelity import BROKEN_DB, noise_share
from bench.api.generation import Generator
from bench.features.load import wire
from bench.measure.session import Worker

_CHECK_SHARE = 0.002
"""Share of a worker's time in which it may copy answers, which are compared when it has stopped serving: a comparison
takes milliseconds now and then, and the next request may wait."""
_MOST_KEPT = 64
"""Inferences whose answers are kept to be compared, drawn from all of them."""
_POLL_NS = 20_000_000
"""Time after an inference in which a worker with a core of its own polls for the next request before it sleeps."""
_OTHER_WORK_BYTES = 1 << 28
"""Bytes that other work goes through: more than the caches of a server hold."""
_MOST_NOISE = 10 ** (-BROKEN_DB / 10)
"""Power of the error over that of the answer, above which an answer is wrong: quantization by the values of a batch
makes much less, the answer to another request makes more."""


@dataclasses.dataclass(frozen=True, kw_only=True, order=True)
class Batching:
    """How many requests an inference answers.

    Attributes:
        most: the most requests of one inference; 1 for a request at a time.
        delay_ns: nanoseconds that the first of them waits for others at most.
    """

    most: int = 1
    delay_ns: int = 0


class Server:
    """Serves requests with an open session.

    Args:
        session: runs the inferences.
        samples: for each row that a request may ask about, the feeds of one request.
        worker: number of the session among those of the service.
        batching: how requests are put together.

    Attributes:
        longest_ns: nanoseconds of the longest inference of `learn`.
    """

    def __init__(self, session: Session, samples: Sequence[Arrays], worker: int, batching: Batching) -> None:
        self._run, self._samples = session.run, samples
        self._generator = session if isinstance(session, Generator) else None
        self._worker, self._batching = worker, batching
        self._expected: list[list[np.ndarray]] = []
        self._checked = self._wrong = self.longest_ns = 0

    def learn(self) -> int:
        """Run every sample alone, which tells the right answers, and the largest batch once.

        Returns:
            The most requests that an inference will answer: 1 where the session does not take several, or answers them
            otherwise than alone.
        """
        self._expected = [[np.array(output) for output in self._timed(feeds)] for feeds in self._samples]
        if self._batching.most > 1:
            rows = [number % len(self._samples) for number in range(self._batching.most)]
            try:
                self._check(rows, self._timed(self._feeds(rows)))
            except Exception:  # whatever a framework raises where a batch does not fit
                self._wrong += 1
            if self._wrong:
                self._batching = Batching()
            self._checked = self._wrong = 0
        return self._batching.most

    def _timed(self, feeds: Arrays) -> Outputs:
        """Run an inference, and note how long it takes where none before took longer."""
        began_ns = time.perf_counter_ns()
        outputs = self._run(feeds)
        self.longest_ns = max(self.longest_ns, time.perf_counter_ns() - began_ns)
        return outputs

    def serve(self, requests: Path, answers: Path, *, polls: bool) -> dict[str, int]:
        """Serve until a request says to stop.

        Args:
            requests: path of the pipe of requests.
            answers: path of the pipe of answers.
            polls: whether it looks for the next request all the time for `_POLL_NS`, before it sleeps until that comes:
                to wake it takes a virtual machine 100 microseconds and more.

        Returns:
            How many answers were `checked` against those of the idle session, and how many of these were `wrong`.
        """
        clock, pack = time.perf_counter_ns, wire.ANSWER_STRUCT.pack
        with (
            wire.opened(requests, blocking=True) as queue,
            wire.opened(requests, blocking=False) as more,  # another session may take what waits
            wire.opened(answers, blocking=True) as replies,
        ):
            begin, copied_ns = clock(), 0
            copies: list[tuple[list[int], Outputs]] = []
            while batch := self._next(queue, more, _POLL_NS if polls else 0):
                rows = [row for _, row in batch]
                feeds = self._feeds(rows)
                start = clock()
                if rows[0] == wire.OTHER_WORK:
                    outputs = _use_caches()
                elif self._generator is not None:
                    outputs = self._generate(self._generator, feeds, batch[0][0], start, replies)
                else:
                    outputs = self._run(feeds)
                end = clock()
                if len(batch) == 1:  # this time is that of each request, so the usual case is short
                    os.write(replies, pack(batch[0][0], start, end, self._worker, 1))
                else:
                    fields = (start, end, self._worker, len(batch))
                    os.write(replies, b"".join(pack(number, *fields) for number, _ in batch))
                if copied_ns <= _CHECK_SHARE * (end - begin) and rows[0] >= 0 and self._expected:
                    if len(copies) == _MOST_KEPT:
                        copies.pop(random.randrange(_MOST_KEPT))
                    copies.append((rows, [np.array(output) for output in outputs]))
                    copied_ns += clock() - end
        for rows, outputs in copies:
            self._check(rows, outputs)
        return {"checked": self._checked, "wrong": self._wrong}

    def _generate(self, generator: Generator, feeds: Arrays, number: int, start: int, replies: int) -> Outputs:
        """Answer a request with the tokens of a text, and tell when the first of them is there."""
        ids: list[int] = []

        def emit(token: int) -> None:
            if not ids:
                fields = (start, time.perf_counter_ns(), self._worker, wire.FIRST_TOKEN)
                os.write(replies, wire.ANSWER_STRUCT.pack(number, *fields))
            ids.append(token)

        generator.generate(generator.prompt_of(feeds), generator.request.num_new, emit)
        return [np.array(ids, np.int64)]

    def _next(self, queue: int, more: int, poll_ns: int) -> list[tuple[int, int]]:
        """The requests of the next inference; empty where this worker is to stop.

        Args:
            queue: descriptor of the queue, which blocks.
            more: another one, which does not.
            poll_ns: time to poll for the first request.
        """
        size, unpack = wire.REQUEST.size, wire.REQUEST.unpack
        batch = [unpack(polled(more, poll_ns) or os.read(queue, size))]
        if batch[0][0] == wire.STOP:
            return []
        if self._batching.most == 1 or batch[0][1] < 0:
            return batch
        deadline = time.perf_counter_ns() + self._batching.delay_ns
        while len(batch) < self._batching.most:
            left_ns = max(0, deadline - time.perf_counter_ns())
            if not select.select([more], [], [], left_ns / 1e9)[0]:
                break
            with contextlib.suppress(BlockingIOError):
                taken = unpack(os.read(more, size))
                if taken[0] == wire.STOP:  # these first
                    os.write(queue, wire.REQUEST.pack(*taken))
                    break
                batch.append(taken)
        return batch

    def _feeds(self, rows: Sequence[int]) -> Arrays:
        if len(rows) == 1:
            return self._samples[max(0, rows[0])]
        return {name: np.concatenate([self._samples[row][name] for row in rows]) for name in self._samples[0]}

    def _check(self, rows: Sequence[int], outputs: Outputs) -> None:
        """Hold the answers of an inference against those that the session gave when it was idle."""
        for place, output in enumerate(map(np.asarray, outputs)):
            parts = [output] if len(rows) == 1 else np.split(output, len(rows))
            for row, part in zip(rows, parts, strict=True):
                self._checked += place == 0
                expected = self._expected[row][place]
                if part.shape != expected.shape or not noise_share(part, expected) <= _MOST_NOISE:
                    self._wrong += 1


def polled(more: int, poll_ns: int) -> bytes:
    """The next record of a pipe that does not block; empty where none comes within a time."""
    size, clock = wire.REQUEST.size, time.perf_counter_ns
    until = clock() + poll_ns
    while clock() < until:
        with contextlib.suppress(BlockingIOError):
            return os.read(more, size)
    return b""


def serve(servers: Sequence[Server], requests: Path, answers: Path, *, polls: bool) -> dict[str, int]:
    """Serve with several sessions at once, each in a thread of its own; see `Server.serve`.

    Several sessions do not poll: each would keep the interpreter from the others.

    Returns:
        The sum of what the sessions tell.

    Raises:
        Exception: what a session raised, at once: the process is of no use then.
    """
    gc.collect()
    gc.disable()
    try:
        if len(servers) == 1:
            return servers[0].serve(requests, answers, polls=polls)
        pool = ThreadPoolExecutor(len(servers))
        total: Counter[str] = Counter(checked=0, wrong=0)
        try:
            for done in as_completed([pool.submit(server.serve, requests, answers, polls=False) for server in servers]):
                total.update(done.result())
        finally:
            pool.shutdown(wait=False)
        return dict(total)
    finally:
        gc.enable()


def _use_caches() -> Outputs:
    """Read and write more memory than any cache holds, as other work of a machine does."""
    np.ones(_OTHER_WORK_BYTES // 8).sum()
    return []


class Serving:
    """Requests to a worker, which each of these functions takes first."""

    @staticmethod
    def prepare(worker: Worker, *, session: int, most: int, delay_ns: int) -> dict[str, Any]:
        """Get ready to serve requests with the session that was opened last, beside those that are ready.

        Returns:
            The number of samples that requests may ask about, as `num_rows`.

        Args:
            worker: the worker.
            session: number of the session among those of its service.
            most: see `Batching`.
            delay_ns: see `Batching`.
        """
        opened = worker.opened
        server = Server(opened.session, opened.requests, session, Batching(most=most, delay_ns=delay_ns))
        _servers(worker).append(server)
        return {"num_rows": len(opened.requests)}

    @staticmethod
    def learn_answers(worker: Worker) -> dict[str, Any]:
        """See `Server.learn`; `most` are the most requests of an inference, `longest_ns` is that of the longest one."""
        most = min([server.learn() for server in _servers(worker)])
        return {"most": most, "longest_ns": max(server.longest_ns for server in _servers(worker))}

    @staticmethod
    def serve(worker: Worker, *, requests: str, answers: str, polls: bool) -> dict[str, Any]:
        """Serve the requests of a queue, with each session until a request tells it to stop; see `serve`.

        Args:
            worker: the worker.
            requests: path of the pipe of requests.
            answers: path of the pipe of answers.
            polls: as of `serve`.
        """
        return serve(_servers(worker), Path(requests), Path(answers), polls=polls)


def _servers(worker: Worker) -> list[Server]:
    servers: list[Server] = worker.state.setdefault(__name__, [])
    return servers
