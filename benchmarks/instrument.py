"""Helpers that the benchmarks of the instrument share: a comparison in fresh processes, and a busy machine."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

os.environ["BENCH_PATH"] = str(Path(__file__).parent / "plugins")

from bench.api.cell import Cell
from bench.measure import machine
from bench.measure.block import Method
from bench.measure.goal import Goal
from bench.measure.limits import Limits
from bench.measure.open_work import Progress
from bench.pipeline.sweep import Sweep
from bench.pipeline.sweep_options import Options
from bench.records import assemble
from bench.records.rows import Row
from bench.records.store import Store

BUSY = "while True: pass"


class Silence:
    """An observer that says nothing."""

    def stage(self, name: str, total: int) -> None: ...
    def cell(self, cell: Cell, outcome: str) -> None: ...
    def measured(self, cells: Sequence[Cell]) -> None: ...
    def progress(self, progress: Progress) -> None: ...
    def standing(self, num_cells: int, total: int) -> None: ...


def compare(cells: Sequence[str], goal: Goal) -> dict[str, Row]:
    """Rows of a sweep over some cells with nothing stored before, as `bench run` makes them, by cell path."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder), machine.name())
        Sweep(
            store, Options(goal=goal, method=Method(limits=Limits.of(step_s=None, memory_bytes=None))), Silence()
        ).run([Cell.from_path(path) for path in cells])
        rows = {row.cell: row for row in assemble.rows(store.current_records(), margin=goal.aims.margin)}
    for row in rows.values():
        if row.status != "ok":
            raise SystemExit(f"{row.cell}: {row.reason}")
    return rows


@contextlib.contextmanager
def busy(num_processes: int) -> Iterator[None]:
    """Other processes that use all the time they can get."""
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(num_processes)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def keep(target: Path, content: object) -> None:
    """Store JSON as a whole, so that a script that is stopped finds it there or not."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.with_suffix(".part").write_text(json.dumps(content, indent=1))
    target.with_suffix(".part").replace(target)


def commit() -> str:
    """The commit of the code that measures."""
    root = Path(__file__).parents[1]
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, text=True, capture_output=True, check=False)
    return done.stdout.strip()


def finish(failures: Sequence[str]) -> None:
    """Exit with 1 and the reasons when something was not as it must be."""
    if failures:
        raise SystemExit("FAILED: " + "; ".join(failures))
    sys.stdout.write("passed\n")
