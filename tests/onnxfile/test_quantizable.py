"""The weights of a model that can be quantized, with their axes."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.onnxfile.weights.quantizable import find_weights, told_if_few
from support import small_models as small


def test_every_kind_of_weight_is_found_with_its_axes() -> None:
    found = {weight.name: weight for weight in find_weights(small.make_model())}
    assert {name: (weight.channel_axis, weight.block_axis) for name, weight in found.items()} == small.AXES
    assert {name for name, weight in found.items() if weight.flat} == {"conv"}
    assert {name: weight.num_readers for name, weight in found.items()} == dict.fromkeys(small.WEIGHTS, 1) | {"tied": 2}


@pytest.mark.parametrize(
    ("node", "axes"),
    [
        (helper.make_node("MatMul", ["weight", "x"], ["y"]), (0, 1)),
        (helper.make_node("Gemm", ["x", "weight"], ["y"]), (1, 0)),
        (helper.make_node("Gemm", ["weight", "x"], ["y"], transA=1), (1, 0)),
        (helper.make_node("FusedMatMul", ["x", "weight"], ["y"], domain="com.microsoft", transB=1), (0, 1)),
        (helper.make_node("Gather", ["weight", "x"], ["y"], axis=1), (1, 0)),
        (helper.make_node("Attention", ["x", "weight"], ["y"], domain="com.microsoft"), (1, 0)),
        (helper.make_node("Attention", ["x", "weight"], ["y"]), None),  # ONNX's own: keys
        (helper.make_node("Add", ["x", "weight"], ["y"]), None),
        (helper.make_node("Conv", ["x", "x", "weight"], ["y"]), None),
    ],
    ids=lambda value: value.op_type if isinstance(value, onnx.NodeProto) else "",
)
def test_axes_by_operator(node: onnx.NodeProto, axes: tuple[int, int] | None) -> None:
    graph = helper.make_graph([node], "graph", [], [], [numpy_helper.from_array(small.floats(6, 8), "weight")])
    found = [(weight.channel_axis, weight.block_axis) for weight in find_weights(helper.make_model(graph))]
    assert found == ([axes] if axes else [])


def test_constants_of_formulas_and_replaceable_tensors_are_no_weights() -> None:
    model = small.make_model()
    model.graph.input.append(helper.make_tensor_value_info("wide", TensorProto.FLOAT, [12, 36]))
    assert {weight.name for weight in find_weights(model)} == set(small.WEIGHTS) - {"wide"}


def test_a_file_of_which_little_is_quantized_says_so() -> None:
    assert told_if_few(1, 0) == {}
    assert told_if_few(50, 100) == {}
    assert told_if_few(49, 100)["note"].startswith("only 49 % of the weights' numbers are quantized; the others are")
    assert told_if_few(3, 2000)["note"].startswith("only 0.15 % of ")
