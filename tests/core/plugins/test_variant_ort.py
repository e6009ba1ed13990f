"""ONNX Runtime's offline optimization: its levels, and the properties of a model that it keeps."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from bench.plugins import catalog
from bench.plugins.engines.onnxruntime import optimized
from support import variant_graphs as graphs

pytest.importorskip("onnxruntime")

node = helper.make_node


def image_model() -> ModelProto:
    """Basic drops the Identity, extended fuses the Relu, and all lays channels out in blocks where that helps."""
    return graphs.model_of(
        [
            node("Identity", ["x"], ["same"]),
            node("Conv", ["same", "w"], ["c"], pads=[1, 1, 1, 1]),
            node("Relu", ["c"], ["r"]),
            node("Conv", ["r", "v"], ["y"], pads=[1, 1, 1, 1]),
        ],
        {"w": graphs.floats(32, 16, 3, 3) / 12, "v": graphs.floats(16, 32, 3, 3) / 17},
        inputs={"x": ["batch", 16, 8, 8]},
        outputs={"y": ["batch", 16, 8, 8]},
    )


def test_the_first_option_is_what_a_session_does_itself() -> None:
    assert [name for name in catalog.variants() if name.startswith("ort-")] == ["ort-all", "ort-extended", "ort-basic"]


def test_each_level_does_more(tmp_path: Path) -> None:
    source = image_model()
    made = {name: graphs.apply(name, source, tmp_path)[0] for name in ("ort-basic", "ort-extended", "ort-all")}
    kinds = {name: {(item.domain, item.op_type) for item in model.graph.node} for name, model in made.items()}
    assert kinds["ort-basic"] == {("", "Conv"), ("", "Relu")}
    assert ("com.microsoft", "FusedConv") in kinds["ort-extended"]
    assert ("", "Relu") not in kinds["ort-extended"]
    # The layout depends on the processor: some have none of their own.
    assert ("", "Relu") not in kinds["ort-all"]
    for model in made.values():
        assert graphs.largest_error(source, model) < 1e-5


def biased_product(source: str, target: str) -> list[NodeProto]:
    """ONNX Runtime makes of it a Gemm between two Reshapes, whose shapes it stores."""
    return [node("MatMul", [source, "w"], [f"{target}_product"]), node("Add", [f"{target}_product", "b"], [target])]


def test_an_optimized_file_can_be_optimized_again(tmp_path: Path) -> None:
    """ONNX Runtime stores the shapes under the same names each time, and refused a file that has them."""
    weights = {"w": graphs.floats(4, 4), "b": graphs.floats(4)}
    made = graphs.model_of(biased_product("x", "y"), weights, inputs={"x": [2, 3, 4]}, outputs={"y": [2, 3, 4]})
    for times, (source, target) in enumerate(itertools.pairwise(("y", "z", "last")), 1):
        made, _ = graphs.apply("ort-basic", made, tmp_path)
        assert graphs.operators(made)["Gemm"] == times
        made.graph.node.extend(biased_product(source, target))
        made.graph.output[0].name = target
    expected = np.float32([1, 2, 3, 4])
    for _ in range(3):
        expected = expected @ weights["w"] + weights["b"]
    (found,) = graphs.run(made, {"x": np.tile(np.float32([1, 2, 3, 4]), (2, 3, 1))})
    np.testing.assert_allclose(found, np.broadcast_to(expected, (2, 3, 4)), rtol=1e-4)


def test_branches_store_tensors_under_one_name(tmp_path: Path) -> None:
    """As ONNX Runtime does with the shapes that it stores in both: neither sees those of the other."""

    def branch(name: str, size: int) -> GraphProto:
        rows = node("Concat", ["x"] * size, [f"{name}_x"], axis=1)
        top = node("Slice", [f"{name}_y", "zero", "three", "axis"], [f"{name}_top"])
        value = helper.make_tensor_value_info(f"{name}_top", TensorProto.FLOAT, [2, 3, 4])
        return helper.make_graph([rows, *biased_product(f"{name}_x", f"{name}_y"), top], name, [], [value])

    weights = {"w": graphs.floats(4, 4), "b": graphs.floats(4), "limit": np.float32(0)}
    bounds = {"zero": np.array([0]), "three": np.array([3]), "axis": np.array([1])}
    source = graphs.model_of(
        [
            node("ReduceMax", ["x"], ["largest"], keepdims=0),
            node("Greater", ["largest", "limit"], ["high"]),
            node("If", ["high"], ["y"], then_branch=branch("then", 2), else_branch=branch("else", 3)),
        ],
        {**weights, **bounds},
        inputs={"x": [2, 3, 4]},
        outputs={"y": [2, 3, 4]},
    )
    made, _ = graphs.apply("ort-basic", source, tmp_path)
    assert graphs.operators(made)["Gemm"] == 2
    for x in (np.ones((2, 3, 4), np.float32), -np.ones((2, 3, 4), np.float32)):
        (expected,), (found,) = (graphs.run(model, {"x": x}) for model in (source, made))
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def chosen(source: str, then: list[NodeProto], otherwise: list[NodeProto]) -> list[NodeProto]:
    """Nodes that compute `y` by one of two branches, which end in their last node's output."""

    def branch(name: str, nodes: list[NodeProto]) -> GraphProto:
        value = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
        return helper.make_graph(nodes, name, [], [value])

    return [
        node("ReduceMax", [source], ["largest"], keepdims=0),
        node("Greater", ["largest", "limit"], ["high"]),
        node("If", ["high"], ["y"], then_branch=branch("then", then), else_branch=branch("else", otherwise)),
    ]


