"""The three places that count parameters follow one rule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.graphs.costs.profile import profile
from bench.graphs.file.lazy import read
from bench.graphs.weights.parameters import num_params
from bench.graphs.weights.report import weight_report

INT8, INT32 = np.int8, np.int32


def quantized(folder: Path) -> Path:
    """Eight quantized inputs and two outputs: 16 weights, 2 biases, and scales and zero points for each."""
    stored = {
        "w": np.ones((8, 2), INT8),
        "w_scale": np.ones(2, np.float32),
        "w_zero": np.zeros(2, INT8),
        "b": np.ones(2, INT32),
        "b_scale": np.ones(2, np.float32),
        "shape": np.array([-1, 8]),
        "unread": np.ones(5, np.float32),
        "epsilon": np.float32(1e-5),
    }
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["rows"]),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["weights"], axis=1),
        helper.make_node("DequantizeLinear", ["b", "b_scale"], ["bias"], axis=0),
        helper.make_node("MatMul", ["rows", "weights"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["sum"]),
        helper.make_node("Add", ["sum", "epsilon"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 2])
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in stored.items()]
    graph = helper.make_graph(nodes, "quantized", [x], [y], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), folder / "quantized.onnx")
    return folder / "quantized.onnx"


def test_quantized_weights_and_biases_count_and_what_quantization_adds_does_not(tmp_path: Path) -> None:
    assert num_params(quantized(tmp_path)) == 8 * 2 + 2


@pytest.mark.parametrize("count", [lambda path: profile(path, observe=False).num_params, num_params])
def test_all_places_count_alike(count: object, tmp_path: Path) -> None:
    path = quantized(tmp_path)
    assert callable(count)
    listed = sum(report.num_params for report in weight_report(read(path)))
    assert count(path) == listed + 2  # the report lists no integers of one axis, as the bias is


def test_a_stored_tensor_that_the_model_gives_as_an_output_counts(tmp_path: Path) -> None:
    path = quantized(tmp_path)
    model = onnx.load(path)
    model.graph.output.append(helper.make_tensor_value_info("unread", TensorProto.FLOAT, [5]))
    onnx.save(model, path)
    assert num_params(path) == profile(path, observe=False).num_params == 8 * 2 + 2 + 5
