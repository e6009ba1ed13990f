"""Records for tests of the page: cells of every kind, and names and reasons that try to break out of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from msgspec.structs import replace

from bench.api.loss_units import AllowedLoss
from bench.api.names import TaskName
from bench.decisions.best import best
from bench.measure.comparison import CELL
from bench.records import assemble
from bench.records.lines import Failure
from bench.records.measurements import Measurements
from bench.records.metric_loss import Lost
from bench.records.store import Record, Store
from support import records as made

BASELINE, HALVE, PRUNE = made.BASELINE, made.HALVE, made.PRUNE
BROKEN = "toy/null/native/broken/null/cpu/b2t1"
HOSTILE = "<script>alert(1)</script>"
REASON = """</script></style>--><img src="https://example.org/x.png" onerror="alert(2)">'"&amp;{{ 7 * 7 }}"""
NUM_SAMPLES = 250
LOST = Lost(num_samples=5_000, score=0.75, most=1.0, points=tuple((row, 1.0) for row in range(25)))
"""One sample in 200 is lost, 0.67 % of the metric; with 95 % confidence no more than 0.93 % of it."""


def cell(path: str, factor: float, **quality: object) -> Record:
    """A cell that takes `factor` times as long as the baseline in both of its blocks."""
    blocks = {"a": 1_000_000, "b": 2_000_000}
    lines = [made.launch(block, CELL, round(factor * ns)) for block, ns in blocks.items()]
    return made.record(path, *lines, quality=made.quality(**quality))


def records() -> dict[str, Record]:
    """Four cells of `toy`, one of them with more samples than the page keeps, and one of a task with a hostile name."""
    found = {
        BASELINE: made.baseline(a=1_000_000, b=2_000_000),
        HALVE: cell(HALVE, 0.5, metrics={"accuracy": 0.745}, metric_loss=1 / 150, lost=LOST),
        PRUNE: cell(PRUNE, 1.5, metrics={"accuracy": 0.76}, metric_loss=-0.0133),
        BROKEN: cell(BROKEN, 0.25, metrics={"accuracy": 0.1}, fidelity="broken", reason=REASON, metric_loss=0.87),
    }
    long = [[1_500_000 + 1000 * burst + sample for sample in range(50)] for burst in range(made.PASSES)]
    prune = found[PRUNE]
    launches = (replace(prune.launches[0], steady_ns=long), *prune.launches[1:])
    found[PRUNE] = dataclasses.replace(prune, launches=launches)
    failure = Failure(stage="prepare", reason=REASON)
    hostile = made.record(made.OTHER_GROUP, quality=None, failure=failure, artifact=False)
    hostile = dataclasses.replace(hostile, cell=dataclasses.replace(hostile.cell, task=TaskName(HOSTILE)))
    return {**found, hostile.cell.path: hostile}


def store(results: Path) -> Path:
    """The records of `toy` as a machine's folder of results."""
    stored = Store(results, "machine")
    stored.folder.mkdir(parents=True)
    for record in records().values():
        if str(record.cell.task) == "toy":
            header = replace(record.header, key=record.cell.variant)
            for line in (header, record.quality, *record.launches):
                stored.append(record.cell.variant, line)
    return stored.folder


def text() -> str:
    """The page of these records."""
    from bench.features.page.document import Shown, page

    found = records()
    measurements = Measurements(found)
    rows = assemble.rows(found, measurements=measurements)
    shown = Shown(records=found, rows=rows, best=best(measurements, rows, max_metric_loss=AllowedLoss()))
    return page([shown], margin=0.02)
