"""Why a cell is skipped is stored once, though the stored reason names no folder of the machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.api.cell import Cell
from bench.measure.block import Method
from bench.measure.goal import Goal
from bench.measure.limits import Limits
from bench.measure.questions import Aims
from bench.pipeline import place
from bench.pipeline.sweep import Sweep
from bench.pipeline.sweep_options import Options
from bench.records.lines import Failure
from bench.records.store import Store
from support import records as made


class Told:
    """An observer that keeps what it is told of cells."""

    def __init__(self) -> None:
        self.outcomes: list[str] = []

    def cell(self, cell: Cell, outcome: str) -> None:
        self.outcomes.append(outcome)


def stop(store: Store, reason: str) -> list[str]:
    """What a new sweep tells of a cell that it skips for a reason."""
    told: Any = Told()
    method = Method(limits=Limits.of(step_s=None, memory_bytes=None))
    goal = Goal(aims=Aims(margin=0.02), max_launches=2, budget_s=None)
    sweep = Sweep(store, Options(method=method, goal=goal, force=False, across_threads=False), told)
    record = sweep._open_record(place.header_of(Cell.from_path(made.BASELINE), None))
    sweep._stopped(record, Failure(stage="skip", reason=reason))
    return list(told.outcomes)


def test_the_same_reason_is_stored_once(tmp_path: Path) -> None:
    store = Store(tmp_path, "machine")
    store.folder.mkdir()
    reason = "/home/zoe77/lib/engine.so is missing"

    assert stop(store, reason) == stop(store, reason) == [f"skipped: {reason}"]
    assert stop(store, "another reason") == ["skipped: another reason"]

    (path,) = store.folder.glob("*.jsonl")
    _, *failures = map(json.loads, path.read_text().splitlines())
    assert [line["reason"] for line in failures] == [".../engine.so is missing", "another reason"]
