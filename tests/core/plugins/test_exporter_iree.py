"""LSTMs compiled by IREE: right, but for one that reads many features which the model computes at a dynamic batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api import TensorSpec
from bench.plugins import catalog
from support import small_models as small

pytestmark = pytest.mark.framework
FLOAT, STEPS, UNITS = TensorProto.FLOAT, 4, 8


def features_task(num_features: int, directions: int) -> Any:
    class FeaturesTask(small.SmallTask):
        inputs = (
            TensorSpec(name="features", dtype="float32", shape=(STEPS, "batch", num_features - 2)),
            TensorSpec(name="flag", dtype="float32", shape=(STEPS, "batch", 2)),
        )
        outputs = (TensorSpec(name="states", dtype="float32", shape=(STEPS, directions, "batch", UNITS)),)

    return small.make_task(FeaturesTask)


def states(task: Any, direction: str, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Of an LSTM of two inputs that are concatenated, by IREE and by ONNX Runtime: (T, directions, N, U)."""
    exporter: Any = catalog.exporter("torch_iree")
    for plugin in (exporter, catalog.runtime("iree")):
        if (reason := plugin.skip()) is not None:
            pytest.skip(reason)
    num_features, directions = task.inputs[0].shape[2] + 2, task.outputs[0].shape[1]
    shapes = {"w": (4 * UNITS, num_features), "r": (4 * UNITS, UNITS), "b": (8 * UNITS,)}
    weights = [
        numpy_helper.from_array(small.floats(directions, *shape) / num_features**0.5, name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Concat", ["features", "flag"], ["x"], axis=2),
        helper.make_node("LSTM", ["x", "w", "r", "b"], ["states"], hidden_size=UNITS, direction=direction),
    ]
    ports = [
        [helper.make_tensor_value_info(spec.name, FLOAT, spec.shape) for spec in specs]
        for specs in (task.inputs, task.outputs)
    ]
    model = small.make_valid(helper.make_graph(nodes, "graph", *ports, weights))
    onnx.save(model, folder / "model.onnx")
    feeds = {spec.name: small.floats(STEPS, 3, spec.shape[2]) for spec in task.inputs}
    (expected,) = small.run(model, **feeds)
    exporter.convert_onnx(folder / "model.onnx", task, folder / "artifact.vmfb")
    with catalog.runtime("iree").open(
        folder / "artifact.vmfb", task=task, source="torch", provider="cpu", threads=1
    ) as session:
        (output,) = session.run(feeds)
    return output, expected


@pytest.mark.parametrize(("direction", "directions"), [("forward", 1), ("bidirectional", 2)])
def test_lstm_is_right(direction: str, directions: int, tmp_path: Path) -> None:
    np.testing.assert_allclose(*states(features_task(128, directions), direction, tmp_path), rtol=0, atol=1e-5)


@pytest.mark.xfail(raises=AssertionError, strict=True, reason="wrong in IREE 3.13.0: docs/reading-the-table.md says so")
def test_lstm_of_more_features_is_right(tmp_path: Path) -> None:
    """If this passes, IREE is mended, and the docs have one thing less to explain."""
    np.testing.assert_allclose(*states(features_task(130, 1), "forward", tmp_path), rtol=0, atol=1e-2)
