"""Memory by phase: a peak belongs to the phase it happened in, and to no other."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from bench.measure import memory
from bench.measure.memory import MemoryLog, Phase

MIB = 2**20
SIZE = 64 * MIB


@pytest.fixture
def kernel() -> MemoryLog:
    log = MemoryLog()
    if log.method != "kernel":
        pytest.skip("this system cannot reset its peak")
    return log


def phases_alone(code: str, log: str = "MemoryLog()") -> dict[str, Phase]:
    """Phases that `code` logs in a process of its own.

    Beside whatever else the tests hold, an old thread or the garbage collector gives back megabytes in the middle of a
    phase. ``touch()`` is `SIZE` bytes that were written, so that they are resident.
    """
    lines = [
        "import json, sys",
        "from pathlib import Path",
        "from bench.measure.memory import MemoryLog",
        f"touch = lambda: bytearray(b'\\1') * {SIZE}",
        f"log = {log}",
        *textwrap.dedent(code).splitlines(),
        "json.dump(log.as_json()['phases'], sys.stdout)",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    return {name: Phase(**fields) for name, fields in json.loads(done.stdout).items()}


@pytest.mark.usefixtures("kernel")
def test_peak_belongs_to_its_phase() -> None:
    found = phases_alone("""
        with log.phase("before"): pass
        with log.phase("peak"): touch()  # and given back at once
        with log.phase("after"): pass
    """)
    assert list(found) == ["before", "peak", "after"]
    growth = found["peak"].peak_rss_bytes - found["before"].rss_bytes
    assert 0.95 * SIZE < growth < SIZE + 16 * MIB
    assert found["peak"].rss_bytes - found["before"].rss_bytes < 8 * MIB
    assert abs(found["after"].peak_rss_bytes - found["before"].peak_rss_bytes) < 8 * MIB


@pytest.mark.usefixtures("kernel")
def test_what_stays_is_told_from_the_peak() -> None:
    found = phases_alone("""
        with log.phase("before"): pass
        with log.phase("load"): kept = touch()
        with log.phase("steady"): pass
    """)
    for field in ("rss_bytes", "private_bytes"):
        grown = getattr(found["load"], field) - getattr(found["before"], field)
        assert 0.95 * SIZE < grown < SIZE + 8 * MIB, field
    assert found["steady"].rss_bytes >= found["load"].rss_bytes - 8 * MIB


def test_peak_is_never_below_what_stays(kernel: MemoryLog) -> None:
    for name in "abc":
        with kernel.phase(name):
            pass
    assert all(phase.peak_rss_bytes >= phase.rss_bytes > 0 for phase in kernel.phases)


def test_falls_back_to_polling_and_says_so(tmp_path: Path) -> None:
    assert MemoryLog(tmp_path / "no proc").method == "polling"
    code = """
        with log.phase("before"): pass
        with log.phase("peak"): kept = touch()
    """
    found = phases_alone(code, "MemoryLog(Path('no proc'))")
    assert list(found) == ["before", "peak"]
    assert found["peak"].peak_rss_bytes - found["before"].rss_bytes > 0.95 * SIZE
    assert found["peak"].private_bytes is None


@pytest.mark.parametrize("status", ["", "VmRSS:\t 12 kB\n", "VmHWM:\t 0 kB\n"])
def test_a_kernel_that_does_not_say_its_peak_is_polled(tmp_path: Path, status: str) -> None:
    (tmp_path / "clear_refs").write_text("")
    (tmp_path / "status").write_text(status)
    assert MemoryLog(tmp_path).method == "polling"


def test_fields_of_the_kernel(tmp_path: Path) -> None:
    """The peak is reset at the start of each phase and read at its end."""
    (tmp_path / "clear_refs").write_text("")
    (tmp_path / "status").write_text("Name:\tpython\nVmHWM:\t  99999999 kB\nThreads:\t1\n")
    (tmp_path / "smaps_rollup").write_text("0-1 ---p 0 00:00 0 [rollup]\nPrivate_Clean: 3 kB\nPrivate_Dirty: 4 kB\n")
    log = MemoryLog(tmp_path)
    assert log.method == "kernel"
    (tmp_path / "clear_refs").write_text("")
    with log.phase("load"):
        assert (tmp_path / "clear_refs").read_text() == "5"
    (phase,) = log.phases
    assert (phase.peak_rss_bytes, phase.private_bytes) == (99999999 * 1024, 7 * 1024)


def test_poller_ends_when_the_phase_fails(tmp_path: Path) -> None:
    code = (
        "import sys, threading; from pathlib import Path; from bench.measure.memory import MemoryLog\n"
        "log = MemoryLog(Path('nowhere'))\n"
        "try:\n    with log.phase('a'): raise ValueError\nexcept ValueError: print(threading.active_count())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout == "1\n"


def test_poll_interval_is_short() -> None:
    assert memory.POLL_S <= 0.005


def test_children_are_weighed_with_theirs() -> None:
    """A process with 50 MB of its own starts another that has as much."""
    code = "import subprocess, sys; own = bytearray(b'1' * 50_000_000); {}print(flush=True); sys.stdin.read()"
    inner = f"subprocess.Popen([sys.executable, '-c', {code.format('')!r}]); "
    before = memory.rss_bytes_of_children()
    with subprocess.Popen(
        [sys.executable, "-c", code.format(inner)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(2)]
        weighed = memory.rss_bytes_of_children() - before
        child.communicate()
    assert lines == [b"\n"] * 2
    assert 100_000_000 < weighed < 180_000_000
