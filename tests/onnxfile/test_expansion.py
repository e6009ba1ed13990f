"""Tests that a file which becomes huge is counted, and refused with the figures, before any of it is made."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnx
import onnx.inliner
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api.errors import InputError
from bench.onnxfile import requests
from bench.onnxfile.file import lazy
from bench.onnxfile.file.expansion import MOST_CALLS, check_expansion, expansion
from bench.onnxfile.shapes.engine import ShapeEngine
from support.shape_inference import graph_model

IMPORTS = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
NOTHING_GIVEN = {"shapes": {}, "dims": {}, "observe": False, "inputs": None}


def model_of(functions: list[onnx.FunctionProto], called: str) -> onnx.ModelProto:
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(called, ["x"], ["y"], domain="own")], "g", value[:1], value[1:])
    return helper.make_model(graph, functions=functions, opset_imports=IMPORTS, ir_version=10)


def function(name: str, nodes: list[onnx.NodeProto], attributes: tuple[str, ...] = ()) -> onnx.FunctionProto:
    return helper.make_function("own", name, ["a"], ["b"], nodes, IMPORTS, attributes)


def doubling(levels: int) -> onnx.ModelProto:
    """Each function calls the one before it twice."""
    functions = [function("f0", [helper.make_node("Relu", ["a"], ["b"])])]
    for level in range(1, levels + 1):
        calls = [helper.make_node(f"f{level - 1}", [one], [other], domain="own") for one, other in ("ac", "cb")]
        functions.append(function(f"f{level}", calls))
    return model_of(functions[::-1], f"f{levels}")


def branches(nodes: list[onnx.NodeProto], output: str = "b") -> onnx.NodeProto:
    result = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "branch", [], result)
    return helper.make_node("If", ["c"], ["r"], then_branch=graph, else_branch=graph)


def test_nodes_after_inlining_are_counted_exactly() -> None:
    model = doubling(5)

    assert expansion(model).nodes == len(onnx.inliner.inline_local_functions(model).graph.node) == 32
    assert expansion(model).calls == 6


@pytest.mark.parametrize("request_", ["profile", "picture", "diff", "fold", "extract", "split", "memory", "text"])
def test_nested_functions_are_refused_with_their_count_before_they_are_inlined(tmp_path: Path, request_: str) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(doubling(40), path)
    target = str(tmp_path / "made.onnx")
    arguments = {
        "diff": {"other": str(path)},
        "fold": {"target": target, "shapes": {}, "dims": {}, "free": []},
        "extract": {"target": target, "inputs": [], "outputs": []},
        "split": {"folder": target, "num_parts": 2, **NOTHING_GIVEN},
        "text": {},
    }
    begin = time.process_time()

    with pytest.raises(InputError, match=r"41 functions inlined, it has about 1\.1e\+12 nodes; 1,000,000 are read"):
        getattr(requests, request_)(path=str(path), **arguments.get(request_, NOTHING_GIVEN))
    assert time.process_time() - begin < 5


def test_a_function_that_calls_itself_is_refused() -> None:
    calls = {"one": "two", "two": "three", "three": "two"}
    functions = [function(name, [helper.make_node(to, ["a"], ["b"], domain="own")]) for name, to in calls.items()]

    with pytest.raises(InputError, match="its function 'two' calls itself: 'two' -> 'three' -> 'two'"):
        check_expansion(model_of(functions, "one"))


def test_calls_that_lie_deep_in_one_another_are_refused() -> None:
    def chain(levels: int) -> onnx.ModelProto:
        nodes = [[helper.make_node(f"f{level - 1}", ["a"], ["b"], domain="own")] for level in range(1, levels)]
        relu = [helper.make_node("Relu", ["a"], ["b"])]
        return model_of([function(f"f{level}", node) for level, node in enumerate([relu, *nodes])], f"f{levels - 1}")

    check_expansion(chain(MOST_CALLS))
    with pytest.raises(InputError, match="its functions call each other 5,000 deep; 100 levels are read"):
        check_expansion(chain(5_000))


def test_graphs_that_functions_nest_are_refused() -> None:
    functions = [function("f0", [helper.make_node("Relu", ["a"], ["b"])])]
    for level in range(1, 40):
        call = helper.make_node(f"f{level - 1}", ["a"], ["b"], domain="own")
        inner = helper.make_graph([call], "body", [], [helper.make_tensor_value_info("b", TensorProto.FLOAT, None)])
        functions.append(function(f"f{level}", [helper.make_node("Loop", ["n", "", "a"], ["b"], body=inner)]))

    with pytest.raises(InputError, match="it has graphs 39 deep within one another; 32 levels are read"):
        check_expansion(model_of(functions, "f39"))


def test_an_attribute_that_a_body_repeats_is_counted_as_often() -> None:
    repeats = [helper.make_node("Constant", [], [f"c{number}"]) for number in range(1000)]
    for node in repeats:
        attribute = node.attribute.add(name="value", ref_attr_name="v", type=onnx.AttributeProto.TENSOR)
        assert attribute.ref_attr_name
    model = model_of([function("f", [*repeats, helper.make_node("Relu", ["a"], ["b"])], ("v",))], "f")
    tensor = numpy_helper.from_array(np.zeros(10**6, np.uint8))
    model.graph.node[0].attribute.append(helper.make_attribute("v", tensor))

    assert 1e9 < expansion(model).bytes < 1.1e9
    model.graph.node.extend([model.graph.node[0]] * 2)
    with pytest.raises(InputError, match=r"bytes; protobuf reads 2,147,483,647"):
        check_expansion(model)


def test_loops_within_loops_are_refused_by_the_passes_that_they_need() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["b"])]
    for _ in range(12):
        body = helper.make_graph(nodes, "body", [], [helper.make_tensor_value_info("b", TensorProto.FLOAT, None)])
        nodes = [helper.make_node("Loop", ["n", "", "x"], ["b"], body=body)]

    with pytest.raises(InputError, match=r"up to 4 passes for each level: 22,369,621 nodes to go through"):
        check_expansion(graph_model(nodes, {"x": [1], "n": []}, "b"))


def test_messages_that_protobuf_would_not_read_are_refused(tmp_path: Path) -> None:
    content = b"x" * 5000
    for _ in range(2000):  # each level adds a field with a subgraph: attribute 5, its graph 6, node 1
        for number in (6, 5, 1):
            content = bytes([number << 3 | 2]) + varint(len(content)) + content
    (tmp_path / "m.onnx").write_bytes(b"\x3a" + varint(len(content)) + content)

    with pytest.raises(InputError, match="its messages lie more than 100 deep within one another"):
        lazy.read(tmp_path / "m.onnx")


def varint(number: int) -> bytes:
    digits = []
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])


@pytest.mark.parametrize(
    ("operator", "given", "told"),
    [
        ("Expand", [1 << 40] * 2, "(1099511627776, 1099511627776), 1,208,925,819,614,629,174,706,176 elements"),
        ("ConstantOfShape", [1 << 60], "(1152921504606846976), 1,152,921,504,606,846,976 elements"),
        ("Tile", [1 << 50], "(4503599627370496), 4,503,599,627,370,496 elements; 140,737,488,355,328 is the limit"),
        ("Pad", [-5, 0], "(-1); no size is negative"),
    ],
)
def test_a_tensor_that_cannot_be_is_refused_by_its_node(operator: str, given: list[int], told: str) -> None:
    inputs = ["s"] if operator == "ConstantOfShape" else ["x", "s"]
    node = helper.make_node(operator, inputs, ["y"], name="grows")
    model = graph_model([node], {"x": [1 if operator == "Expand" else 4]}, "y", s=np.array(given))

    with pytest.raises(InputError) as refused:
        ShapeEngine.of_model(model)
    assert f"node 'grows' ({operator}) makes 'y', which has the shape {told}" in str(refused.value)


def test_numbers_and_expressions_that_grow_with_each_node_are_given_up() -> None:
    squares = [helper.make_node("Mul", [f"s{at}", f"s{at}"], [f"s{at + 1}"]) for at in range(60)]
    powers = [helper.make_node("Pow", ["s0", "huge"], ["p"])]
    stored = {"s0": np.array([3]), "huge": np.array([1 << 62])}
    sums = [helper.make_node("Shape", ["x"], ["e0"])]
    for at in range(60):  # (a + 1) * (a + 1) and so on: 2**60 factors if they were written out
        sums += [
            helper.make_node("Add", [f"e{at}", "s0"], [f"a{at}"]),
            helper.make_node("Mul", [f"a{at}", f"a{at}"], [f"e{at + 1}"]),
        ]
    begin = time.process_time()

    engine = ShapeEngine.of_model(
        graph_model([*squares, *powers, *sums], {"x": ["N", "M"]}, "s60", "p", "e60", **stored)
    )

    assert engine.expressions["e60"] == (2,)
    assert time.process_time() - begin < 5


def test_operations_on_sizes_that_lie_too_deep_in_one_another_are_given_up() -> None:
    nodes = [helper.make_node("Shape", ["x"], ["e0"])]
    for at in range(400):
        nodes += [
            helper.make_node("Mod", [f"e{at}", "seven"], [f"a{at}"]),
            helper.make_node("Mul", [f"a{at}", "seven"], [f"b{at}"]),
            helper.make_node("Add", [f"b{at}", "one"], [f"e{at + 1}"]),
        ]
    nodes.append(helper.make_node("ConstantOfShape", ["e400"], ["y"]))
    model = graph_model(nodes, {"x": ["N"]}, "y", seven=np.array([7]), one=np.array([1]))

    (size,) = ShapeEngine.of_model(model).expressions["y"]
    assert str(size) == "y[0]", "a size of its own, that nothing says more about"


def test_values_of_many_subgraphs_are_not_copied_into_each() -> None:
    nodes = [helper.make_node("Relu", ["x" if not at else f"v{at - 1}"], [f"v{at}"]) for at in range(3000)]
    for at in range(1000):
        node = branches([helper.make_node("Relu", [f"v{at}"], ["b"])])
        node.output[0] = f"r{at}"
        nodes.append(node)
    begin = time.process_time()

    engine = ShapeEngine.of_model(graph_model(nodes, {"x": [4], "c": []}, "r999"))

    assert engine.expressions["r999"] == (4,)
    assert sum(name.endswith(":b") for name in engine.expressions) == 2000
    assert time.process_time() - begin < 10
