"""Shapes and types that a file states and its nodes contradict."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.onnxfile.file.stale import drop_stale

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model(*, inner: onnx.ValueInfoProto | None = None, output: tuple[int | str, ...] = ("n", 1)) -> onnx.ModelProto:
    """`x` (n, 8) is summed over its last axis, and the sums are negated."""
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=1, axes=[1]),
        helper.make_node("Neg", ["sum"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(*value) for value in [("x", FLOAT, ["n", 8]), ("y", FLOAT, output)])
    graph = helper.make_graph(nodes, "g", [x], [y], value_info=[inner] if inner else [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)


def reshaped(stated: tuple[int | str, ...]) -> onnx.ModelProto:
    """`x` is given a shape that is an input, as `h`, and is then multiplied by a matrix of 8 rows."""
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])]
    values = [("x", FLOAT, ["n", 8]), ("shape", INT64, [2]), ("y", FLOAT, ["n", 4]), ("h", FLOAT, stated)]
    x, shape, y, h = (helper.make_tensor_value_info(*value) for value in values)
    w = numpy_helper.from_array(np.ones((8, 4), dtype=np.float32), "w")
    graph = helper.make_graph(nodes, "g", [x, shape], [y], [w], value_info=[h])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)


def opens(made: onnx.ModelProto) -> bool:
    try:
        onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception:
        return False
    return True


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (
            model(inner=helper.make_tensor_value_info("sum", FLOAT, ["n", 8])),
            "its stated shapes contradict its nodes, and were dropped: 'sum' is float of ?x8, not float of ?x1",
        ),
        (
            model(inner=helper.make_tensor_value_info("sum", INT64, ["n", 1])),
            "its stated shapes contradict its nodes, and were dropped: 'sum' is int64 of ?x1, not float of ?x1",
        ),
        (
            model(output=("n", 3)),
            "its stated shapes contradict its nodes, and were dropped: 'y' is float of ?x3, not float of ?x1",
        ),
    ],
)
def test_statement_that_nodes_contradict_is_dropped(made: onnx.ModelProto, told: str) -> None:
    assert drop_stale(made) == told
    assert [value.name for value in made.graph.value_info] == []
    assert [dim.dim_value for dim in made.graph.output[0].type.tensor_type.shape.dim] == [0, 1]


def test_statements_that_agree_with_the_nodes_stay() -> None:
    made = model(inner=helper.make_tensor_value_info("sum", FLOAT, ["n", 1]), output=("n", 3))
    drop_stale(made)
    assert [value.name for value in made.graph.value_info] == ["sum"]


@pytest.mark.parametrize("stated", [("n", 9), ("n", 8, 1)])
def test_refused_model_is_opened_once_its_statements_are_dropped(stated: tuple[int | str, ...]) -> None:
    """Nothing but the statement tells the shape of `h`, and the product contradicts it."""
    made = reshaped(stated)
    assert not opens(made)
    assert drop_stale(made) == "all 2 shapes that it states besides those of its inputs were dropped"
    assert opens(made)


def test_all_statements_are_dropped_where_none_is_shown_to_be_wrong() -> None:
    made = model(inner=helper.make_tensor_value_info("sum", FLOAT, ["n", 1]))
    assert drop_stale(made) == "all 2 shapes that it states besides those of its inputs were dropped"
    assert [value.name for value in made.graph.value_info] == []


def test_many_stale_statements_are_counted() -> None:
    made = model()
    for number in range(5):
        made.graph.node.append(helper.make_node("Neg", ["x"], [f"z{number}"]))
        made.graph.value_info.append(helper.make_tensor_value_info(f"z{number}", FLOAT, [1, 2, 3]))
    told = drop_stale(made)
    assert told is not None
    assert told.endswith("'z2' is float of 1x2x3, not float of ?x8 and 2 more")
