"""Cells of two tasks in the same blocks, with fake workers: which cells are timed, and the reasons of the others."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bench.api import loading
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import ArtifactError, BenchError, ChildError, InputError, RefusedError
from bench.features.compare import side_by_side
from bench.features.compare.changes import Change, judged
from bench.measure import blocks
from bench.measure.block import Failure, Method, Result
from bench.measure.comparison import CELL, CONTROL, REFERENCE
from bench.measure.goal import Goal
from bench.measure.limits import Limits
from bench.measure.open_work import Progress
from bench.measure.subject import Subject
from bench.pipeline import prepare, provenance, verify
from bench.pipeline.flow import Verified
from bench.plugins import catalog
from bench.records import lines
from support import records as made

TOY = loading.PLUGINS / "models" / "toy"
LIMITS = Limits.of(step_s=60, memory_bytes=2**30)
SCALE = """
import json
from bench.api import Variant

class Scale(Variant):
    formats = ("null",)
    requires = REQUIRES

    def apply(self, source, target, *, option, task):
        target.write_text(json.dumps({**json.loads(source.read_text()), "scale": 3.0}))
        return {}
"""


class Silent:
    """Watches and says nothing."""

    def stage(self, name: str, total: int) -> None: ...
    def cell(self, cell: Cell, outcome: str) -> None: ...
    def measured(self, cells: Sequence[Cell]) -> None: ...
    def progress(self, progress: Progress) -> None: ...


class Workers:
    """Stands in for making, judging and timing.

    Attributes:
        reasons: why a task's cells cannot be made;
        fails: tasks whose workers die, and at which block.
        broken: tasks whose outputs are wrong.
        digests: of their graphs, where that can be told.
        ns: their latencies, 1,000,000 unless said.
    """

    def __init__(self) -> None:
        self.reasons: dict[str, BenchError] = {}
        self.fails: dict[str, int] = {}
        self.broken: set[str] = set()
        self.digests: dict[str, str] = {}
        self.ns: dict[str, int] = {}
        self.blocks = 0
        self._numbers = itertools.count()

    def make(self, cell: Cell, limits: Limits, failed: prepare.FailedSteps) -> Verified | lines.Failure:
        if (error := self.reasons.get(str(cell.task)) or self.reasons.get(cell.variant)) is not None:
            return lines.Failure.of("skip" if isinstance(error, RefusedError) else "prepare", error)
        artifact = Artifact(
            path=Path("a"), format="null", sha256="", size_bytes=1, canonical=self.digests.get(str(cell.task))
        )
        quality = made.quality(fidelity="broken" if str(cell.task) in self.broken else "close", reason=None)
        own = {"inputs": Path("inputs.npz"), "subject": (f"digest of {cell.task}", None)}
        return Verified(cell=cell, key=cell.path, artifact=artifact, quality=quality, **own)  # type: ignore[arg-type]

    def block(self, baseline: Subject, others: Sequence[Subject], method: Method, **_: Any) -> Result:
        self.blocks += 1
        seats = [(baseline, REFERENCE), (baseline, CONTROL), *((subject, CELL) for subject in others)]
        failures = [
            Failure(subject=subject, stage="measure", error=ChildError("signal", "killed by SIGSEGV"))
            for subject in (baseline, *others)
            if self.fails.get(str(subject.cell.task)) == self.blocks
        ]
        if failures and failures[0].subject is baseline:
            return Result(launches=(), failures=tuple(failures))
        launches = []
        for subject, role in seats:
            if not any(failure.subject is subject for failure in failures):
                ns = self.ns.get(str(subject.cell.task), 1_000_000)
                line = made.launch(f"block {self.blocks}", role, ns, reference=baseline.cell.path)
                launches.append((subject, replace(line, launch=str(next(self._numbers)))))
        return Result(launches=tuple(launches), failures=tuple(failures))

    def change(self) -> Change:
        """Of the plain cell of `old` and `new`."""
        path = "null/native/raw/null/cpu/b1t1"
        pair = (Cell.from_path(f"old/{path}"), Cell.from_path(f"new/{path}"))
        (change,) = judged(side_by_side.measure([pair], Method(), Goal(), Silent()), margin=0.02)
        assert change.cell == path
        return change


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    workers = Workers()
    monkeypatch.setattr(verify, "from_name", workers.make)
    monkeypatch.setattr(blocks, "run_block", workers.block)
    return workers


def test_second_is_held_against_the_first(workers: Workers) -> None:
    workers.ns = {"old": 1_000_000, "new": 1_200_000}
    workers.digests = {"old": "one", "new": "other"}
    change = workers.change()
    assert (change.verdict, change.same_file, change.note) == ("slower", False, None)
    assert change.judged is not None
    assert change.judged.ratio.value == pytest.approx(1.2, rel=1e-5)
    assert change.before is not None
    assert change.after is not None
    assert change.before.latency_p50_ns == pytest.approx(1_000_001)
    assert change.after.latency_p50_ns == pytest.approx(1_200_001)
    assert workers.blocks <= Goal.max_launches


def test_same_graph_is_not_timed(workers: Workers) -> None:
    workers.digests = {"old": "one", "new": "one"}
    change = workers.change()
    assert (workers.blocks, change.judged, change.same_file) == (0, None, True)
    assert change.note == "the same graph with the same weights"


@pytest.mark.parametrize(
    ("prepare", "note", "newly_failed"),
    [
        (lambda workers: workers.reasons.update(new=ArtifactError("cannot")), "failed in B", True),
        (lambda workers: workers.reasons.update(old=ArtifactError("cannot")), "failed in A", False),
        (lambda workers: workers.reasons.update(new=RefusedError("not here")), "skipped in B", False),
        (lambda workers: workers.broken.add("new"), "broken in B", True),
        (lambda workers: workers.fails.update(new=2), "failed in B", True),
        (lambda workers: workers.fails.update(old=2), "failed in A", False),
    ],
)
def test_what_does_not_work_has_no_verdict(
    prepare: Callable[[Workers], None], note: str, newly_failed: bool, workers: Workers
) -> None:
    prepare(workers)
    change = workers.change()
    assert (change.note, change.newly_failed, change.judged) == (note, newly_failed, None)


@pytest.mark.parametrize("order", [("raw", "bad"), ("bad", "raw")])
def test_a_cell_that_failed_leaves_the_others_of_its_task_their_figures(
    order: tuple[str, ...], workers: Workers
) -> None:
    workers.reasons["bad"] = ArtifactError("cannot")
    pairs = [
        (
            Cell.from_path(f"old/null/native/{name}/null/cpu/b1t1"),
            Cell.from_path(f"new/null/native/{name}/null/cpu/b1t1"),
        )
        for name in order
    ]
    found = {change.cell: change for change in side_by_side.measure(pairs, Method(), Goal(), Silent())}
    right, bad = found["null/native/raw/null/cpu/b1t1"], found["null/native/bad/null/cpu/b1t1"]
    assert right.comparison is not None
    assert right.after is not None
    assert (right.after.status, right.after.num_launches) == ("ok", 2)
    assert bad.after is not None
    assert (bad.after.status, bad.after.reason, bad.note) == ("failed", "cannot", "failed in A")


def test_no_time_for_a_block(workers: Workers) -> None:
    cells = [Cell.from_path(f"{task}/null/native/raw/null/cpu/b1t1") for task in ("old", "new")]
    goal = Goal(budget_s=-1.0)
    (change,) = side_by_side.measure([(cells[0], cells[1])], Method(), goal, Silent())
    assert change.note == "the time was up before its first block"
    (alone,) = side_by_side.measure([(cells[0], None)], Method(), goal, Silent())
    assert (alone.after, alone.comparison) == (None, None)


@pytest.fixture
def toys(plugin_folder: Path) -> Path:
    """Two tasks, `old` and `new`; the second has other inputs and one source more."""
    for name in ("old", "new"):
        shutil.copytree(TOY, plugin_folder / "models" / name, ignore=shutil.ignore_patterns("__pycache__"))
    path = plugin_folder / "models" / "new" / "task.py"
    text = path.read_text().replace('sources = ("null",)', 'sources = ("null", "torch")')
    path.write_text(
        text.replace('name="x", dtype="float32", shape=("batch", 8)', 'name="x", dtype="float32", shape=(1, 8)')
    )
    return plugin_folder


def test_pairs_differ_in_the_task_alone(toys: Path) -> None:
    plain = side_by_side.pairs("old", "new", ())
    both = {one.path: other.path for one, other in plain if one and other}
    assert both == {"old/null/native/raw/null/cpu/b1t1": "new/null/native/raw/null/cpu/b1t1"}
    alone = [other for one, other in plain if one is None and other is not None]
    assert alone
    assert {cell.source for cell in alone} == {"torch"}
    (pair,) = side_by_side.pairs("old", "new", ["null/native/raw/null/cpu/b4t1"])
    assert [cell.path for cell in pair if cell] == [f"{task}/null/native/raw/null/cpu/b4t1" for task in ("old", "new")]
    (pair,) = side_by_side.pairs("old", "new", ["torch/native/raw/pytorch/cpu/b1t1"])
    assert pair[0] is None, "the other has that source"
    with pytest.raises(InputError, match="no cell matches 'old/nulll"):
        side_by_side.pairs("old", "new", ["nulll/*"])


def test_other_inputs_are_other_requests(toys: Path) -> None:
    assert side_by_side.differing_inputs("old", "old") is None
    said = str(side_by_side.differing_inputs("old", "new"))
    assert "x float32 ('batch', 8) in A, x float32 (1, 8) in B" in said


def test_a_cell_is_prepared_and_verified_from_its_name(toys: Path) -> None:
    (toys / "variants").mkdir()
    for name, requires in (("wrong", "()"), ("absent", '("no_such_package",)')):
        (toys / "variants" / f"{name}.py").write_text(SCALE.replace("REQUIRES", requires))
    catalog.forget()
    right, wrong, absent = (
        Cell.from_path(f"old/null/native/{name}/null/cpu/b1t1") for name in ("raw", "wrong", "absent")
    )
    value = verify.from_name(right, LIMITS)
    assert isinstance(value, Verified)
    assert value.key == provenance.record_key(right, value.artifact)
    assert json.loads(value.artifact.path.read_text()) == json.loads((TOY / "weights.json").read_text())
    assert value.inputs.is_file()
    assert value.quality.rss_bytes > 2**20
    broken = verify.from_name(wrong, LIMITS)
    assert isinstance(broken, Verified)
    assert (broken.quality.fidelity, (broken.quality.reason or "")[:17]) == ("broken", "accuracy is worse")
    skipped = verify.from_name(absent, LIMITS)
    assert isinstance(skipped, lines.Failure)
    assert (skipped.stage, "no_such_package not installed" in skipped.reason) == ("skip", True)
