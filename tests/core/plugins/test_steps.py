"""The checks on the artifact of every exporter and variant, which need nothing of the plugin's author."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from bench.api import Exporter, Task, Variant
from bench.api.errors import ArtifactError
from bench.plugins import steps
from bench.plugins.catalog import NamedVariant
from support import variant_graphs as graphs


def doubling(*, batch: int | str = "batch", output: str = "y") -> onnx.ModelProto:
    return graphs.model_of(
        [graphs.node("Add", ["x", "x"], [output])], {}, inputs={"x": [batch, 4]}, outputs={output: [batch, 4]}
    )


class Writes(Exporter):
    """Writes one model, whatever the task is."""

    sources = ("torch", "onnx")
    model = doubling()

    def format(self, source: str) -> str:
        return "onnx"

    def export(self, task: Task, source: str, target: Path) -> dict[str, Any]:
        onnx.save(self.model, target)
        return {"told": 1}


class Replaces(Variant):
    """Writes one model, whatever it is given."""

    model = doubling()

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> dict[str, Any]:
        onnx.save(self.model, target)
        return {"told": option}


@pytest.fixture
def task() -> Task:
    return graphs.task_of(doubling())


def export(model: onnx.ModelProto, task: Task, source: str, folder: Path) -> dict[str, Any]:
    exporter = Writes(name="writes", path=folder / "writes.py")
    exporter.model = model
    return steps.export(exporter, task, source, folder / "artifact.onnx")


def transform(before: onnx.ModelProto, after: onnx.ModelProto, task: Task, folder: Path, *, freezes: bool) -> Any:
    onnx.save(before, folder / "source.onnx")
    variant = Replaces(name="replaces", path=folder / "replaces.py")
    variant.model = after
    variant.freezes = freezes  # type: ignore[misc]
    return steps.transform(NamedVariant(variant, "half"), task, folder / "source.onnx", folder / "artifact.onnx")


def test_what_a_plugin_tells_is_handed_on(task: Task, tmp_path: Path) -> None:
    assert export(doubling(), task, "torch", tmp_path) == {"told": 1}
    assert transform(doubling(), doubling(), task, tmp_path, freezes=False) == {"told": "half"}


@pytest.mark.parametrize(
    ("wrong", "exported", "changed"),
    [
        ({"output": "z"}, "outputs are z; the task's are y", "outputs are z; those of the file before it are y"),
        (
            {"batch": 1},
            r"input x is \(1, 4\) in the file; the task says \('batch', 4\)",
            r"input x is \(1, 4\) in the file, and \(\?, 4\) in the file before it",
        ),
    ],
    ids=["name", "fixed size"],
)
def test_another_interface_is_an_error(
    wrong: dict[str, Any], exported: str, changed: str, task: Task, tmp_path: Path
) -> None:
    with pytest.raises(ArtifactError, match=exported):
        export(doubling(**wrong), task, "torch", tmp_path)
    with pytest.raises(ArtifactError, match=changed):
        transform(doubling(), doubling(**wrong), task, tmp_path, freezes=False)


def test_a_size_may_be_fixed_by_the_source_or_by_a_variant_that_freezes(task: Task, tmp_path: Path) -> None:
    fixed = doubling(batch=1)
    assert transform(fixed, fixed, task, tmp_path, freezes=False) == {"told": "half"}
    assert transform(doubling(), fixed, task, tmp_path, freezes=True) == {"told": "half"}


def test_a_copied_source_is_taken_as_it_is(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writes, "copies", True)
    assert export(doubling(batch=1), task, "onnx", tmp_path) == {"told": 1}
