"""The clock: the only place that times an inference.

One sample is `perf_counter_ns` around one inference, host arrays in and host arrays out.
"""

from __future__ import annotations

import dataclasses
import gc
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
SETTLE_STEP_S = 0.001
SETTLE_LIMIT_S = 0.25
QUIET_SHARE = 0.05  # of one core: below it the threads have stopped spinning


@dataclasses.dataclass(frozen=True, kw_only=True)
class BurstPlan:
    """How long one worker runs at a stretch.

    Short, because a busy machine goes from one speed to another and back within tens of milliseconds, and a burst and
    its reference's should see the same one.

    Attributes:
        warm_ns: inferences after waking are kept apart until this much time has passed (at least one).
        target_ns: the burst goes on until this much time has passed,
        min_runs: but takes at least so many samples
        max_runs: and at most so many.
    """

    warm_ns: int = 2_000_000
    target_ns: int = 10_000_000
    min_runs: int = 1
    max_runs: int = 100


def now_ns() -> int:
    """A monotonic time in nanoseconds."""
    return time.perf_counter_ns()


def time_call(call: Callable[[], T]) -> tuple[int, T]:
    """Nanoseconds that one call takes, and what it returns."""
    clock = time.perf_counter_ns
    start = clock()
    result = call()
    return clock() - start, result


def time_call_ns(call: Callable[[], object]) -> int:
    """Nanoseconds that one call takes."""
    return time_call(call)[0]


def burst(run: Callable[[Any], Any], feeds: Any, plan: BurstPlan) -> tuple[list[int], list[int]]:
    """Run inferences back to back with the garbage collector off.

    Returns:
        Cold samples (first inferences after waking) and steady samples, in nanoseconds, in the order they ran.
    """
    clock = time.perf_counter_ns
    cold: list[int] = []
    steady: list[int] = []
    enabled = gc.isenabled()
    gc.disable()
    try:
        end_warm = clock() + plan.warm_ns
        while True:
            start = clock()
            run(feeds)
            end = clock()
            cold.append(end - start)
            if end >= end_warm or len(cold) >= plan.max_runs:
                break
        end_burst = end + plan.target_ns
        while len(steady) < plan.max_runs:
            start = clock()
            run(feeds)
            end = clock()
            steady.append(end - start)
            if end >= end_burst and len(steady) >= plan.min_runs:
                break
    finally:
        if enabled:
            gc.enable()
    return cold, steady


def settle() -> bool:
    """Wait until this process uses no CPU: thread pools go on spinning after an inference and disturb whoever is next.

    Returns:
        Whether it became quiet within the limit.
    """
    deadline = time.perf_counter() + SETTLE_LIMIT_S
    while True:
        cpu, wall = time.process_time(), time.perf_counter()
        time.sleep(SETTLE_STEP_S)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        if cpu < QUIET_SHARE * wall:
            return True
        if time.perf_counter() > deadline:
            return False
