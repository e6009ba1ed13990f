"""Sweeps of `bench run` in folders of their own, which are kept: a benchmark of hours goes on where it was stopped."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import instrument

from bench.measure.questions import Aims
from bench.records import folder
from bench.records.rows import Row

BENCH = Path(sys.executable).with_name("bench")
TOP = Path(instrument.__file__).parents[1]
MARGIN = Aims().margin
RIGHT = ("exact", "close")
"""How close the outputs of a cell are, when the cell runs the same model as the reference."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Swept:
    """A sweep that is over.

    Attributes:
        results: its folder of results.
        start_s: when it began, in seconds since 1970.
        wall_s: how long the command took.
    """

    results: Path
    start_s: float
    wall_s: float

    def row(self, cell: str) -> Row:
        """The row of a cell, which must have been measured and have run the right model."""
        row = {row.cell: row for row in folder.read(self.results, margin=MARGIN).rows}[cell]
        if row.status != "ok" or row.ratio_low is None or row.fidelity not in RIGHT:
            raise SystemExit(f"{cell}, in {self.results}: {row.status}, {row.fidelity}, {row.reason}")
        return row


def run(
    cells: Sequence[str], results: Path, *, budget: str, plugins: Path | None = None, may_fail: bool = False
) -> Swept:
    """Measure cells with `bench run` and nothing measured before, unless the sweep of this folder is over already.

    Args:
        cells: paths of the cells; their baseline is measured with them.
        results: folder of the results. What a stopped sweep left there is removed. A file with the same name and the
            ending `.json` says that the sweep is over; one with the ending `.log` has what it printed.
        budget: time for measuring, such as `30s`.
        plugins: a folder of plugins that come before all others.
        may_fail: whether the command may exit with 1.
    """
    if (before := over(results)) is not None:
        return before
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    path = {"BENCH_PATH": str(plugins)} if plugins else {}
    command = [str(BENCH), "run", *cells, "--budget", budget, "--results", str(results.resolve())]
    log = results.with_name(f"{results.name}.log")
    start_s, begin = time.time(), time.monotonic()
    with log.open("w") as file:
        done = subprocess.run(command, cwd=TOP, env={**os.environ, **path}, stdout=file, stderr=subprocess.STDOUT)
    if done.returncode != 0 and not (may_fail and done.returncode == 1):
        raise SystemExit(f"`{' '.join(command)}` failed; {log} has what it printed")
    figures = {"start_s": start_s, "wall_s": time.monotonic() - begin}
    _note_of(results).write_text(json.dumps(figures))
    return Swept(results=results, **figures)


def fill_cache(cells: Sequence[str], results: Path, *, plugins: Path | None = None) -> None:
    """Prepare and verify cells, so that later sweeps of them only measure; there is no time for a launch."""
    run(cells, results, budget="1s", plugins=plugins, may_fail=True)


def over(results: Path) -> Swept | None:
    """The sweep of a folder of results, where it is over already."""
    note = _note_of(results)
    return Swept(results=results, **json.loads(note.read_text())) if note.is_file() else None


def _note_of(results: Path) -> Path:
    return results.with_name(f"{results.name}.json")


def keep(results: Path, **settings: object) -> None:
    """Note how a folder is measured, and refuse to go on in one that was measured otherwise."""
    noted = results / "settings.json"
    results.mkdir(parents=True, exist_ok=True)
    if not noted.is_file():
        noted.write_text(json.dumps(settings))
    elif (before := json.loads(noted.read_text())) != settings:
        raise SystemExit(f"{results} was measured with {before}, not with {settings}; name another folder")


def sleep_until(then_s: float) -> None:
    """Wait for a time, in seconds since 1970."""
    time.sleep(max(0.0, then_s - time.time()))


def text_of(row: Row) -> str:
    """The ratio of a row with its interval."""
    return f"{row.ratio:.4f} [{row.ratio_low:.4f}, {row.ratio_high:.4f}]"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spread:
    """How far the ratios of one pair of cells lie apart in separate sweeps.

    Attributes:
        num_sweeps: the number of sweeps.
        num_holding: the number of their intervals that hold the median of the ratios.
        median: the median of the ratios.
        log_sd: standard deviation of the logarithms of the ratios; NaN of one sweep.
    """

    num_sweeps: int
    num_holding: int
    median: float
    log_sd: float

    def __str__(self) -> str:
        return (
            f"median {self.median:.4f}, sd of the log-ratio {self.log_sd:.2%}, "
            f"{self.num_holding} of {self.num_sweeps} intervals hold the median"
        )


def spread_of(rows: Sequence[Row]) -> Spread:
    """The spread of one cell's rows, one of each sweep."""
    ratios = [row.ratio for row in rows if row.ratio is not None]
    ends = [(row.ratio_low, row.ratio_high) for row in rows]
    median = statistics.median(ratios)
    return Spread(
        num_sweeps=len(rows),
        num_holding=sum(low is not None and high is not None and low <= median <= high for low, high in ends),
        median=median,
        log_sd=statistics.stdev(map(math.log, ratios)) if len(ratios) > 1 else math.nan,
    )
