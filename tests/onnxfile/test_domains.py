"""The values that the inputs of a file are made for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.onnxfile.file.domains import domains
from bench.onnxfile.file.lazy import Stored

FLOAT, INT32, INT64, UINT8 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8


def found(kind: int, shape: list[Any], nodes: list[onnx.NodeProto], name: str = "x", **weights: Any) -> Any:
    tensors = [numpy_helper.from_array(np.asarray(array), key) for key, array in weights.items()]
    value, output = helper.make_tensor_value_info(name, kind, shape), helper.make_tensor_value_info("y", FLOAT, None)
    graph = helper.make_graph(nodes, "g", [value], [output], tensors)
    return domains(Stored(model=helper.make_model(graph), path=None)).get(name)


def test_indices_stay_within_their_table() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=INT64),
        helper.make_node("Gather", ["table", "wide"], ["y"]),
    ]
    assert found(INT32, ["n", "length"], nodes, table=np.ones((1000, 4), np.float32)) == (0, 999)
    gather = helper.make_node("Gather", ["table", "x"], ["y"], axis=1)
    assert found(INT64, ["n", "length"], [gather], table=np.ones((1000, 4), np.float32)) == (0, 3)


def test_the_data_of_a_gather_are_no_indices() -> None:
    assert found(FLOAT, [8, 4], [helper.make_node("Gather", ["x", "rows"], ["y"])], rows=np.array([1])) is None


def test_number_that_is_compared_is_the_one_to_feed() -> None:
    """A rate of samples decides on the branch that runs."""
    node = helper.make_node("Equal", ["x", "rate"], ["y"])
    assert found(INT64, [], [node], rate=np.array(16000)) == (16000, 16000)


def test_tokens_are_not_all_the_token_that_pads() -> None:
    """The token that pads is compared with before the table is read."""
    nodes = [
        helper.make_node("Equal", ["x", "pad"], ["is_pad"]),
        helper.make_node("Gather", ["table", "x"], ["y"]),
    ]
    assert found(INT64, [1, "length"], nodes, pad=np.array(1), table=np.ones((50, 4), np.float32)) == (0, 49)


@pytest.mark.parametrize(("op_type", "position"), [("Expand", 1), ("Tile", 1), ("ConstantOfShape", 0), ("TopK", 1)])
def test_sizes_that_are_fed_are_1(op_type: str, position: int) -> None:
    others = ["w"] * position
    assert found(INT64, [3], [helper.make_node(op_type, [*others, "x"], ["y"])], w=np.ones(3)) == (1, 1)
    if position:
        assert found(FLOAT, [3], [helper.make_node(op_type, ["x", "w"], ["y"])], w=np.ones(3)) is None


@pytest.mark.parametrize(
    ("name", "kind", "shape", "domain"),
    [
        ("fmin", FLOAT, [], (0, 0)),
        ("fmax", FLOAT, [1], (10_000, 10_000)),
        ("fmax", FLOAT, [3], None),
        ("max_length", INT64, [], None),
        ("gain", FLOAT, [], None),
        ("luminance", FLOAT, [], None),
    ],
)
def test_limits_leave_much_between_them(name: str, kind: int, shape: list[int], domain: Any) -> None:
    assert found(kind, shape, [helper.make_node("Identity", [name], ["y"])], name=name) == domain


def test_constant_in_a_file_that_is_not_at_hand_tells_nothing() -> None:
    scale = numpy_helper.from_array(np.float32(255), "c")
    scale.data_location = TensorProto.EXTERNAL
    scale.ClearField("raw_data")
    value, output = (
        helper.make_tensor_value_info("x", FLOAT, [1, 3, 8, 8]),
        helper.make_tensor_value_info("y", FLOAT, None),
    )
    graph = helper.make_graph([helper.make_node("Div", ["x", "c"], ["y"])], "g", [value], [output], [scale])
    assert domains(Stored(model=helper.make_model(graph), path=None)) == {}


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("attention_mask", [helper.make_node("Cast", ["attention_mask"], ["y"], to=FLOAT)]),
        ("valid", [helper.make_node("Cast", ["valid"], ["f"], to=FLOAT), helper.make_node("Sub", ["one", "f"], ["y"])]),
    ],
)
def test_nothing_is_masked(name: str, nodes: list[onnx.NodeProto]) -> None:
    assert found(INT64, ["n", "length"], nodes, name=name, one=np.float32(1)) == (1, 1)


@pytest.mark.parametrize(
    ("operator", "number", "expected"),
    [
        ("Div", np.float32(255), (0, 255)),
        ("Mul", np.float32(1 / 255), (0, 255)),
        ("Sub", np.float32([103.9, 116.8, 123.7]).reshape(3, 1, 1), (0, 255)),
        ("Sub", np.float32([0.485, 0.456, 0.406]).reshape(3, 1, 1), (0, 1)),
        ("Mul", np.float32(2), None),
        ("Add", np.float32(255), None),
    ],
)
def test_range_of_an_image_is_told_by_its_scale(operator: str, number: Any, expected: Any) -> None:
    node = helper.make_node(operator, ["x", "c"], ["y"])
    assert found(FLOAT, ["n", 3, 32, 32], [node], c=number) == expected
    assert found(FLOAT, ["n", 32], [node], c=np.float32(255)) is None, "no image"


def test_quantized_levels_are_all_used() -> None:
    node = helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"])
    assert found(FLOAT, ["n", 8], [node], scale=np.float32(0.5), zero=np.uint8(128)) == (-64.0, 63.5)


@pytest.mark.parametrize("scale", [math.nan, math.inf])
def test_scale_that_is_no_number_tells_nothing(scale: float) -> None:
    tensors = [numpy_helper.from_array(np.float32(scale), "s"), numpy_helper.from_array(np.int8(0), "z")]
    value, output = (helper.make_tensor_value_info(name, FLOAT, [1, 4]) for name in ("x", "y"))
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    graph = helper.make_graph([node], "g", [value], [output], tensors)
    assert domains(Stored(model=helper.make_model(graph), path=None)) == {}
