"""The precision that really runs, read off the graph that ONNX Runtime optimized."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.plugins.engines.onnxruntime import precision as ort_precision

pytest.importorskip("onnxruntime")
SIZE = 64


def model_of(nodes: list[onnx.NodeProto], domain: str = "", **weights: np.ndarray) -> onnx.ModelProto:
    """From float32 `x` to float32 `y`, both (batch, 64)."""
    shape = ["batch", SIZE]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def float32() -> onnx.ModelProto:
    return model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], w=np.ones((SIZE, SIZE), np.float32))


def half() -> onnx.ModelProto:
    """Half-precision weights, which the processor's provider has no product for."""
    nodes = [
        helper.make_node("Cast", ["x"], ["half"], to=TensorProto.FLOAT16),
        helper.make_node("Gemm", ["half", "w"], ["product"]),
        helper.make_node("Cast", ["product"], ["y"], to=TensorProto.FLOAT),
    ]
    return model_of(nodes, w=np.ones((SIZE, SIZE), np.float16))


def dynamic() -> onnx.ModelProto:
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
        helper.make_node("MatMulInteger", ["q", "w", "zero"], ["integers"]),
        helper.make_node("Cast", ["integers"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["floats", "scale"], ["y"]),
    ]
    return model_of(nodes, w=np.ones((SIZE, SIZE), np.int8))


def blocked(accuracy_level: int) -> onnx.ModelProto:
    node = helper.make_node(
        "MatMulNBits",
        ["x", "w", "scales"],
        ["y"],
        domain="com.microsoft",
        K=SIZE,
        N=SIZE,
        bits=4,
        block_size=32,
        accuracy_level=accuracy_level,
    )
    return model_of([node], w=np.zeros((SIZE, 2, 16), np.uint8), scales=np.ones((SIZE, 2), np.float32))


@pytest.mark.parametrize(
    ("model", "precision"),
    [(float32(), "float32"), (half(), "float32"), (dynamic(), "int8"), (blocked(4), "int8"), (blocked(1), "float32")],
    ids=["float32", "half precision cast back", "dynamic", "blocks with bytes", "blocks with floats"],
)
def test_precision_that_runs(model: onnx.ModelProto, precision: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    assert ort_precision.multiplies_in(path) == precision
    assert list(tmp_path.iterdir()) == [path]


def test_half_precision_that_is_not_cast_back_is_told() -> None:
    """As on a processor, or a provider, that multiplies it."""
    assert ort_precision.most_reduced(half()) == "float16"


@pytest.mark.parametrize(
    ("model", "plain"),
    [(float32(), True), (half(), False), (dynamic(), False), (blocked(1), False)],
    ids=["float32", "half precision", "dynamic", "blocks"],
)
def test_file_that_a_provider_could_reduce_by_itself(model: onnx.ModelProto, plain: bool, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    assert ort_precision.is_plain(path) is plain
