"""Models that take a batch of one alone: what a search tries is judged by other samples than it is calibrated by."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api.errors import InputError
from bench.api.names import Role, TaskName
from bench.plugins import catalog
from bench.tasks import adopt

WEIGHTS = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A product whose batch is fixed at 1."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "W"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        [numpy_helper.from_array(WEIGHTS, "W")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, tmp_path / "one.onnx")
    return tmp_path / "one.onnx"


def test_the_other_training_samples_of_a_data_set_judge(model: Path) -> None:
    x = np.arange(800, dtype=np.float32).reshape(100, 8)
    np.savez(model.parent / "data.npz", x=x, targets=(x @ WEIGHTS).argmax(1))
    name = adopt.adopt(model, adopt.Options(dataset=model.parent / "data.npz")).name
    task, tuning = catalog.task(name), catalog.task(TaskName(name, Role.TUNING))
    places = {split: (tuning.samples(split).inputs["x"][:, 0] / 8).tolist() for split in ("train", "test")}
    assert places == {"train": [0], "test": list(range(5, 100, 5))}
    held_out = (task.samples("test").inputs["x"][:, 0] / 8).tolist()
    assert not {*held_out} & {*places["train"], *places["test"]}
    right = [{"y": row} for row in x[5::5] @ WEIGHTS]
    outputs = {"y": np.stack([one["y"] for one in right])}
    assert tuning.metrics(outputs, right)["metric_loss"] == 0
    wrong = {"y": -outputs["y"]}
    assert tuning.metrics(wrong, right)["metric_loss"] == pytest.approx(1), "labels are those of the judging samples"


def test_made_up_samples_that_judge_calibrate_nothing(model: Path) -> None:
    name = adopt.adopt(model).name
    task, tuning = catalog.task(name), catalog.task(TaskName(name, Role.TUNING))
    seen = [
        tuple(row) for each in (tuning, task) for split in ("train", "test") for row in each.samples(split).inputs["x"]
    ]
    assert [tuning.samples(split).num_samples for split in ("train", "test")] == [1, 7]
    assert len({*seen}) == len(seen) - 1, "the one that calibrates is the task's training sample"
    with pytest.raises(InputError, match=r"there are: train, test$"):
        task.samples("judging")


def test_one_sample_of_a_data_set_judges_too(model: Path) -> None:
    np.savez(model.parent / "data.npz", x=np.ones((4, 8), np.float32))
    name = adopt.adopt(model, adopt.Options(dataset=model.parent / "data.npz")).name
    assert catalog.task(name).judging() is None
    assert catalog.task(TaskName(name, Role.TUNING)).samples("test").num_samples == 1
