"""A sweep that is killed at any moment keeps all finished work, leaves no process, and can be continued."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Harness

NUM_LAUNCHES = 2
FAULTS = Path(__file__).parents[1] / "faults"
CELLS = [
    f"toy/null/native/{variant}/null/cpu/{sizes}" for sizes in ("b1t1", "b2t1", "b4t1") for variant in ("raw", "fewer")
]


FEW = CELLS[:2]


def command(cells: list[str], launches: int = NUM_LAUNCHES) -> tuple[str, ...]:
    return ("run", *cells, "--launches", str(launches))


@pytest.fixture(autouse=True)
def _variants(harness: Harness) -> None:
    harness.environment["BENCH_PATH"] = str(FAULTS)


def wait_for(condition: Callable[[], bool], what: str, limit_s: float = 90) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def check_complete(harness: Harness, cells: list[str]) -> None:
    rows = harness.rows()
    assert set(rows) == set(cells)
    for cell, row in rows.items():
        assert (row["status"], row["reason"], row["fidelity"]) == ("ok", None, "exact"), cell
        assert row["num_launches"] >= NUM_LAUNCHES, cell
        assert row["latency_p50_ns"] > 0, cell
        assert row["ratio"] is not None, cell


@pytest.mark.parametrize(
    ("num_kills", "cells"), [(2, FEW), pytest.param(8, CELLS, marks=pytest.mark.thorough)], ids=["few", "many"]
)
def test_killed_at_moments(num_kills: int, cells: list[str], harness: Harness) -> None:
    """Before, in and between all stages, for the run goes on a little further each time."""
    moments = random.Random(20)
    seen: set[str] = set()
    num_running = 0
    for _ in range(num_kills):
        # Counted in stored lines, so that the moments are spread alike on a slow machine and a fast one.
        num_lines, more_s = moments.randint(0, 3), moments.uniform(0.0, 0.4)
        before = harness.num_lines()
        process = harness.start(*command(cells), process_group=0)
        wait_for(
            lambda: process.poll() is not None or harness.num_lines() - before >= num_lines,  # noqa: B023
            "no progress",
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=more_s)
        num_running += process.poll() is None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        ids = harness.launch_ids()
        assert seen <= set(ids)  # nothing that was finished is lost
        assert len(ids) == len(set(ids))
        seen |= set(ids)
        wait_for(lambda: not harness.workers(), "workers outlive the sweep")
    assert num_running >= num_kills / 2  # most were killed at work
    harness.run(*command(cells))
    ids = harness.launch_ids()
    assert seen <= set(ids)
    assert len(ids) == len(set(ids))
    check_complete(harness, cells)
    for path in harness.files():
        assert path.read_bytes().endswith(b"\n")  # a line that was cut short is healed
    harness.here(*command(cells))
    assert harness.launch_ids() == ids  # and nothing is measured again


@pytest.mark.thorough
def test_line_that_was_cut_short_is_measured_again(harness: Harness) -> None:
    """As a power cut leaves it."""
    harness.here(*command(FEW))
    cut = next(path for path in harness.files() if "/fewer/" in path.read_text().splitlines()[0])
    assert b'"kind":"launch"' in cut.read_bytes().splitlines()[-1]
    cut.write_bytes(cut.read_bytes()[:-40])
    before = harness.launch_ids()
    harness.here(*command(FEW))
    assert set(before) < set(harness.launch_ids())
    check_complete(harness, FEW)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(signal.SIGINT, 130, id="INT"),
        pytest.param(signal.SIGTERM, 143, id="TERM", marks=pytest.mark.thorough),
    ],
)
def test_signal(harness: Harness, number: int, code: int) -> None:
    """A signal goes to the whole group, as a terminal sends it; the first asks for what is measured, as a table."""
    process = harness.start(*command(FEW, launches=50), "--margin", "0.0001%", process_group=0)
    wait_for(lambda: len(harness.launch_ids()) >= 3, "no block was finished")
    finished = harness.launch_ids()
    start_s = time.monotonic()
    os.killpg(process.pid, number)
    if number == signal.SIGTERM:  # twice in a row, as from somebody who does not wait for the table
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
    assert process.wait(timeout=30) == code
    assert time.monotonic() - start_s < 5
    table = (harness.folder / "stdout").read_text()
    assert number == signal.SIGTERM or ("p50 (" in table and "baseline" in table)
    last = harness.stderr().splitlines()[-1]
    assert last == f"bench: stopped; {len(harness.launch_ids())} launches kept; the same command goes on"
    assert "Traceback" not in harness.stderr()
    assert harness.workers() == []
    assert set(finished) <= set(harness.launch_ids())
    harness.here(*command(FEW))
    assert set(finished) <= set(harness.launch_ids())
    check_complete(harness, FEW)


def test_a_signal_before_all_cells_are_timed_says_which_are_not_in_the_table(harness: Harness) -> None:
    """A brief sweep goes on with other cells while one of them is verified."""
    harness.here(*command(FEW))
    process = harness.start(*command(CELLS), process_group=0)
    wait_for(lambda: len(harness.lines("quality")) > len(FEW), "no other cell was verified")
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert "baseline" in (harness.folder / "stdout").read_text()
    assert re.search(r"of 6 cells, these are not in the table: [1-4] not timed yet\n", harness.stderr())


@pytest.mark.thorough
def test_two_sweeps_at_once_are_refused(harness: Harness) -> None:
    """They would measure each other."""
    process = harness.start(*command(FEW), process_group=0)
    wait_for(lambda: bool(harness.lines("quality")), "nothing was verified")
    os.killpg(process.pid, signal.SIGSTOP)
    try:
        harness.here(*command(FEW), code=2)
        assert "another `bench` is writing to" in harness.stderr()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    wait_for(lambda: not harness.workers(), "workers outlive the sweep")
    harness.here(*command(FEW))  # the lock ended with its holder
    check_complete(harness, FEW)
