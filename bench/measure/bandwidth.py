"""How fast this machine reads a buffer again and again, as a decoder reads its weights for every token.

A buffer that lies in the caches is read several times as fast as one that does not, so the size is part of the
question.
"""

from __future__ import annotations

import concurrent.futures
from typing import Any

import numpy as np

from bench.measure import clock
from bench.measure.process import ask_once

MOST_BYTES = 2**30
"""Of a buffer that is made: beyond the caches of most processors, so a larger one is read as fast."""
_LEAST_BYTES = 2**16
"""Of the part that a thread reads: of a smaller one, a call's own time would count as reading."""
SPAN_NS = 500_000_000
_TIMEOUT_S = 120.0


def ask(num_bytes: int, threads: int) -> float:
    """Bytes in a second, measured in a process of its own.

    Args:
        num_bytes: size of the buffer.
        threads: threads that read it, each a part of its own.

    Raises:
        ChildError: the child process failed.
    """
    answer = ask_once(
        rate, timeout_s=_TIMEOUT_S, memory_bytes=None, threads=1, num_bytes=min(num_bytes, MOST_BYTES), readers=threads
    )
    return float(answer["bytes_per_s"])


def rate(*, num_bytes: int, readers: int) -> dict[str, Any]:
    """The request to a child process: `bytes_per_s` of the fastest of several rounds.

    A round sums each part's squares, several times where they are small, so that starting the threads takes no time
    worth naming. A thread makes the part that it reads, near the processor that it runs on. A disturbance only lowers
    a rate.
    """
    size = max(_LEAST_BYTES, num_bytes // readers) // 4
    num_read = readers * size * 4
    repeats = max(1, 2**26 // num_read)

    def make(_: int) -> Any:
        return np.ones(size, np.float32)

    def read(part: Any) -> None:
        for _ in range(repeats):
            np.dot(part, part)

    with concurrent.futures.ThreadPoolExecutor(readers) as pool:
        parts = list(pool.map(make, range(readers)))
        list(pool.map(read, parts))
        times: list[int] = []
        end = clock.now_ns() + SPAN_NS
        while clock.now_ns() < end or len(times) < 3:
            times.append(clock.time_call_ns(lambda: list(pool.map(read, parts))))
    return {"bytes_per_s": repeats * num_read / min(times) * 1e9}
