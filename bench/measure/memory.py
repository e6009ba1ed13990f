"""Memory of this process by phase, as the kernel counts it.

The kernel keeps the peak resident size (`VmHWM`); writing 5 to `/proc/self/clear_refs` sets it back to the present
size, so each phase has a peak of its own and no thread polls. Source: proc(5), `/proc/pid/clear_refs`. Where there is
no `/proc`, a thread polls instead, and every record says so.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

POLL_S = 0.002
_PROC = Path("/proc/self")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """Resident memory of one phase.

    Attributes:
        name: name of the phase.
        peak_rss_bytes: largest resident size in the phase.
        rss_bytes: resident size at the end of the phase.
        private_bytes: the part of `rss_bytes` that no other process shares; None where the system does not tell.
    """

    name: str
    peak_rss_bytes: int
    rss_bytes: int
    private_bytes: int | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Memory:
    """Memory of a process by phase.

    Attributes:
        method: `kernel`, or `polling`, which may miss a short peak.
        phases: by their names, in the order in which they ran.
    """

    method: str
    phases: Mapping[str, Phase]


class MemoryLog:
    """Records the memory of phases one after the other, of this process or of another one by its identifier."""

    def __init__(self, proc: Path = _PROC, *, process: int | None = None) -> None:
        self.phases: list[Phase] = []
        self._proc = proc if process is None else Path("/proc", str(process))
        self.method = "kernel" if self._reset_peak() else "polling"

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Record the memory of the statements in the `with` block as one phase."""
        if self.method == "kernel":
            self._reset_peak()
            yield
            peak = self._peak_bytes()
        else:
            with _Poller(self._proc) as poller:
                yield
            peak = poller.peak
        rss = rss_bytes(self._proc)
        self.phases.append(
            Phase(name=name, peak_rss_bytes=max(peak, rss), rss_bytes=rss, private_bytes=private_bytes(self._proc))
        )

    def as_json(self) -> dict[str, Any]:
        """The fields of `Memory`, as a worker sends them to its parent."""
        return dataclasses.asdict(Memory(method=self.method, phases={phase.name: phase for phase in self.phases}))

    def _reset_peak(self) -> bool:
        try:
            (self._proc / "clear_refs").write_text("5")
            return self._peak_bytes() > 0
        except (OSError, KeyError):
            return False

    def _peak_bytes(self) -> int:
        return _kib_fields(self._proc / "status")["VmHWM"]


def _kib_fields(path: Path) -> dict[str, int]:
    """Bytes by field of a file with lines such as `VmHWM:  1234 kB`."""
    rows = (line.split() for line in path.read_text().splitlines())
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) == 3 and row[2] == "kB"}


def private_bytes(proc: Path = _PROC) -> int | None:
    """Resident bytes of a process that no other one shares; None where the system does not tell."""
    with contextlib.suppress(OSError):
        fields = _kib_fields(proc / "smaps_rollup")
        return fields["Private_Clean"] + fields["Private_Dirty"]
    return None


_mapped_before = 0
"""Bytes of files that the template of this process has in memory."""


def forked_from(file_bytes: int) -> None:
    """Note that this process is a fork of a process with so many bytes of files in memory."""
    global _mapped_before
    _mapped_before = file_bytes


def file_bytes() -> int:
    """Bytes of files, such as those of libraries, that this process has in memory; 0 where there is no `/proc`."""
    try:
        return _kib_fields(_PROC / "status").get("RssFile", 0)
    except OSError:
        return 0


def rss_bytes_if_started() -> int:
    """Resident size of this process; of a fork, what it would be, had the process been started.

    A fork has those pages of files in memory that it has read since, and a started process all those that its imports
    have read. Source: `copy_page_range` in Linux's mm/memory.c, which leaves such pages out.
    """
    return rss_bytes() + max(0, _mapped_before - file_bytes())


def rss_bytes(proc: Path = _PROC) -> int:
    """Resident size of this process, or of that of another folder of `/proc`."""
    try:
        pages = int((proc / "statm").read_text().split()[1])
    except OSError:  # there is no `/proc`
        import psutil

        pid = int(proc.name) if proc.name.isdecimal() else None
        return int(psutil.Process(pid).memory_info().rss)
    return pages * os.sysconf("SC_PAGE_SIZE")


def rss_bytes_of_children() -> int:
    """Resident size of all processes that this one has started, each less what it shares, and of the largest all."""
    import psutil

    folders = [Path("/proc", str(child.pid)) for child in psutil.Process().children(recursive=True)]
    sizes = []
    for folder in folders:
        with contextlib.suppress(OSError, psutil.Error):  # it has ended meanwhile
            sizes.append((rss_bytes(folder), private_bytes(folder)))
    largest = max(sizes, default=(0, 0), key=lambda size: size[0])
    return largest[0] - (largest[1] or 0) + sum(rss if private is None else private for rss, private in sizes)


class _Poller:
    """Reads the resident size every few milliseconds, which can miss a short peak."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc

    def __enter__(self) -> _Poller:
        self.peak = rss_bytes(self._proc)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()
        return self

    def _poll(self) -> None:
        while not self._stop.wait(POLL_S):
            self.peak = max(self.peak, rss_bytes(self._proc))

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