def test_a_branch_of_a_function_can_end_in_a_tensor_that_is_stored(tmp_path: Path) -> None:
    """ONNX Runtime makes a stored tensor of the Constant, whose name it made from that of the function."""
    arrays = {"t": np.float32([1, 2]), "e": np.float32([3, 4])}
    constants = {name: [node("Constant", [], [name], value=numpy_helper.from_array(a))] for name, a in arrays.items()}
    body = chosen("x", constants["t"], constants["e"])
    limit = node("Constant", [], ["limit"], value=numpy_helper.from_array(np.float32(0)))
    function = helper.make_function("local", "F", ["x"], ["y"], [limit, *body], [helper.make_opsetid("", 13)])
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y")]
    graph = helper.make_graph([node("F", ["x"], ["y"], domain="local")], "graph", ports[:1], ports[1:])
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("local", 1)]
    source = helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=8)
    made, _ = graphs.apply("ort-basic", source, tmp_path)
    for sign, name in ((1, "t"), (-1, "e")):
        np.testing.assert_array_equal(graphs.run(made, {"x": np.float32([sign, sign])})[0], arrays[name])


def test_a_value_with_the_name_of_a_stored_tensor_of_the_other_branch_keeps_its_readers() -> None:
    stored = numpy_helper.from_array(np.float32([1, 2]), "same")
    nodes = chosen("x", [node("Neg", ["same"], ["t"])], [node("Abs", ["x"], ["same"]), node("Neg", ["same"], ["e"])])
    next(each.g for each in nodes[-1].attribute if each.name == "then_branch").initializer.append(stored)
    weights = {"limit": np.float32(0)}
    model = graphs.model_of(nodes, weights, inputs={"x": [2]}, outputs={"y": [2]})
    assert optimized.rename_stored(model, {"x", "y", "limit", "largest", "high", "t", "e"})
    assert graphs.stored(model).keys() == {"limit"}
    for x, expected in (([1, 5], [-1, -2]), ([-1, -5], [-1, -5])):
        np.testing.assert_array_equal(graphs.run(model, {"x": np.float32(x)})[0], np.float32(expected))
