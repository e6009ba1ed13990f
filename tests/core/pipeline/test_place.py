"""The order of the steps on this machine: no cell waits for what it does not need."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.api import Task
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import ArtifactError
from bench.measure import machine
from bench.measure.limits import Limits
from bench.pipeline import place, verify
from bench.pipeline.flow import Prepared
from bench.pipeline.place import Here
from bench.records.lines import Failure

SLOW, QUICK = "toy", "linear"


def prepared(task: str, folder: Path) -> Prepared:
    cell = Cell.from_path(f"{task}/null/native/raw/null/cpu/b1t1")
    artifact = Artifact(path=folder / task, sha256=task, format="null", size_bytes=1)
    return Prepared(cell=cell, artifact=artifact, key=task)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Verify a cell of each task, by a function that makes their references; the outcomes by task."""

    def run(refer: Any) -> dict[str, Any]:
        monkeypatch.setattr(machine, "num_cores", lambda: 2)
        monkeypatch.setattr(place, "what_answers", lambda cell, artifact: cell.path)
        monkeypatch.setattr(place, "what_runs", lambda cell, artifact: None)
        monkeypatch.setattr(place.catalog, "task", lambda name: SimpleNamespace(name=str(name)))
        monkeypatch.setattr(verify, "reference_of", refer)
        outcomes: dict[str, Any] = {}
        cells = [prepared(name, tmp_path) for name in (SLOW, QUICK)]
        Here().verify(
            cells, {}, Limits(), None, lambda cells, outcome: outcomes.update({str(cells[0].cell.task): outcome})
        )
        return outcomes

    return run


def test_cells_are_judged_while_the_reference_of_another_task_is_made(
    judged: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_judged = threading.Event()

    def refer(task: Task, *_: Any) -> Any:
        assert task.name == QUICK or is_judged.wait(10), "the quick task waits for the slow one's reference"
        return SimpleNamespace(cell=task.name)

    def verified(values: list[Prepared], reference: Any, *_: Any) -> list[Any]:
        if reference.cell == QUICK:
            is_judged.set()
        return [reference.cell for _ in values]

    monkeypatch.setattr(verify, "verified", verified)
    assert judged(refer) == {SLOW: SLOW, QUICK: QUICK}


def test_a_reference_that_fails_stops_the_cells_of_its_task_alone(judged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refer(task: Task, *_: Any) -> Any:
        if task.name == SLOW:
            raise ArtifactError("no weights")
        return SimpleNamespace(cell=task.name)

    monkeypatch.setattr(verify, "verified", lambda values, reference, *_: [reference.cell for _ in values])
    assert judged(refer) == {SLOW: Failure.of("verify", ArtifactError("no weights")), QUICK: QUICK}


def test_an_error_of_this_program_is_no_outcome(judged: Any) -> None:
    def refer(task: Task, *_: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        judged(refer)
