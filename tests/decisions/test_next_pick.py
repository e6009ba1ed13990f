"""What a run leads to: the command of `bench pick` that picks, or what is missing for a pick."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from bench.cli import pick as command
from bench.decisions import pick
from bench.decisions.next_pick import NextPick, next_pick
from bench.decisions.pick import Constraints
from bench.measure.comparison import CELL
from bench.records import assemble
from bench.records.folder import Results
from bench.records.lines import Failure
from bench.records.measurements import Measurements
from bench.records.store import Record
from support import records as made

BASE = "toy/null/native/raw/null/cpu/b1t1"
BLOCKS = {"a": 1_000_000, "b": 2_000_000, "c": 1_500_000, "d": 1_200_000}
WOBBLE = {"a": 1.0, "b": -1.0, "c": 0.5, "d": -0.5}


def cell(name: str, factor: float, *, noise: float = 0.0, lost: float = 0.0) -> Record:
    """A cell so many times as slow as the baseline; its launches differ by up to `noise`."""
    launches = [
        made.launch(block, CELL, round(ns * factor * (1 + noise * WOBBLE[block])), reference=BASE)
        for block, ns in BLOCKS.items()
    ]
    return made.record(BASE.replace("raw", name), *launches, quality=made.quality(metric_loss=lost))


def stored(*cells: Record) -> Results:
    records = {record.cell.path: record for record in cells}
    measurements = Measurements(records)
    rows = assemble.rows(records, measurements=measurements)
    return Results(folder=Path("unused"), records=records, rows=rows, measurements=measurements, peaks={}, margin=0.02)


def found(*cells: Record) -> NextPick:
    return next_pick(stored(made.baseline(BASE, **BLOCKS), *cells), "toy")


def test_a_cell_is_picked_within_the_usual_limits() -> None:
    answer = found(cell("fast", 0.5, noise=0.001), cell("fastest", 0.3, noise=0.001, lost=0.2))
    assert answer.choice is not None
    assert answer.choice.picked is not None
    assert (answer.choice.picked.variant, answer.max_metric_loss) == ("fast", 0.01)
    assert (answer.tolerance, answer.reason) == (None, None)


def test_the_tolerance_that_is_named_picks() -> None:
    """The launches of both differ by 10 %, so that nothing is picked at the usual tolerance."""
    cells = (cell("one", 0.5, noise=0.1), cell("other", 0.51, noise=-0.1))
    answer = found(*cells)
    assert answer.choice is not None
    assert answer.choice.picked is None
    assert answer.choice.further is not None
    assert answer.tolerance is not None
    assert pick.TOLERANCE < answer.tolerance < 1
    results = stored(made.baseline(BASE, **BLOCKS), *cells)
    limits = Constraints(max_metric_loss=answer.max_metric_loss)
    assert pick.choose(results.measurements, results.rows, limits, tolerance=answer.tolerance).picked is not None


def test_where_every_cell_may_lose_too_much_a_pick_has_no_limit() -> None:
    baseline = made.replaced_quality(made.baseline(BASE, **BLOCKS), metric_loss=0.03)
    answer = next_pick(stored(baseline, cell("fast", 0.5, noise=0.001, lost=0.02)), "toy")
    assert answer.max_metric_loss is None
    assert answer.choice is not None
    assert answer.choice.picked is not None
    assert answer.reason is not None
    told = "no cell of toy, batch 1, 1 thread meets all of it; alone, --max-metric-drop 0 of 2"
    assert answer.reason.startswith(told)


def test_nothing_is_picked_where_nothing_was_timed() -> None:
    failed = made.record(BASE, quality=None, failure=Failure(stage="verify", reason="no kernel"))
    answer = next_pick(stored(failed), "toy")
    assert (answer.choice, answer.reason) == (None, "no cell of toy was timed and is right")


def test_the_tolerance_is_that_of_the_command() -> None:
    default: Any = inspect.signature(command.pick).parameters["tolerance"].default
    assert default == f"{100 * pick.TOLERANCE:g}%"
