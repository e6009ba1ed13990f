"""The decision of `bench check`: the recipe of a pick, a model file, and launches and qualities of two artifacts."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.decisions import check as guard
from bench.decisions import deployment
from bench.measure.block import Method
from bench.measure.comparison import CELL, CONTROL, REFERENCE
from bench.measure.launch import Launch
from bench.measure.ledgers import Group, Ledger
from bench.measure.limits import Limits
from bench.pipeline import prepare
from bench.pipeline.flow import Verified
from bench.records import folder
from bench.records.lines import Quality
from bench.records.store import Record
from bench.report import check as report
from bench.tasks import examine
from bench.tasks.formats import onnx as onnx_file
from fuzz import beside, folders, models, workplace
from fuzz.watch import CODE, BrokenRule, check_printed, each
from support import records as made

INSTRUMENTED = (
    "bench.decisions",
    "bench.tasks",
    "bench.onnxfile.file",
    "bench.onnxfile.shapes.fitting",
    "bench.measure.comparison",
    "bench.measure.model",
    "bench.records",
    "bench.report.check",
)
LIMITS = Limits.of(step_s=60, memory_bytes=None)
RECIPE = {
    "cell": made.BASELINE,
    "artifact": {"file": "model.null", "format": "null", "sha256": "0", "bytes": 1},
    "measured": {"loss": 0.5, "metric": None},
    "task_folder": None,
}
PICKED = b"a model"
SPECS = ("TensorSpec",)
"""What may be called in the code of a task."""
changed, smaller = beside.changed, beside.smaller


def seeds() -> Iterator[bytes]:
    recipe = b"=== deployment.json\n" + json.dumps(RECIPE).encode() + b"\n"
    for text in folders.seeds():
        yield from (beside.joined(text + recipe, model) for model in models.alike())
    yield from (beside.joined(recipe, model) for model in models.seeds())


def check(content: bytes) -> None:
    text, model = beside.parts(content)
    with workplace.folder() as path, workplace.model_file(model) as given:
        (path / "machine").mkdir()
        folders.write(text, path / "machine")
        with mock.patch.dict(os.environ, {"BENCH_CACHE": str(path / "cache")}):
            each(
                lambda: _of_pick(path / "machine"),
                lambda: _examined(given, path / "task"),
                lambda: _measured([*folder.read(path).records.values()]),
            )


def _of_pick(place: Path) -> None:
    """Read the recipe, and find what it says in the catalog; nothing is made and nothing runs."""
    (place / "model.null").write_bytes(PICKED)
    again = Artifact(path=place / "model.null", format="null", sha256="", size_bytes=1)
    with (
        mock.patch.object(prepare, "artifact_of", return_value=again),
        mock.patch.object(guard.cache, "file_digest", return_value=deployment.read(place).sha256),
        mock.patch.object(guard, "pair", return_value=guard.Pair(pinned=_verified(), new=_verified())),
    ):
        guard.pair_of_pick(place, limits=LIMITS)


def _examined(given: Path, place: Path) -> None:
    """Make a task of the model, on a machine where nothing runs it, and read the code that is written for the task."""
    place.mkdir()
    with mock.patch.object(onnx_file, "_opened", return_value="nothing runs it here"):
        told = examine.examine(
            module="onnx", path=str(given), folder=str(place), data=None, dims=(), shapes=(), trust=False
        )
    for note in told["notes"]:
        check_printed(f"{note}\n")
    tree = ast.parse((place / "task.py").read_text(encoding="utf-8"))
    _, *imports, own = tree.body
    if not isinstance(own, ast.ClassDef) or not all(isinstance(line, ast.ImportFrom) for line in imports):
        raise BrokenRule(CODE, f"the task is {ast.unparse(tree)[:80]!r}")
    for line in own.body[1:]:
        if not isinstance(line, ast.Assign) or not _is_value(line.value):
            raise BrokenRule(CODE, f"the task has {ast.unparse(line)[:80]!r}")


def _is_value(node: ast.expr) -> bool:
    """Whether an expression is made of constants and specs alone, so that nothing of the model runs with it."""
    parts = (ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Load, ast.UnaryOp, ast.USub, ast.keyword)
    for part in ast.walk(node):
        if isinstance(part, ast.Call | ast.Name):
            name = part.func if isinstance(part, ast.Call) else part
            if not isinstance(name, ast.Name) or name.id not in SPECS:
                return False
        elif not isinstance(part, parts):
            return False
    return True


def _measured(records: Sequence[Record]) -> None:
    """Compare every two artifacts with launches in the same blocks."""
    for pinned in records:
        for new in records:
            sides = _side_by_side(pinned.launches, new.launches)
            if new.quality is None or not sides[0]:
                continue
            pair = guard.Pair(pinned=_verified("pinned"), new=_verified("new", new.quality))
            ledgers = [
                Ledger(subject=made.subject(value.cell, key=value.key), launches=launches)
                for value, launches in zip((pair.pinned, pair.new), sides, strict=True)
            ]
            group = Group(baseline=ledgers[0], ledgers=ledgers[1:])
            with mock.patch.object(guard, "measure_pairs", return_value=[group]):
                outcome = guard.measure(pair, guard.goal(), Method(limits=LIMITS))
            check_printed(f"{pair.new.cell}: {report.line(outcome)}\n")


def _side_by_side(pinned: Sequence[Launch], new: Sequence[Launch]) -> tuple[list[Launch], list[Launch]]:
    """The launches of the blocks in which the pinned artifact ran twice and the new one once, as in every block."""
    seats = [(pinned, REFERENCE), (pinned, CONTROL), (new, CELL)]
    taken = [
        {launch.block: launch for launch in side if launch.role == role and launch.steady_ns} for side, role in seats
    ]
    blocks = set.intersection(*map(set, taken))
    first, second, third = ([launches[block] for block in launches if block in blocks] for launches in taken)
    return [*first, *second], third


def _verified(key: str = "pinned", quality: Quality = made.QUALITY) -> Verified:
    artifact = Artifact(path=Path(key), format="null", sha256=key, size_bytes=1)
    cell = Cell.from_path(made.BASELINE)
    return Verified(cell=cell, key=key, artifact=artifact, inputs=Path("inputs"), quality=quality)
