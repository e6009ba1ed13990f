"""Processor time that a worker wanted and others got: its threads waited for a core, or the machine was not run at all.

The first is the run delay of `/proc/PID/task/*/schedstat` (Source: Linux, Documentation/scheduler/sched-stats.rst), the
second the steal time of `/proc/stat`, which a hypervisor gives to other machines (Source: proc(5)). A worker's threads
also wait for each other, where they are more than the cores: a worker lost no more than other programs ran meanwhile.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

_PROC = Path("/proc")
_WORK = (0, 1, 2, 5, 6)
"""Places, in the first line of `/proc/stat`, of the times of user, nice, system and interrupts (two kinds)."""
_STEAL = 7
_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 10**7


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lost:
    """What was lost in some span of time.

    Attributes:
        steal_share: steal time as a share of all time in which the machine had work to do.
        run_delay_shares: by worker, the time in which its threads waited while other programs ran, as a share of the
            time in which its threads waited or ran; for each None where the system does not tell.
    """

    steal_share: float | None
    run_delay_shares: Mapping[int, float | None]

    @property
    def most(self) -> float | None:
        """What the worst-off worker lost, as a share of its time; None where the system does not tell."""
        shares = [share for share in self.run_delay_shares.values() if share is not None]
        return max(shares) + (self.steal_share or 0.0) if shares else None


class Watch:
    """Watches workers from now on; one that is parked neither runs nor waits, so only its bursts are counted.

    Args:
        pids: identifiers of the workers' processes; the watching process may be the only one of them.
        proc: the folder that the kernel shows processes in.
    """

    def __init__(self, pids: Iterable[int], proc: Path = _PROC) -> None:
        self._proc = proc
        self._ticks = _ticks(proc)
        self._parent = _threads(proc, "self")
        self._workers = {pid: _threads(proc, pid) for pid in pids}

    def lost(self) -> Lost:
        """What was lost since the watch began."""
        now = _ticks(self._proc)
        if now is None or self._ticks is None:
            return Lost(steal_share=None, run_delay_shares=dict.fromkeys(self._workers))
        passed = [after - before for before, after in zip(self._ticks, now, strict=True)]
        work, steal = sum(passed[place] for place in _WORK), passed[_STEAL]
        own_ns = 0 if os.getpid() in self._workers else self._ran_and_waited(self._parent)[0]
        times = {pid: self._ran_and_waited(threads, pid) for pid, threads in self._workers.items()}
        others_ns = work * _TICK_NS - own_ns - sum(ran for ran, _ in times.values())
        total_ns = sum(map(sum, times.values()))
        return Lost(
            steal_share=steal / (work + steal) if work + steal > 0 else 0.0,
            # Others ran during the bursts of each worker in proportion to the length of these.
            run_delay_shares={
                pid: min(waited / (ran + waited), max(0.0, others_ns / total_ns)) if ran > 0 else None
                for pid, (ran, waited) in times.items()
            },
        )

    def _ran_and_waited(self, before: Mapping[str, tuple[int, int]], pid: int | str = "self") -> tuple[int, int]:
        """Nanoseconds since the watch began; both are 0 where the kernel does not count, or the process has ended."""
        ran = waited = 0
        for thread, (ran_ns, waited_ns) in _threads(self._proc, pid).items():
            ran_before, waited_before = before.get(thread, (0, 0))
            ran += ran_ns - ran_before
            waited += waited_ns - waited_before
        return ran, waited


def _ticks(proc: Path) -> list[int] | None:
    """The first eight numbers of the line of all cores; None where the system does not tell."""
    with contextlib.suppress(OSError, ValueError):
        fields = (proc / "stat").read_text().split("\n", 1)[0].split()
        numbers = [int(field) for field in fields[1 : _STEAL + 2]]
        return numbers if len(numbers) == _STEAL + 1 else None
    return None


def _threads(proc: Path, pid: int | str) -> dict[str, tuple[int, int]]:
    """By thread of a process, the nanoseconds in which it ran, and in which it waited for a core."""
    times = {}
    for path in (proc / str(pid) / "task").glob("*/schedstat"):
        with contextlib.suppress(OSError, ValueError):  # the thread has ended
            ran, waited, _ = path.read_text().split()
            times[path.parent.name] = (int(ran), int(waited))
    return times
