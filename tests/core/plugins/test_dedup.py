"""Equal weights are stored once, and nothing else changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api import TensorSpec, loading
from bench.plugins import catalog, steps

F = TensorProto.FLOAT


@pytest.fixture
def dedup(plugin_folder: Path) -> Any:
    return loading.load_module(loading.find("variants")["dedup"])


def stored(name: str, array: np.ndarray) -> onnx.TensorProto:
    return numpy_helper.from_array(array, name)


def constant(name: str, array: np.ndarray) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))


def value(name: str, dtype: int = F) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, None)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    weights: Sequence[onnx.TensorProto],
    outputs: Sequence[onnx.ValueInfoProto] = (value("y"),),
    inputs: Sequence[onnx.ValueInfoProto] = (value("x"),),
    ir_version: int = 10,
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "graph", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=ir_version)


def run(model: onnx.ModelProto, **feeds: np.ndarray) -> list[np.ndarray]:
    """Outputs of ONNX Runtime without its own optimizations."""
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def merged(dedup: Any, model: onnx.ModelProto, **feeds: np.ndarray) -> tuple[onnx.ModelProto, dict[str, str]]:
    """The model without its duplicates, seen to give the same outputs, and what stands for what."""
    after = onnx.ModelProto.FromString(model.SerializeToString())
    renamed = dedup.merge_equal(after.graph)
    expected, actual = run(model, **feeds), run(after, **feeds)
    for before, now in zip(expected, actual, strict=True):
        np.testing.assert_array_equal(now, before)
    assert [output.name for output in after.graph.output] == [output.name for output in model.graph.output]
    return after, renamed


def names(graph: onnx.GraphProto) -> list[str]:
    return [tensor.name for tensor in graph.initializer]


ROW = np.linspace(-1, 1, 4, dtype=np.float32)
X = np.arange(4, dtype=np.float32)


def test_first_stands_for_all(dedup: Any) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "third"], ["a"]),
        helper.make_node("Add", ["a", "first"], ["b"]),
        helper.make_node("Mul", ["b", "second"], ["c"]),
        helper.make_node("Add", ["c", "other"], ["y"]),
    ]
    weights = [stored(name, ROW) for name in ("first", "second", "third")] + [stored("other", ROW + 1)]
    after, renamed = merged(dedup, model_of(nodes, weights), x=X)
    assert names(after.graph) == ["first", "other"]
    assert renamed == {"second": "first", "third": "first"}
    assert [node.input[1] for node in after.graph.node] == ["first", "first", "first", "other"]
    assert dedup.merge_equal(after.graph) == {}


def test_how_a_tensor_is_stored_does_not_matter(dedup: Any) -> None:
    as_floats = helper.make_tensor("b", F, [4], ROW.tolist())
    assert not as_floats.raw_data
    nodes = [helper.make_node("Mul", ["x", "a"], ["z"]), helper.make_node("Add", ["z", "b"], ["y"])]
    assert merged(dedup, model_of(nodes, [stored("a", ROW), as_floats]), x=X)[1] == {"b": "a"}


def test_same_bytes_of_another_type_or_shape_differ(dedup: Any) -> None:
    weights = [
        stored("floats", np.zeros(4, np.float32)),
        stored("column", np.zeros((4, 1), np.float32)),
        stored("row", np.zeros((1, 4), np.float32)),
        stored("integers", np.zeros(4, np.int32)),
        stored("negative", np.array([0, 0, 0, -0.0], np.float32)),
    ]
    nodes = [
        helper.make_node("Cast", ["integers"], ["cast"], to=F),
        helper.make_node("Sum", ["x", "floats", "column", "row", "negative", "cast"], ["y"]),
    ]
    assert merged(dedup, model_of(nodes, weights), x=X)[1] == {}


def test_empty_tensors(dedup: Any) -> None:
    weights = [
        stored("a", np.zeros((0, 2), np.float32)),
        stored("b", np.zeros((0, 2), np.float32)),
        stored("c", np.zeros((0, 3), np.float32)),
        stored("d", np.zeros((0, 2), np.int64)),
    ]
    nodes = [
        helper.make_node("Cast", ["d"], ["cast"], to=F),
        helper.make_node("Concat", ["a", "b", "cast"], ["joined"], axis=0),
        helper.make_node("Size", ["c"], ["size"]),
        helper.make_node("Cast", ["size"], ["number"], to=F),
        helper.make_node("ReduceSum", ["joined"], ["sum"], keepdims=0),
        helper.make_node("Sum", ["x", "number", "sum"], ["y"]),
    ]
    assert merged(dedup, model_of(nodes, weights), x=X)[1] == {"b": "a"}


def test_strings_and_half_precision(dedup: Any) -> None:
    halves = [stored(name, ROW.astype(np.float16)) for name in ("h1", "h2")]
    texts = [helper.make_tensor(name, TensorProto.STRING, [2], [b"one", b"two"]) for name in ("s1", "s2")]
    nodes = [
        helper.make_node("Mul", ["h1", "h2"], ["half"]),
        helper.make_node("Cast", ["half"], ["product"], to=F),
        helper.make_node("Add", ["x", "product"], ["y"]),
        helper.make_node("Concat", ["s1", "s2"], ["texts"], axis=0),
    ]
    outputs = [value("y"), value("texts", TensorProto.STRING)]
    assert merged(dedup, model_of(nodes, halves + texts, outputs), x=X)[1] == {"h2": "h1", "s2": "s1"}


def if_else(then: onnx.GraphProto, other: onnx.GraphProto) -> list[onnx.NodeProto]:
    return [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Less", ["sum", "limit"], ["flag"]),
        helper.make_node("If", ["flag"], ["y"], then_branch=then, else_branch=other),
    ]


def branch(name: str, nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto]) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, [], [value(nodes[-1].output[0])], weights)


LIMIT = stored("limit", np.array(0, np.float32))


@pytest.mark.parametrize("sign", [-1, 1])
def test_subgraphs_read_what_is_left(dedup: Any, sign: int) -> None:
    """A use inside is rewired; a copy inside gives way to the one around it; two branches do not see each other."""
    inner = stored("inner", ROW)
    then = branch("then", [helper.make_node("Mul", ["x", "outer2"], ["t"])], [])
    other = branch(
        "else",
        [helper.make_node("Add", ["x", "inner"], ["e1"]), helper.make_node("Add", ["e1", "own"], ["e"])],
        [inner, stored("own", ROW + 5)],
    )
    weights = [stored("outer", ROW), stored("outer2", ROW), LIMIT]
    after, renamed = merged(dedup, model_of(if_else(then, other), weights), x=sign * X)
    assert renamed == {"outer2": "outer", "inner": "outer"}
    branches = {attribute.name: attribute.g for attribute in after.graph.node[2].attribute}
    then, other = branches["then_branch"], branches["else_branch"]
    assert then.node[0].input[1] == other.node[0].input[1] == "outer"
    assert names(other) == ["own"]


@pytest.mark.parametrize("sign", [-1, 1])
def test_branches_with_the_same_weight_both_keep_it(dedup: Any, sign: int) -> None:
    then = branch("then", [helper.make_node("Mul", ["x", "w1"], ["t"])], [stored("w1", ROW)])
    other = branch("else", [helper.make_node("Add", ["x", "w2"], ["e"])], [stored("w2", ROW)])
    assert merged(dedup, model_of(if_else(then, other), [LIMIT]), x=sign * X)[1] == {}


@pytest.mark.parametrize("sign", [-1, 1])
def test_name_that_two_branches_use_is_left_alone(dedup: Any, sign: int) -> None:
    then = branch("then", [helper.make_node("Mul", ["x", "w"], ["t"])], [stored("w", ROW)])
    other = branch("else", [helper.make_node("Add", ["x", "w"], ["e"])], [stored("w", ROW + 1)])
    weights = [stored("outer", ROW), LIMIT]
    assert merged(dedup, model_of(if_else(then, other), weights), x=sign * X)[1] == {}


def test_outputs_keep_their_names(dedup: Any) -> None:
    """An output can stand for others, but is never removed."""
    nodes = [helper.make_node("Mul", ["x", "w"], ["z"]), helper.make_node("Add", ["z", "later"], ["y"])]
    weights = [stored("w", ROW), stored("out", ROW), stored("later", ROW + 1), stored("first_out", ROW + 1)]
    outputs = [value("y"), value("out"), value("first_out")]
    after, renamed = merged(dedup, model_of(nodes, weights, outputs), x=X)
    assert (names(after.graph), renamed) == (["w", "out", "later", "first_out"], {})

    weights = [stored("out", ROW), stored("w", ROW), stored("later", ROW + 1)]
    after, renamed = merged(dedup, model_of(nodes, weights, [value("y"), value("out")]), x=X)
    assert (names(after.graph), renamed) == (["out", "later"], {"w": "out"})


def test_default_of_an_input_is_no_constant(dedup: Any) -> None:
    """Another value can be fed for it, so it stands for nothing and nothing stands for it."""
    nodes = [helper.make_node("Mul", ["x", "default"], ["z"]), helper.make_node("Add", ["z", "w"], ["y"])]
    model = model_of(nodes, [stored("default", ROW), stored("w", ROW)], inputs=[value("x"), value("default")])
    assert merged(dedup, model, x=X)[1] == {}
    assert merged(dedup, model, x=X, default=ROW * 3)[1] == {}


def test_constant_nodes_are_weights_too(dedup: Any) -> None:
    nodes = [
        constant("c1", ROW),
        helper.make_node("Mul", ["x", "c1"], ["a"]),
        constant("c2", ROW + 1),
        helper.make_node("Add", ["a", "c2"], ["b"]),
        constant("c3", ROW + 1),
        helper.make_node("Add", ["b", "c3"], ["y"]),
    ]
    after, renamed = merged(dedup, model_of(nodes, [stored("w", ROW)]), x=X)
    assert renamed == {"c1": "w", "c3": "c2"}
    assert [node.op_type for node in after.graph.node] == ["Mul", "Constant", "Add", "Add"]


@pytest.mark.parametrize("sign", [-1, 1])
def test_constant_made_after_a_subgraph_is_not_read_in_it(dedup: Any, sign: int) -> None:
    then = branch("then", [constant("c1", ROW), helper.make_node("Mul", ["x", "c1"], ["t"])], [])
    other = branch("else", [constant("c2", ROW), helper.make_node("Add", ["x", "c2"], ["e"])], [])
    nodes = [*if_else(then, other)[:2], constant("c0", ROW + 1)]
    nodes.append(helper.make_node("If", ["flag"], ["z"], then_branch=then, else_branch=other))
    nodes += [
        constant("c3", ROW),
        helper.make_node("Add", ["z", "c3"], ["s"]),
        helper.make_node("Add", ["s", "c0"], ["y"]),
    ]
    assert merged(dedup, model_of(nodes, [LIMIT]), x=sign * X)[1] == {}


def test_functions_have_names_of_their_own(dedup: Any) -> None:
    body = [constant("w2", ROW + 7), helper.make_node("Add", ["a", "w2"], ["c"])]
    opset = [helper.make_opsetid("", 18)]
    function = helper.make_function("local", "Shift", ["a"], ["c"], body, opset)
    nodes = [
        helper.make_node("Mul", ["x", "w2"], ["z"]),
        helper.make_node("Add", ["z", "w"], ["s"]),
        helper.make_node("Shift", ["s"], ["y"], domain="local"),
    ]
    graph = helper.make_graph(nodes, "graph", [value("x")], [value("y")], [stored("w", ROW), stored("w2", ROW)])
    opsets = [*opset, helper.make_opsetid("local", 1)]
    model = helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=10)
    after, renamed = merged(dedup, model, x=X)
    assert renamed == {"w2": "w"}
    assert after.functions[0].node[1].input[1] == "w2"


def test_file_shrinks_by_what_was_stored_twice(dedup: Any, tmp_path: Path) -> None:
    weights = [stored(f"w{number}", np.ones((64, 64), np.float32)) for number in range(8)]
    chain = ["x", *(f"h{number}" for number in range(1, 8)), "y"]
    nodes = [helper.make_node("MatMul", [chain[at], f"w{at}"], [chain[at + 1]]) for at in range(8)]
    shape = ["batch", 64]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", F, shape)],
        [helper.make_tensor_value_info("y", F, shape)],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, tmp_path / "before.onnx")

    task = SimpleNamespace(
        inputs=(TensorSpec(name="x", dtype="float32", shape=("batch", 64)),),
        outputs=(TensorSpec(name="y", dtype="float32", shape=("batch", 64)),),
    )
    info = steps.transform(catalog.variant("dedup"), task, tmp_path / "before.onnx", tmp_path / "after.onnx")
    assert info == {"num_removed": 7}
    before, after = ((tmp_path / name).stat().st_size for name in ("before.onnx", "after.onnx"))
    assert before - after >= 7 * 64 * 64 * 4
