"""Verification with real workers: the whole split once, and a few samples for other batches and threads."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from bench.api.cell import Cell
from bench.api.errors import ArtifactError, ChildError
from bench.measure import ledgers, rounds
from bench.measure.limits import Limits
from bench.pipeline import feeding, judging, looks, opening, operations, prepare, spot, verify
from bench.pipeline.flow import Prepared, Verified
from bench.pipeline.looks import Until
from bench.pipeline.quality import BROKEN, CLOSE, DRIFTED, EXACT
from bench.pipeline.sweep import Sweep
from bench.pipeline.sweep_options import Options
from bench.plugins import catalog
from bench.records.lines import Failure, Quality
from bench.records.metric_loss import Lost
from bench.records.store import Store
from support import records

LIMITS = Limits.of(step_s=60, memory_bytes=2**30)
NUM_SAMPLES = 16
"""Of the toy task's held-out split."""
NOTED = """
import json
import os
from bench.api import Runtime, Session

class NotedSession(Session):
    def __init__(self, provider, threads, scale):
        self._provider, self._threads, self._scale = provider, threads, scale

    def run(self, feeds):
        x = feeds["x"]
        with open(os.environ["BENCH_TEST_RUNS"], "a") as file:
            file.write(f"{self._provider} b{len(x)}t{self._threads}\\n")
        scale = self._scale
        if self._provider == "by_threads" and self._threads > 1:
            scale *= 1.5
        if self._provider == "by_batch" and len(x) > 1:
            scale *= 1.5
        if self._provider == "rounded" and self._threads > 1:
            scale *= 1 + 4e-7
        if self._provider == "crashes" and self._threads > 1:
            os._exit(7)
        if self._provider == "wrong":
            scale *= 3
        return [x * scale]

class Noted(Runtime):
    formats = ("null",)

    def providers(self):
        return ("same", "by_threads", "by_batch", "rounded", "crashes", "wrong")

    def open(self, artifact, *, task, source, provider, threads):
        return NotedSession(provider, threads, json.loads(artifact.read_text())["scale"])

    def inspect(self, artifact, *, provider, shapes):
        return {"warning": f"batch {shapes['x'][0]}"}
"""


