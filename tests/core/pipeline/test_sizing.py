"""Cells at several sizes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from bench.api.cell import Cell
from bench.api.errors import InputError
from bench.api.names import TaskName
from bench.measure.limits import Limits
from bench.pipeline import prepare, provenance, selection, sizing
from bench.plugins import catalog
from bench.tasks import adopt

CELL = Cell.from_path("super_resolution/torch/torch_onnx/raw/onnxruntime/cpu/b1t2")
LIMITS = Limits.of(step_s=None, memory_bytes=None)
TASK = """
import numpy as np
from bench.api import Samples, TensorSpec
from bench.plugins.models.toy.task import Toy

class Wide(Toy):
    inputs = (TensorSpec(name="x", dtype="float32", shape=({batch}, "width")),)
    outputs = (TensorSpec(name="y", dtype="float32", shape=({batch}, "width")),)
"""
VARIANT = """
from bench.api import Variant

class Mine(Variant):
    formats = ("null",)
    freezes = {freezes}

    def apply(self, source, target, *, option, task):
        target.write_text(source.read_text().rstrip() + " ")
        return {{"of": task.name}}
"""


@pytest.fixture
def wide(plugin_folder: Path) -> None:
    """A null task whose width is open, and variants for it of which one fixes sizes."""
    from bench.api import loading

    weights = loading.task_path("toy").with_name("weights.json").read_bytes()
    for name, batch in (("wide", "'batch'"), ("one", "1")):
        (plugin_folder / "models" / name).mkdir(parents=True)
        (plugin_folder / "models" / name / "task.py").write_text(TASK.format(batch=batch))
        (plugin_folder / "models" / name / "weights.json").write_bytes(weights)
    (plugin_folder / "variants").mkdir()
    for name, freezes in (("free", False), ("frozen", True)):
        (plugin_folder / "variants" / f"{name}.py").write_text(VARIANT.format(freezes=freezes))
    catalog.forget()


def paths(cells: list[Cell]) -> list[str]:
    return [f"{cell.task} b{cell.batch}t{cell.threads}" for cell in cells]


def test_every_combination() -> None:
    found = sizing.at_sizes([CELL], {"width": (8, 16), "batch": (1, 4)})
    assert paths(found) == [f"super_resolution@width={w} b{b}t2" for w in (8, 16) for b in (1, 4)]
    assert {dataclasses.replace(cell, task=CELL.task, batch=1) for cell in found} == {CELL}


def test_batch_alone_leaves_the_task() -> None:
    assert paths(sizing.at_sizes([CELL], {"batch": (2,)})) == ["super_resolution b2t2"]
    assert sizing.at_sizes([CELL], {}) == [CELL]


def test_dimension_that_a_task_does_not_have() -> None:
    with pytest.raises(InputError, match="super_resolution has no dimension 'tokens' of any size"):
        sizing.at_sizes([CELL], {"tokens": (8,)})


@pytest.mark.usefixtures("wide")
def test_batch_that_the_model_fixes() -> None:
    cell = dataclasses.replace(CELL, task=TaskName("one"))
    with pytest.raises(InputError, match="the model of one takes batches of 1 only"):
        sizing.at_sizes([cell], {"batch": (4,)})
    assert paths(sizing.at_sizes([cell], {"batch": (1,)})) == ["one b1t2"]


def test_identity_of_a_model_does_not_depend_on_the_sizes_to_measure(tmp_path: Path) -> None:
    path = tmp_path / "enc.onnx"
    shape = ["n", "seq"]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", values[:1], values[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    found = []
    for sizes in ((16, 64), (64, 16), (256, 64)):
        adopted, axes = sizing.adopted(path, adopt.Options(), {"seq": sizes, "batch": (2,)}, LIMITS)
        assert adopted.notes == (), "no size was guessed that was not told"
        assert axes == {"seq": sizes, "batch": (2,)}
        found.append(provenance.subject(catalog.task("enc@seq=64")))
    assert len(set(found)) == 1
    adopted, axes = sizing.adopted(path, adopt.Options(), {"seq": (5,), "n": (3,)}, LIMITS)
    assert axes == {"n": (3,)}, "a single size is the task's own"
    assert catalog.task("enc").samples("test").inputs["x"].shape[1:] == (5,)


def test_sizes_of_a_request_to_generate_are_told_once() -> None:
    decode = dataclasses.replace(CELL, task=TaskName.parse("codegen_lm~generate@new=64,prompt=256"))
    with pytest.raises(InputError, match=r"prompt=256 tells its sizes already: leave prompt out of --dim"):
        sizing.at_sizes([decode], {"prompt": (128,)})
    with pytest.raises(InputError, match=r"they read codegen_lm~generate@new=64,prompt=256$"):
        selection.select(["codegen_lm~generate@new=0,prompt=8/*"], None)


@pytest.mark.usefixtures("wide")
def test_globs_may_name_sizes() -> None:
    found = selection.select(["wide@width=5/null/native/*"], None)
    assert {str(cell.task) for cell in found} == {"wide@width=5"}
    assert {cell.variant for cell in found} >= {"raw", "free", "frozen"}
    with pytest.raises(InputError, match="not sizes of a task: 'wide@width'"):
        selection.select(["wide@width/*"], None)
    with pytest.raises(InputError, match="wide has no dimension 'height' of any size"):
        selection.select(["wide@height=5/null/native/raw/null/cpu/b1t1"], None)


@pytest.mark.usefixtures("wide")
def test_sizes_share_artifacts_up_to_a_variant_that_fixes_them() -> None:
    own = Cell.from_path("wide/null/native/free+frozen+free/null/cpu/b1t1")
    made = {
        task: prepare.steps_of(dataclasses.replace(own, task=TaskName.parse(task)), LIMITS)
        for task in ("wide", "wide@width=5", "wide@width=6")
    }
    files = {task: [step.path for step in steps] for task, steps in made.items()}
    assert files["wide"][:2] == files["wide@width=5"][:2] == files["wide@width=6"][:2]
    for place in (2, 3):
        assert len({paths[place] for paths in files.values()}) == 3
    assert [step.info.get("of") for step in made["wide@width=6"]] == [None, "wide", "wide@width=6", "wide@width=6"]


@pytest.mark.usefixtures("wide")
def test_sizes_are_subjects_of_their_own() -> None:
    subjects = [provenance.subject(catalog.task(name)) for name in ("wide", "wide@width=5", "wide@width=6")]
    assert len(set(subjects)) == 3


@pytest.mark.usefixtures("wide")
def test_what_a_search_judges_is_the_file_that_it_deploys() -> None:
    """A variant that fixes sizes knows the task; the tasks of a search differ in samples, not in what they run."""

    def made(task: str) -> Path:
        cell = Cell.from_path(f"{task}/null/native/frozen+free/null/cpu/b1t1")
        return prepare.artifact_of(cell, Limits.of(step_s=None, memory_bytes=None)).path

    assert made("wide~tuning") == made("wide~confirming") == made("wide")
    assert made("wide~tuning@width=8") == made("wide@width=8") != made("wide")
