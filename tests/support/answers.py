"""Results made by hand of cells so many times as slow as a baseline, and the answers to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from bench.api.loss_units import AllowedLoss
from bench.decisions import answer as answering
from bench.decisions.answer import Answer
from bench.decisions.constraints import TOLERANCE, Constraints
from bench.measure.comparison import CELL
from bench.records import assemble
from bench.records.folder import Results
from bench.records.measurements import Measurements
from bench.records.store import Record
from support import records as made

BASE = "toy/null/native/raw/null/cpu/b1t1"
TWO = BASE.replace("t1", "t2")
BLOCKS = {"a": 1_000_000, "b": 2_000_000, "c": 1_500_000, "d": 1_200_000}
WOBBLE = {"a": 1.0, "b": -1.0, "c": 0.5, "d": -0.5}


def cell(name: str, factor: float, *, noise: float = 0.0, beside: str = BASE, size: int = 31, **quality: Any) -> Record:
    """A cell so many times as slow as a baseline; its launches differ by up to `noise`."""
    launches = [
        made.launch(block, CELL, round(ns * factor * (1 + noise * WOBBLE[block[0]])), reference=beside)
        for block, ns in BLOCKS.items()
    ]
    quality = {"metric_loss": 0.0, **quality}
    found = made.record(beside.replace("raw", name), *launches, quality=made.quality(**quality))
    return made.with_artifact(found, size_bytes=size)


def baseline(path: str = BASE, factor: float = 1.0) -> Record:
    found: Record = made.baseline(path, **{block: round(ns * factor) for block, ns in BLOCKS.items()})
    return made.replaced_quality(found, metric_loss=0.0)


def stored(*cells: Record) -> Results:
    records = {record.cell.path: record for record in cells}
    measurements = Measurements(records)
    rows = assemble.rows(records, measurements=measurements)
    return Results(folder=Path("unused"), records=records, rows=rows, measurements=measurements, peaks={}, margin=0.02)


def answer(*cells: Record, tolerance: float = TOLERANCE, **constraints: Any) -> Answer:
    results = stored(*cells)
    limits = Constraints(**{"max_metric_loss": AllowedLoss(), **constraints})
    return answering.answer(results.measurements, results.rows, limits, tolerance=tolerance)


def ran_with(found: Record, version: str = "1.0") -> Record:
    """The same record of a cell that ran with a version of a package; records without versions have no twins."""
    lines = [replace(found.header, versions={"runtime": version}), found.quality, *found.launches]
    return Record.from_lines([line for line in lines if line is not None])
