"""Records of two deployments of a decoder: a prefill and a decode step of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.measure.comparison import CELL
from bench.records import assemble
from bench.records.folder import Results
from bench.records.lines import Generation
from bench.records.measurements import Measurements
from bench.records.rows import Row
from bench.records.store import Record
from support import records as made

PREFILL, DECODE = "lm~generate@new=1,prompt=8", "lm~generate@new=64,prompt=8"
SLOW, FAST = "torch/native/raw/slow/cpu/b1t1", "torch/native/raw/fast/cpu/b1t1"
MS = 1_000_000
METRICS = {"accuracy": 0.75, "greedy_agreement": 0.5}


def record(task: str, ns: int, *, is_baseline: bool, **facts: Any) -> Record:
    """One of two cells of a stage, which reads 20 MB at 10 GB/s a pass: 2 ms."""
    told = {"cache_bytes_per_token": 64, "pass_bytes": 20_000_000, "read_bytes_per_s": 10e9, **facts}
    quality = made.quality(metrics=METRICS, generation=Generation(is_decode=task == DECODE, **told))
    reference, path = f"{task}/{SLOW}", f"{task}/{SLOW if is_baseline else FAST}"
    if is_baseline:
        lines = [made.launch(block, role, ns, reference=path) for block in "ab" for role in ("reference", "control")]
    else:
        lines = [made.launch(block, CELL, ns, reference=reference) for block in "ab"]
    return made.record(path, *lines, quality=quality)


def records(fast_ns: int = 4 * MS, **facts: Any) -> dict[str, Record]:
    found = [
        record(PREFILL, 40 * MS, is_baseline=True),
        record(PREFILL, 20 * MS, is_baseline=False, **facts),
        record(DECODE, 8 * MS, is_baseline=True),
        record(DECODE, fast_ns, is_baseline=False, **facts),
    ]
    return {one.cell.path: one for one in found}


def rows(found: dict[str, Record]) -> dict[str, Row]:
    return {row.cell: row for row in assemble.rows(found)}


def results(found: dict[str, Record]) -> Results:
    fitted = Measurements(found)
    made_rows = assemble.rows(found, measurements=fitted)
    return Results(folder=Path(), records=found, rows=made_rows, measurements=fitted, peaks={}, margin=0.02, damages=())
