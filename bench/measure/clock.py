"""The clock: the only module that times inferences, but for tokens, see `bench.measure.tokens`.

One sample is `perf_counter_ns` around one inference, host arrays in and host arrays out.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
SETTLE_STEP_S = 0.001
SETTLE_LIMIT_S = 0.25
_STEP_OF_OTHERS_S = 0.012  # the kernel tells what other processes ran at ticks, of 4 ms or less
_QUIET_SHARE = 0.05  # of one core: a process that uses less has no spinning threads


@dataclasses.dataclass(frozen=True, kw_only=True)
class BurstPlan:
    """How long one worker runs inferences in one burst.

    Bursts are short, because the speed of a busy machine changes within tens of milliseconds, and a burst of a cell and
    the burst of its reference should run at the same speed.

    Attributes:
        warm_ns: time in nanoseconds after waking, in which inferences count as cold.
        min_cold: fewest cold samples of a burst.
        target_ns: time in nanoseconds after which the burst ends, within the two limits below.
        min_runs: fewest steady samples of a burst.
        max_runs: most steady samples of a burst, and most cold samples.
        long_ns: an inference that takes at least as long is not cold: see `for_inference`.
    """

    warm_ns: int = 2_000_000
    min_cold: int = 1
    target_ns: int = 10_000_000
    min_runs: int = 1
    max_runs: int = 100
    long_ns: int = 200_000_000

    def for_inference(self, time_ns: float) -> BurstPlan:
        """This plan for a model whose inference takes so long: of long ones the first of a burst counts, too.

        Waking costs the first inference 0.5 to 2 ms more than the second, so of an inference of 200 ms and its
        successor the median is at most half a per cent higher, and half of the inferences are not thrown away.
        """
        if time_ns < self.long_ns:
            return self
        return dataclasses.replace(self, warm_ns=0, min_cold=0, min_runs=max(2, self.min_runs))


def now_ns() -> int:
    """A monotonic time in nanoseconds."""
    return time.perf_counter_ns()


def time_call(call: Callable[[], T]) -> tuple[int, T]:
    """The duration of one call in nanoseconds, and the value that the call returns."""
    clock = time.perf_counter_ns
    start = clock()
    result = call()
    return clock() - start, result


def time_call_ns(call: Callable[[], object]) -> int:
    """The duration of one call in nanoseconds."""
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
        end = clock()
        end_warm = end + plan.warm_ns
        while len(cold) < plan.min_cold or (end < end_warm and len(cold) < plan.max_runs):
            start = clock()
            run(feeds)
            end = clock()
            cold.append(end - start)
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


def settle(pid: int | None = None) -> bool:
    """Wait until this process, or another one, uses no CPU.

    Thread pools go on spinning after an inference, and would disturb the worker that is measured next.

    Returns:
        Whether the process became quiet within `SETTLE_LIMIT_S`.
    """
    step_s = SETTLE_STEP_S if pid is None else _STEP_OF_OTHERS_S
    deadline = time.perf_counter() + SETTLE_LIMIT_S
    while True:
        before, wall = time.process_time() if pid is None else _ran_s(pid), time.perf_counter()
        time.sleep(step_s)
        cpu = time.process_time() - before if isinstance(before, float) else _ran_since(before, _ran_s(pid))
        if cpu < _QUIET_SHARE * (time.perf_counter() - wall):
            return True
        if time.perf_counter() > deadline:
            return False


def _ran_s(pid: int | None) -> dict[str, float]:
    """Seconds of processor time of each thread of a process that lives; of the whole where no thread can be read.

    Source: proc(5), `schedstat`.
    """
    ran_s = {}
    for file in Path("/proc", str(pid), "task").glob("*/schedstat"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # the thread has ended
            ran_s[file.parent.name] = int(file.read_text().split()[0]) / 1e9
    if not ran_s:  # this kernel keeps no such file, or there is no `/proc`
        import psutil

        with contextlib.suppress(psutil.Error):
            times = psutil.Process(pid).cpu_times()
            ran_s[""] = times.user + times.system
    return ran_s


def _ran_since(before: dict[str, float], after: dict[str, float]) -> float:
    """Seconds in which the threads ran that live still."""
    return sum(ran_s - before.get(thread, 0.0) for thread, ran_s in after.items())
