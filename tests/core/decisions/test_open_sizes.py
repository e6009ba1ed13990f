"""Files that take the sizes of made-up samples alone: they are not shipped unless somebody asked for these sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.api.loss_units import AllowedLoss
from bench.api.names import TaskName
from bench.api.plugin import TensorSpec
from bench.decisions import open_sizes, ports
from bench.decisions.constraints import Constraints, qualified
from bench.measure.comparison import CELL
from bench.plugins import catalog
from bench.records import assemble, ranking
from bench.records.measurements import Measurements
from bench.report import outcome
from support import records as made

RAW = "own/onnx/native/raw/onnxruntime/cpu/b1t1"
TASK = """
from bench.api import TensorSpec
from bench.tasks.user_task import OwnTask

class Own(OwnTask):
    sources = ("onnx",)
    weights = "weights.onnx"
    inputs = (TensorSpec(name="tokens", dtype="int64", shape=("batch", "sequence")),)
    outputs = (TensorSpec(name="logits", dtype="float32", shape=("batch", "sequence", 8)),)
    sizes = {"sequence": 16}
"""


@pytest.fixture(autouse=True)
def task(plugin_folder: Path) -> Path:
    folder = plugin_folder / "models" / "own"
    folder.mkdir(parents=True)
    (folder / "task.py").write_text(TASK)
    catalog.forget()
    return folder


def fixed(path: str) -> str:
    return path.replace("/raw/", "/static_shapes/")


def test_a_file_of_guessed_sizes_is_not_shipped(task: Path) -> None:
    launches = [made.launch(block, CELL, ns, reference=RAW) for block, ns in (("a", 500), ("b", 1000))]
    records = {
        RAW: made.replaced_quality(made.baseline(RAW), reference=RAW, metric_loss=0.0),
        fixed(RAW): made.record(fixed(RAW), *launches, quality=made.quality(metric_loss=0.0)),
    }
    measurements = Measurements(records)
    (group,) = ranking.select(assemble.rows(records, measurements=measurements)).groups
    found = qualified(measurements, group, Constraints(max_metric_loss=AllowedLoss()))
    assert [row.variant for row in found.rows] == ["raw"]
    assert [row.variant for row in found.of_guessed_sizes] == ["static_shapes"]
    assert outcome.sizes(fixed(RAW)) == (
        "its file takes guessed sizes alone, which `bench run --model` with --dim sequence=16 asks for"
    )


def test_the_command_that_asks_for_sizes_is_one_whatever_a_dimension_is_called(task: Path) -> None:
    text = (task / "task.py").read_text().replace("sequence", "a; rm -r ~")
    (task / "task.py").write_text(text)
    catalog.forget()
    assert outcome.sizes(fixed(RAW)).endswith("which `bench run --model` with --dim 'a; rm -r ~=16' asks for")


def test_sizes_that_were_asked_for_are_not_guessed(task: Path) -> None:
    paths = [RAW, fixed(RAW)]
    assert open_sizes.of_guessed_sizes(TaskName("own"), paths) == [fixed(RAW)]
    assert open_sizes.has_made_up_inputs(TaskName("own"))
    asked = TaskName("own").at({"sequence": 16})
    assert open_sizes.of_guessed_sizes(asked, [path.replace("own", str(asked)) for path in paths]) == []
    (task / "dataset.npz").write_bytes(b"")
    assert open_sizes.of_guessed_sizes(TaskName("own"), paths) == [], (
        "the samples have the sizes of the requests to come"
    )
    assert not open_sizes.has_made_up_inputs(TaskName("own"))


def test_a_task_that_cannot_be_opened_has_no_guessed_sizes(task: Path) -> None:
    (task / "task.py").write_text("raise RuntimeError('half written')")
    catalog.forget()
    assert open_sizes.guessed(TaskName("own")) == {}
    assert not open_sizes.has_made_up_inputs(TaskName("own"))
    assert open_sizes.of_guessed_sizes(TaskName("own"), [fixed(RAW)]) == []


def test_a_deployment_says_the_sizes_that_it_takes() -> None:
    path = fixed(RAW)
    record: Any = made.record(path, quality=made.quality(input_shapes={"tokens": (1, 16)}))
    task = catalog.task("own")
    assert ports.fixed_sizes(record, task) == "tokens (batch, 16)"
    sizes = ports.sizes_of(record, task)
    assert sizes == {"sequence": 16}
    lines = ports.lines(task, sizes)
    assert "(batch, 16)" in lines
    assert "(batch, 16, 8)" in lines
    assert ports.with_sizes([TensorSpec(name="x", dtype="float32", shape=("batch", 3))], {})[0].shape == ("batch", 3)
    plain: Any = made.record(RAW, quality=made.quality(input_shapes={"tokens": (1, 16)}))
    assert ports.fixed_sizes(plain, task) == ""
