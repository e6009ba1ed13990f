"""Models that are told how much of an input is filled get lengths that they can run with, whatever their format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from bench.api import Task
from bench.onnxfile.costs.observed import made_feeds
from bench.plugins import catalog
from bench.plugins.other_sizes import resized
from bench.tasks.examine import examine

Examined = Callable[..., tuple[Task, dict[str, Any]]]
SIZE = 16


@pytest.fixture
def examined(plugin_folder: Path) -> Examined:
    """Examines a model in this process and gives its task."""

    def run(module: str, path: Path, **asked: Any) -> tuple[Task, dict[str, Any]]:
        folder = plugin_folder / "models" / "mine"
        folder.mkdir(parents=True)
        request = {"data": None, "dims": (), "shapes": (), "trust": False, **asked}
        found = examine(module=module, path=str(path), folder=str(folder), **request)
        catalog.forget()
        return catalog.task("mine"), found

    return run


def averaging(folder: Path, name: str, *, size: int | str = "time", kind: int = TensorProto.INT64) -> Path:
    """A model that averages each row's first `name` numbers: 0 of them is 0 / 0."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "one"], ["total"], axis=0),
        helper.make_node("Range", ["zero", "total", "one"], ["places"]),
        helper.make_node("Cast", [name], ["counted"], to=TensorProto.INT64),
        helper.make_node("Unsqueeze", ["counted", "last"], ["column"]),
        helper.make_node("Less", ["places", "column"], ["is_filled"]),
        helper.make_node("Cast", ["is_filled"], ["filled"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "filled"], ["masked"]),
        helper.make_node("ReduceSum", ["masked", "last"], ["sum"]),
        helper.make_node("Cast", ["column"], ["count"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["sum", "count"], ["mean"]),
    ]
    constants = {"zero": np.array(0), "one": np.array(1), "last": np.array([1])}
    graph = helper.make_graph(
        nodes,
        "averaging",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", size]),
            helper.make_tensor_value_info(name, kind, ["batch"]),
        ],
        [helper.make_tensor_value_info("mean", TensorProto.FLOAT, ["batch", 1])],
        [onnx.numpy_helper.from_array(array.astype(np.int64), key) for key, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


def run(task: Task, feeds: dict[str, np.ndarray]) -> np.ndarray:
    opener = catalog.runtime("onnxruntime")
    with opener.open(task.weights_path, task=task, source="onnx", provider="cpu", threads=1) as session:
        (output,) = session.run(feeds)
    return np.asarray(output)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("input_lengths", TensorProto.INT64),
        ("lengths", TensorProto.INT32),
        ("x_lengths", TensorProto.INT64),
        ("seq_len", TensorProto.INT32),
        ("seqLens", TensorProto.UINT8),
    ],
)
@pytest.mark.parametrize("size", ["time", 12])
def test_lengths_lie_between_one_and_the_size(
    name: str, kind: int, size: int | str, examined: Examined, tmp_path: Path
) -> None:
    task, found = examined("onnx", averaging(tmp_path, name, size=size, kind=kind))
    most = SIZE if size == "time" else 12
    assert found["notes"] == [] or not any("not finite" in note for note in found["notes"])
    for split in ("test", "train"):
        inputs = task.samples(split).inputs
        assert inputs["x"].shape[1] == most
        assert (inputs[name] >= 1).all()
        assert (inputs[name] <= most).all()
    inputs = task.samples("test").inputs
    assert len(set(inputs[name].tolist())) > 2, "they differ from sample to sample"
    expected = [row[:length].mean() for row, length in zip(inputs["x"], inputs[name].astype(int), strict=True)]
    np.testing.assert_allclose(run(task, dict(inputs))[:, 0], expected, rtol=0, atol=1e-6)


def test_lengths_of_what_is_cut_are_cut(examined: Examined, tmp_path: Path) -> None:
    task, _ = examined("onnx", averaging(tmp_path, "lengths"))
    whole, cut, longer = (
        one.samples("test").inputs["lengths"] for one in (task, resized(task, {"time": 4}), resized(task, {"time": 64}))
    )
    assert whole.max() > 4
    np.testing.assert_array_equal(cut, np.minimum(whole, 4))
    np.testing.assert_array_equal(longer, whole)


def test_lengths_of_a_profile_that_runs_the_model_fit(tmp_path: Path) -> None:
    model = onnx.load(averaging(tmp_path, "lengths"))
    feeds = made_feeds(model, {"x": (50, 3), "lengths": (50,)}, None)
    assert set(feeds["lengths"].tolist()) == {1, 2, 3}


@pytest.mark.framework("torch")
def test_lengths_of_torchscript_fit(examined: Examined, tmp_path: Path) -> None:
    import torch

    class Mean(torch.nn.Module):
        def forward(self, x: torch.Tensor, x_lengths: torch.Tensor) -> torch.Tensor:
            filled = torch.arange(x.shape[1])[None] < x_lengths[:, None]
            return (x * filled).sum(1) / x_lengths

    torch.jit.script(Mean()).save(tmp_path / "model.pt")
    shapes = ("x=1x30", "x_lengths=1:int64")
    task, found = examined("torch_script", tmp_path / "model.pt", trust=True, shapes=shapes)
    inputs = task.samples("test").inputs
    assert (inputs["x_lengths"] >= 1).all()
    assert (inputs["x_lengths"] <= 30).all()
    assert not any("not finite" in note for note in found["notes"])


@pytest.mark.framework("tensorflow")
def test_lengths_of_tflite_fit(examined: Examined, tmp_path: Path) -> None:
    import tensorflow as tf

    def mean(x: Any, lengths: Any) -> Any:
        filled = tf.cast(tf.range(12)[None] < lengths[:, None], tf.float32)
        return tf.reduce_sum(x * filled, 1) / tf.cast(lengths, tf.float32)

    given = [tf.TensorSpec((1, 12), name="x"), tf.TensorSpec((1,), tf.int32, name="lengths")]
    function = tf.function(mean, input_signature=given).get_concrete_function()
    path = tmp_path / "model.tflite"
    path.write_bytes(tf.lite.TFLiteConverter.from_concrete_functions([function], tf.Module()).convert())
    task, found = examined("tflite", path)
    inputs = task.samples("test").inputs
    assert (inputs["lengths"] >= 1).all()
    assert (inputs["lengths"] <= 12).all()
    assert inputs["lengths"].max() > 1
    assert not any("not finite" in note for note in found["notes"])
