"""An export that fails takes no cells with it that another export of the model can feed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.measure.goal import Goal
from bench.measure.limits import Limits
from bench.pipeline import replacements, sweeps
from bench.pipeline.flow import Prepared
from bench.pipeline.place import Begun
from bench.pipeline.sweep import Sweep
from bench.pipeline.sweep_options import Options
from bench.pipeline.waves import Wave
from bench.records.lines import SCHEMA, Failure, Header
from bench.records.store import Store
from support.fake_blocks import Bench
from support.fake_place import FakePlace, Told

RUNS = "onnxruntime/cpu/b1t1"
NATIVE = "toy/torch/native/raw/pytorch/cpu/b1t1"
DYNAMO = (
    f"toy/torch/torch_onnx/raw/{RUNS}",
    "toy/torch/torch_onnx/raw/onnxruntime_bytes/cpu/b1t1",
    f"toy/torch/torch_onnx/onnxsim/{RUNS}",
    f"toy/torch/torch_onnx/dedup+onnxsim/{RUNS}",
)
FORMER = f"toy/torch/torch_onnx_legacy/raw/{RUNS}"
UNTIED = f"toy/torch/torch_onnx_untied/raw/{RUNS}"
VINO = "toy/torch/torch_openvino/raw/openvino/cpu/b1t1"


class Place(FakePlace):
    """A place where some steps fail.

    Args:
        bench: the fake blocks.
        fails: the stage and the reason by a part of the paths of the cells that fail.
    """

    def __init__(self, bench: Bench, fails: Mapping[str, tuple[Any, str]]) -> None:
        super().__init__(bench, {}, {}, {}, {})
        self.fails = fails
        self.prepared: list[list[str]] = []

    def prepare(self, cells: Sequence[Cell], limits: Limits, told: Callable[[Begun], None]) -> None:
        self.prepared.append([cell.path for cell in cells])
        for cell in reversed(cells):  # as they may end where several are made at once
            key = cell.path.encode().hex()
            artifact = Artifact(path=Path("file"), format="onnx", sha256=cell.path, size_bytes=9)
            header = Header(schema=SCHEMA, key=key, cell=cell.path, subject=("weights", None), artifact=artifact.facts)
            why = next((why for part, why in self.fails.items() if part in cell.path), None)
            outcome: Prepared | Failure = Prepared(cell=cell, artifact=artifact, key=key)
            if why is not None:
                outcome = Failure(stage=why[0], reason=why[1])
            told(Begun(cell=cell, header=header, outcome=outcome))


class Ran:
    """What a sweep prepared, stored and replaced, by the paths of cells."""

    def __init__(self, place: Place, sweep: Sweep, store: Store) -> None:
        self.prepared = place.prepared
        self.replaced = {cell.path: other.path for cell, other in sweep.exports.replaced.items()}
        self.told = replacements.lines(sweep.exports.replaced)
        records = list(store.read_all().values())
        self.failed = {record.cell.path: record.failure.reason for record in records if record.failure is not None}
        self.timed = {record.cell.path for record in records if record.launches}


@pytest.fixture
def swept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Ran]:
    """Runs a sweep of cells at a place where some steps fail."""
    bench = Bench(monkeypatch)
    monkeypatch.setattr(sweeps, "baselines", lambda *_: [Cell.from_path(NATIVE)])

    def run(paths: Sequence[str], fails: Mapping[str, tuple[Any, str]], *, waves: bool = False) -> Ran:
        cells = [Cell.from_path(path) for path in paths]
        chosen = [Wave([cell]) for cell in cells[:2]] + [Wave(cells[2:])]
        monkeypatch.setattr("bench.pipeline.waves.in_waves", lambda *_, baselines: chosen)
        place: Any = Place(bench, fails)
        store = Store(tmp_path / "results", "machine")
        sweep = Sweep(store, Options(goal=Goal(max_launches=2), whole_split=not waves), Told(), place)
        sweep.run(cells)
        return Ran(place, sweep, store)

    return run


BROKEN = {"/torch_onnx/": ("prepare", "torch_onnx: it cannot be exported")}


@pytest.mark.parametrize("waves", [False, True])
def test_what_needs_the_file_of_an_export_that_fails_has_that_of_another(
    swept: Callable[..., Ran], *, waves: bool
) -> None:
    found = swept([NATIVE, *DYNAMO, VINO, FORMER, UNTIED], BROKEN, waves=waves)
    others = {path: path.replace("torch_onnx", "torch_onnx_legacy") for path in DYNAMO[1:]}
    assert found.replaced == others
    assert found.failed == {DYNAMO[0]: "torch_onnx: it cannot be exported"}, "one row says so"
    assert found.timed == {NATIVE, VINO, FORMER, UNTIED, *others.values()}
    assert sorted(found.prepared[-1]) == sorted(others.values())
    assert found.told == [
        "toy: torch_onnx fails, as its row says; 3 cells that need such a file have that of torch_onnx_legacy"
    ]


def test_where_no_export_works_each_cell_says_so(swept: Callable[..., Ran]) -> None:
    fails = {**BROKEN, "/torch_onnx_": ("prepare", "it cannot be traced")}
    found = swept([NATIVE, *DYNAMO, VINO, FORMER, UNTIED], fails)
    assert (found.replaced, found.told) == ({}, [])
    assert set(found.failed) == {*DYNAMO, FORMER, UNTIED}
    assert found.timed == {NATIVE, VINO}, "a file of another format feeds none of them"


def test_a_variant_that_fails_by_itself_is_not_replaced(swept: Callable[..., Ran]) -> None:
    fails = {"/onnxsim/": ("prepare", "onnxsim: it crashed")}
    found = swept([NATIVE, *DYNAMO, FORMER], fails)
    assert (found.replaced, set(found.failed)) == ({}, {DYNAMO[2]})


def test_a_variant_that_fails_on_the_other_export_says_so_itself(swept: Callable[..., Ran]) -> None:
    fails = {**BROKEN, "/onnxsim/": ("prepare", "onnxsim: it crashed")}
    found = swept([NATIVE, *DYNAMO, FORMER], fails)
    other = f"toy/torch/torch_onnx_legacy/onnxsim/{RUNS}"
    assert found.replaced[DYNAMO[2]] == other
    assert found.failed == {DYNAMO[0]: "torch_onnx: it cannot be exported", other: "onnxsim: it crashed"}


def test_another_export_that_is_not_asked_for_replaces_nothing(swept: Callable[..., Ran]) -> None:
    found = swept([NATIVE, *DYNAMO], BROKEN)
    assert (found.replaced, set(found.failed)) == ({}, set(DYNAMO))


def test_a_cell_that_is_measured_anyway_stands_in_for_no_other(swept: Callable[..., Ran]) -> None:
    """As where a glob names the variants of both exports: each row says what became of it."""
    other = DYNAMO[2].replace("torch_onnx", "torch_onnx_legacy")
    found = swept([NATIVE, DYNAMO[0], DYNAMO[2], FORMER, other], BROKEN)
    assert (found.replaced, set(found.failed)) == ({}, {DYNAMO[0], DYNAMO[2]})


def test_a_runtime_that_is_not_installed_says_nothing_of_an_export(swept: Callable[..., Ran]) -> None:
    fails = {"/onnxruntime_bytes/": ("skip", "it is not installed")}
    found = swept([NATIVE, *DYNAMO, FORMER], fails)
    assert (found.replaced, set(found.failed)) == ({}, {DYNAMO[1]})