@pytest.fixture
def runs(plugin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a line for each inference of the runtime `noted`, whose providers differ in what threads change."""
    (plugin_folder / "runtimes").mkdir()
    (plugin_folder / "runtimes" / "noted.py").write_text(NOTED)
    catalog.forget()
    path = tmp_path / "runs"
    path.touch()
    monkeypatch.setenv("BENCH_TEST_RUNS", str(path))
    return path


def prepared(provider: str, *sizes: str) -> list[Prepared]:
    values = [
        prepare.prepared(Cell.from_path(f"toy/null/native/raw/noted/{provider}/{size}"), LIMITS) for size in sizes
    ]
    found = [value for value in values if isinstance(value, Prepared)]
    assert len(found) == len(values), values
    return found


def verified(values: Sequence[Prepared], **stored: Quality) -> list[Verified | Failure]:
    reference = verify.reference_of(catalog.task("toy"), LIMITS)
    by_cell = {value.cell: [quality] for value in values for size, quality in stored.items() if _size(value) == size}
    return verify.verified(values, reference, LIMITS, by_cell)


def _size(value: Prepared) -> str:
    return f"b{value.cell.batch}t{value.cell.threads}"


def qualities(found: Sequence[Verified | Failure]) -> list[Quality]:
    values = [one.quality for one in found if isinstance(one, Verified)]
    assert len(values) == len(found), found
    return values


def counted(runs: Path) -> dict[str, int]:
    lines = [line.split()[1] for line in runs.read_text().splitlines()]
    return {line: lines.count(line) for line in dict.fromkeys(lines)}


def test_whole_split_runs_once_and_other_settings_run_a_few_samples(runs: Path) -> None:
    whole, threads, batch = qualities(verified(prepared("same", "b1t1", "b1t2", "b4t1")))
    assert counted(runs) == {"b1t1": NUM_SAMPLES, "b1t2": 8, "b4t1": 2}
    first = "toy/null/native/raw/noted/same/b1t1"
    assert (whole.verified_by, whole.num_spot_samples) == (UNSET, UNSET)
    assert (threads.verified_by, threads.num_spot_samples) == (first, 8)
    assert (batch.verified_by, batch.num_spot_samples) == (first, 8)
    assert {one.fidelity for one in (whole, threads, batch)} == {EXACT}
    assert {one.judges for one in (whole, threads, batch)} == {whole.judges}
    assert whole.judged_by
    assert [one.metrics for one in (threads, batch)] == [{"accuracy": 1.0}] * 2


def test_what_depends_on_the_batch_is_told_by_the_cell_itself(runs: Path) -> None:
    whole, batch = qualities(verified(prepared("same", "b1t1", "b4t1")))
    row_bytes = 2 * 8 * 4  # eight floats in and eight out
    assert (whole.input_shapes, whole.io_bytes, whole.warning) == ({"x": (1, 8)}, row_bytes, "batch 1")
    assert (batch.input_shapes, batch.io_bytes, batch.warning) == ({"x": (4, 8)}, 4 * row_bytes, "batch 4")
    assert batch.rss_bytes >= whole.rss_bytes > 2**20


@pytest.mark.parametrize(("provider", "size"), [("by_threads", "b1t2"), ("by_batch", "b4t1")])
def test_other_outputs_are_judged_on_the_whole_split(provider: str, size: str, runs: Path) -> None:
    whole, other = qualities(verified(prepared(provider, "b1t1", size)))
    assert (whole.fidelity, other.fidelity) == (EXACT, BROKEN)
    assert other.verified_by is UNSET
    assert other.metrics == {"accuracy": 0.0}
    few, all_of_them = (8, NUM_SAMPLES) if size == "b1t2" else (2, NUM_SAMPLES // 4)
    assert counted(runs)[size] == few + all_of_them


def test_rounding_makes_exact_outputs_close(runs: Path) -> None:
    whole, other = qualities(verified(prepared("rounded", "b1t1", "b1t2")))
    assert (whole.fidelity, whole.max_abs_error) == (EXACT, 0.0)
    assert (other.fidelity, other.verified_by) == (CLOSE, "toy/null/native/raw/noted/rounded/b1t1")
    assert other.relative_error == pytest.approx(4e-7, rel=0.3)
    assert other.max_abs_error is not None
    assert 0 < other.max_abs_error < 2e-6


def test_crash_with_more_threads_stops_that_cell_alone(runs: Path) -> None:
    whole, other, batch = verified(prepared("crashes", "b1t1", "b1t2", "b4t1"))
    assert isinstance(whole, Verified)
    assert isinstance(other, Failure)
    assert (other.stage, other.reason) == ("verify", "exited with status 7 without an answer")
    assert isinstance(batch, Verified)


def test_broken_cell_vouches_for_no_other(runs: Path) -> None:
    whole, other = qualities(verified(prepared("wrong", "b1t1", "b1t2")))
    assert counted(runs) == {"b1t1": NUM_SAMPLES, "b1t2": NUM_SAMPLES}
    assert (whole.fidelity, other.fidelity, other.verified_by) == (BROKEN, BROKEN, UNSET)


def test_stored_quality_is_reused_and_the_next_cell_runs_the_whole_split(runs: Path) -> None:
    values = prepared("same", "b1t1", "b1t2", "b4t1")
    (before,) = qualities(verified(values[:1]))
    runs.write_text("")
    stored = replace(before, loss=0.125)
    whole, threads, batch = qualities(verified(values, b1t1=stored))
    assert counted(runs) == {"b1t2": NUM_SAMPLES, "b4t1": 2}
    assert (whole.loss, threads.verified_by) == (0.125, UNSET)
    assert batch.verified_by == "toy/null/native/raw/noted/same/b1t2"
    runs.write_text("")
    (again,) = qualities(verified(values[:1], b1t1=replace(before, judged_by="another code")))
    assert counted(runs) == {"b1t1": NUM_SAMPLES}, "another code may judge otherwise"
    assert again.loss == before.loss


def test_reference_runs_once_and_vouches_for_its_other_settings(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (value,) = prepared("same", "b1t1")
    path = "toy/null/native/raw/null/cpu"
    cells = [Cell.from_path(f"{path}/b1t1"), Cell.from_path(f"{path}/b1t2")]
    values = [dataclasses.replace(value, cell=cell) for cell in cells]
    reference = verify.reference_of(catalog.task("toy"), LIMITS)
    started: list[Cell] = []
    start = opening.worker

    def noted(cell: Cell, **options: int) -> object:
        started.append(cell)
        return start(cell, **options)

    monkeypatch.setattr(opening, "worker", noted)
    own, other = qualities(verify.verified(values, reference, LIMITS))
    assert started == [cells[1]]
    assert (own.fidelity, own.reference, own.verified_by) == (EXACT, reference.cell.path, UNSET)
    assert own.rss_bytes > 2**20
    assert (other.fidelity, other.verified_by) == (EXACT, cells[0].path)
    (alone,) = qualities(verify.verified(values[1:], reference, LIMITS))
    assert (alone.fidelity, alone.verified_by) == (EXACT, cells[0].path), "the reference need not be among the cells"
    assert verify.reference_of(catalog.task("toy"), LIMITS) == reference, "from the cache, with its quality"


@pytest.mark.parametrize(
    ("num_samples", "batch", "count"), [(16, 1, 8), (720, 1, 8), (9, 4, 8), (10, 3, 9), (5, 16, 5), (1, 1, 1)]
)
def test_checked_samples_are_those_that_every_cell_runs_first(num_samples: int, batch: int, count: int) -> None:
    rows = spot.rows(num_samples, batch)
    assert rows == feeding.drawn(num_samples)[:count]
    assert len(rows) == count


def test_a_large_batch_is_checked_whole() -> None:
    assert len(set(spot.rows(720, 16))) == 16


@pytest.mark.parametrize(
    ("whole", "beside_verified", "beside_reference", "expected"),
    [
        (EXACT, EXACT, EXACT, EXACT),
        (EXACT, CLOSE, CLOSE, CLOSE),
        (CLOSE, EXACT, CLOSE, CLOSE),
        (CLOSE, CLOSE, DRIFTED, None),
        (CLOSE, DRIFTED, CLOSE, None),
        (DRIFTED, EXACT, DRIFTED, DRIFTED),
        (DRIFTED, DRIFTED, DRIFTED, None),
        (EXACT, BROKEN, EXACT, None),
    ],
)
def test_what_vouches_for_a_cell(whole: str, beside_verified: str, beside_reference: str, expected: str | None) -> None:
    told = {"doubts": "sample 40 has 3 rows, the reference 6", "warning": "batch 1", "time": "then"}
    found = spot.vouched(
        records.quality(fidelity=whole, max_abs_error=0.5, relative_error=0.1, **told),
        "the cell",
        records.quality(fidelity=beside_verified, max_abs_error=9.0),
        records.quality(fidelity=beside_reference, max_abs_error=0.25, relative_error=0.2),
        num_samples=8,
    )
    assert (found and found.fidelity) == expected
    if found is not None:
        assert (found.max_abs_error, found.relative_error) == (0.5, 0.2)
        assert (found.verified_by, found.num_spot_samples, found.time) == ("the cell", 8, None)
        assert (found.doubts, found.warning) == (told["doubts"], None), "the warning is of the other cell's session"


@pytest.mark.parametrize("size", ["b1t2", "b4t1"])
def test_doubts_about_the_whole_split_are_those_of_a_spot_checked_cell(
    size: str, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsure = "sample 40 of the split has 3 rows, the reference 6"
    run = verify.verify
    monkeypatch.setattr(verify, "verify", lambda *args, **how: replace(run(*args, **how), doubts=unsure))
    whole, other = qualities(verified(prepared("same", "b1t1", size)))
    assert counted(runs)[size] in (8, 2), "a few samples"
    assert (whole.doubts, whole.warning) == (unsure, "batch 1")
    assert (other.doubts, other.warning) == (unsure, f"batch {size[1]}")


def test_doubts_of_a_few_samples_are_not_told_of_a_whole_split(runs: Path) -> None:
    """The few samples that are checked may have no finite value where the split has."""
    task = catalog.task("toy")
    whole = np.full((NUM_SAMPLES, 2), np.nan, np.float32)
    whole[feeding.drawn(NUM_SAMPLES)[-1]] = 1.0
    few = whole[spot.rows(NUM_SAMPLES, 1)]
    beside = judging.compare(task, {"y": few}, {"y": few})
    found = spot.vouched(records.quality(fidelity=EXACT), "the cell", beside, beside, num_samples=8)
    assert found is not None
    assert (found.fidelity, found.doubts, found.warning) == (EXACT, None, None)


class Watcher:
    """Notes the outcome of each cell in the stage `verify`."""

    def __init__(self) -> None:
        self.name = ""
        self.outcomes: dict[str, str] = {}

    def stage(self, name: str, total: int) -> None:
        self.name = name

    def cell(self, cell: Cell, outcome: str) -> None:
        if self.name == "verify":
            self.outcomes[cell.path] = outcome

    def measured(self, cells: Sequence[Cell]) -> None: ...
    def progress(self, progress: object) -> None: ...


def test_sweep_verifies_the_smallest_setting_and_checks_the_others(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed: list[str] = []

    def measure(groups: Sequence[ledgers.Group], *_: object, **__: object) -> None:
        timed.extend(ledger.subject.cell.path for group in groups for ledger in group.ledgers)

    monkeypatch.setattr(rounds, "measure", measure)
    path = "toy/null/native/raw/noted"
    cells = [Cell.from_path(f"{path}/{name}") for name in ("same/b4t1", "same/b1t2", "same/b1t1", "wrong/b1t1")]
    store, watcher = Store(tmp_path, "here"), Watcher()
    Sweep(store, Options(), watcher).run(cells)
    assert counted(runs) == {"b1t1": 2 * NUM_SAMPLES, "b1t2": 8, "b4t1": 2}
    stored = {record.cell.path: record.quality for record in store.read_all().values()}
    by = {name: quality.verified_by for name, quality in stored.items() if quality is not None}
    baseline, first = "toy/null/native/raw/null/cpu/b1t1", f"{path}/same/b1t1"
    assert by == {
        first: UNSET,
        f"{path}/same/b1t2": first,
        f"{path}/same/b4t1": first,
        f"{path}/wrong/b1t1": UNSET,
        baseline: UNSET,
        baseline.replace("b1t1", "b1t2"): baseline,
        baseline.replace("b1t1", "b4t1"): baseline,
    }
    assert watcher.outcomes == {name: BROKEN if "wrong" in name else EXACT for name in by}
    assert set(timed) == {cell.path for cell in cells[:3]}
    runs.write_text("")
    Sweep(store, Options(), Watcher()).run(cells)
    assert counted(runs) == {}, "an earlier run has verified all"


def test_a_part_that_is_shorter_than_an_inference_is_compared_as_far_as_it_goes(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "GATE", 4)
    monkeypatch.setattr(looks, "FEWEST", 4)
    first, wide = prepared("same", "b1t1", "b8t1")
    reference = verify.reference_of(catalog.task("toy"), LIMITS)
    outputs = str(tmp_path / "part.npz")
    known = msgspec.to_builtins(reference.quality)
    part = operations.verify(
        cell=first.cell.path,
        artifact=str(first.artifact.path),
        reference=str(reference.outputs),
        save_outputs=outputs,
        until={"limit": None},
        known=known,
    )
    assert part["num_samples"] == 4
    found = operations.spot_check(
        cell=wide.cell.path,
        artifact=str(wide.artifact.path),
        inputs=str(prepare.inputs_of(catalog.task("toy"), LIMITS)),
        reference=str(reference.outputs),
        verified={name: value for name, value in part.items() if name != "shares"},
        by=first.cell.path,
        outputs=outputs,
    )["quality"]
    assert found is not None
    assert (found["fidelity"], found["num_spot_samples"], found["num_samples"]) == (EXACT, 4, 4)


@pytest.mark.parametrize("is_broken", [False, True])
def test_what_rounding_does_not_explain_on_a_part_is_told_by_the_whole_split(
    is_broken: bool, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (value,) = prepared("same", "b1t1")
    reference = verify.reference_of(catalog.task("toy"), LIMITS)
    asked: list[Until | None] = []

    def beside(*_: object, until: Until | None, **__: object) -> tuple[Quality, dict[str, float]]:
        asked.append(until)
        part = UNSET if until == Until(limit=0.0) else 64
        return records.quality(fidelity=DRIFTED, num_samples=part), {}

    def judged(task: object, found: Quality, *_: object) -> Quality:
        return replace(found, fidelity=BROKEN) if is_broken or not found.is_whole else found

    monkeypatch.setattr(verify, "beside", beside)
    monkeypatch.setattr(verify.rounding, "judged", judged)
    found = verify.verify(value.cell, value.artifact, reference, LIMITS, until=Until())
    assert asked == [Until(), Until(limit=0.0)]
    assert (found.fidelity, found.is_whole) == (BROKEN if is_broken else DRIFTED, True)
    assert Until().is_met(found), "the next sweep does not verify it again"


def test_the_whole_split_after_a_part_has_its_share_of_the_error(runs: Path) -> None:
    (value,) = prepared("same", "b1t1")
    (first,) = qualities(verified([value]))
    assert isinstance(first.lost, Lost)
    assert first.lost.of is UNSET
    (second,) = qualities(verified([value], b1t1=replace(first, num_samples=4)))
    assert isinstance(second.lost, Lost)
    assert (second.is_whole, second.lost.of) == (True, NUM_SAMPLES)


REFUSING = """
from bench.api import Runtime

class Refusing(Runtime):
    formats = ("null",)
    default_for = ("null",)

    def open(self, artifact, *, task, source, provider, threads):
        raise ValueError("no kernel for it")
"""
USUAL = Cell.from_path("toy/null/native/raw/null/cpu/b1t1")


@pytest.fixture
def refusing(runs: Path, plugin_folder: Path) -> None:
    """The usual runtime of the toy task refuses its model, and `noted`, of another package, runs it."""
    other = NOTED.replace('    formats = ("null",)', '    formats = ("null",)\n    requires = ("numpy",)')
    (plugin_folder / "runtimes" / "null.py").write_text(REFUSING)
    (plugin_folder / "runtimes" / "noted.py").write_text(other)
    catalog.forget()


def test_a_model_that_its_usual_runtime_refuses_is_held_against_another_packages_outputs(refusing: None) -> None:
    reference = verify.reference_of(catalog.task("toy"), LIMITS)
    assert reference.cell.path == "toy/null/native/raw/noted/same/b1t1"
    assert reference.in_place_of == USUAL
    (value,) = prepared("same", "b1t1")
    values = [dataclasses.replace(value, cell=USUAL), *prepared("wrong", "b1t1")]
    refused, wrong = verify.verified(values[:1], reference, LIMITS) + verify.verified(values[1:], reference, LIMITS)
    assert isinstance(refused, Failure)
    told = f"null fails on a file that noted {np.__version__} runs: ValueError: no kernel for it"
    assert refused.reason.startswith(told)
    assert isinstance(wrong, Verified)
    assert (wrong.quality.fidelity, wrong.quality.reference) == (BROKEN, reference.cell.path)
    held = f"null cannot run the model as it is, so outputs are held against those of noted {np.__version__}"
    assert held in (wrong.quality.reason or "")
    (own,) = qualities(verify.verified([value], reference, LIMITS))
    assert (own.fidelity, own.warning) == (EXACT, "batch 1")


@pytest.mark.parametrize("kind", ["timeout", "memory"])
def test_the_usual_runtime_stays_the_reference_where_it_lacked_time_or_memory(
    kind: str, refusing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Cell] = []

    def lacking(cell: Cell, *_: object, **__: object) -> Quality:
        tried.append(cell)
        raise ChildError(kind, "it lacked it")

    monkeypatch.setattr(verify, "verify", lacking)
    with pytest.raises(ArtifactError, match=f"^reference {USUAL}: it lacked it$"):
        verify.reference_of(catalog.task("toy"), LIMITS)
    assert tried == [USUAL]
