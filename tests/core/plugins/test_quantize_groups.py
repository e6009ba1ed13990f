"""Static quantization of transposed convolutions in groups: a bias has more channels than the weight's second axis."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from support import small_models as small
from support import variant_graphs as graphs

pytest.importorskip("onnxruntime")

node = graphs.node
CHANNELS = 12
IMAGE = {"x": ["batch", CHANNELS, 5, 5]}


def upsampled(*, groups: int, bias: bool) -> onnx.ModelProto:
    """A transposed convolution from 12 channels to 12, and a convolution to 3, which stays in float32."""
    weights = {
        "up": graphs.floats(CHANNELS, CHANNELS // groups, 2, 2) / 4,
        "flat": graphs.floats(3, CHANNELS, 1, 1, seed=1) / 4,
    }
    reads = ["x", "up"]
    if bias:
        weights["shift"], reads = graphs.floats(CHANNELS, seed=2), [*reads, "shift"]
    nodes = [
        node("ConvTranspose", reads, ["wide"], "wide", group=groups, strides=[2, 2]),
        node("Relu", ["wide"], ["positive"], "positive"),
        node("Conv", ["positive", "flat"], ["y"], "y"),
    ]
    return graphs.model_of(nodes, weights, inputs=IMAGE, outputs={"y": ["batch", 3, 10, 10]})


def calibrating(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Two samples that the ranges are taken from."""
    return {"x": graphs.task_of(model).samples("train").inputs["x"][:2]}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("groups", [1, 2, 3, CHANNELS])
@pytest.mark.parametrize("option", ["minmax-channel", "minmax"])
def test_transposed_convolutions_in_groups_are_quantized(option: str, groups: int, bias: bool, tmp_path: Path) -> None:
    model = upsampled(groups=groups, bias=bias)
    made, info = graphs.apply(f"int8_static-{option}", model, tmp_path)
    assert info["num_quantized"] == 1
    (reader,) = (each for each in made.graph.node if each.op_type == "ConvTranspose")
    (scales,) = (
        each.input[1]
        for each in made.graph.node
        if each.op_type == "DequantizeLinear" and reader.input[1] in each.output
    )
    stored = {tensor.name: tensor for tensor in made.graph.initializer}
    (weight,) = (tensor for tensor in stored.values() if list(tensor.dims) == [CHANNELS, CHANNELS // groups, 2, 2])
    assert weight.data_type == TensorProto.INT8
    by_channel = option.endswith("channel") and (groups == 1 or not bias)
    assert numpy_helper.to_array(stored[scales]).size == (CHANNELS // groups if by_channel else 1)
    feeds = calibrating(model)
    assert 0 < small.drift(small.run(made, **feeds), small.run(model, **feeds)) < 0.1


@pytest.mark.parametrize("groups", [2, CHANNELS])
def test_mixed_precision_takes_them(groups: int, tmp_path: Path) -> None:
    model = upsampled(groups=groups, bias=True)
    made, info = graphs.apply("mixed-sf", model, tmp_path)
    assert info["num_s"] == 1
    feeds = calibrating(model)
    assert 0 < small.drift(small.run(made, **feeds), small.run(model, **feeds)) < 0.1
