"""Tests that a damaged ONNX file is refused by a sentence that names the node, the tensor or the field."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api.errors import BenchError, InputError
from bench.onnxfile import requests
from bench.onnxfile.file import lazy
from bench.onnxfile.file.valid import check_model

NOTHING_GIVEN = {"shapes": {}, "dims": {}, "observe": False, "inputs": None}


def good() -> onnx.ModelProto:
    """Operators of many kinds, with a branch, a loop's attribute types and a function."""
    branch = helper.make_graph(
        [helper.make_node("Relu", ["r"], ["b"])], "branch", [], [helper.make_tensor_value_info("b", 1, None)]
    )
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Constant", [], ["s"], name="sizes", value=numpy_helper.from_array(np.array([1, -1]))),
        helper.make_node("Reshape", ["c", "s"], ["r"], name="flat"),
        helper.make_node("If", ["t"], ["i"], name="branch", then_branch=branch, else_branch=branch),
        helper.make_node("own", ["i"], ["o"], name="call", domain="own", alpha=0.5),
        helper.make_node("Gemm", ["o", "m"], ["y"], name="gemm", transB=1),
    ]
    body = helper.make_node("LeakyRelu", ["a"], ["b"])
    body.attribute.add(name="alpha", ref_attr_name="alpha", type=onnx.AttributeProto.FLOAT)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    function = helper.make_function("own", "own", ["a"], ["b"], [body], imports, ["alpha"])
    weights = {"w": np.ones((2, 3, 3, 3), np.float32), "m": np.ones((5, 32), np.float32), "t": np.array(True)}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, [1, 3, 4, 4])],
        [helper.make_tensor_value_info("y", 1, [1, 5])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(
        graph, functions=[function], opset_imports=imports, ir_version=10, producer_name="made-here"
    )


def saved(tmp_path: Path, model: onnx.ModelProto) -> Path:
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def changed(change: Callable[[onnx.ModelProto], object]) -> onnx.ModelProto:
    model = good()
    change(model)
    return model


def test_a_good_file_is_read_and_profiled(tmp_path: Path) -> None:
    check_model(good())
    assert requests.profile(path=str(saved(tmp_path, good())), **NOTHING_GIVEN)["num_params"] == 2 * 27 + 5 * 32


CASES: dict[str, tuple[Callable[[onnx.ModelProto], object], str]] = {
    "too few data": (
        lambda model: setattr(model.graph.initializer[0], "raw_data", b"1234"),
        "weight 'w' is float32 of shape [2, 3, 3, 3], 216 bytes of raw_data; it has 4",
    ),
    "huge sizes": (
        lambda model: model.graph.initializer[0].dims.extend([1 << 30, 1 << 30]),
        f"weight 'w' has the shape (2, 3, 3, 3, {1 << 30}, {1 << 30}), {54 << 60:,} elements",
    ),
    "negative size": (
        lambda model: model.graph.initializer[0].dims.append(-1),
        "weight 'w' has the shape (2, 3, 3, 3, -1)",
    ),
    "unknown type": (
        lambda model: setattr(model.graph.initializer[0], "data_type", 99),
        "weight 'w' has the element type 99, which ONNX does not have",
    ),
    "other data": (
        lambda model: model.graph.initializer[0].int64_data.append(1),
        "weight 'w' is float32, whose elements are in the field raw_data, but has int64_data",
    ),
    "many axes": (
        lambda model: model.graph.initializer[0].dims.extend([1] * 10**6),
        "weight 'w' has 1,000,004 axes; 64",
    ),
    "nameless weight": (
        lambda model: model.graph.initializer[0].ClearField("name"),
        "a weight of the graph has no name",
    ),
    "no operator": (lambda model: model.graph.node[0].ClearField("op_type"), "node 'conv' has no operator"),
    "made twice": (
        lambda model: model.graph.node[2].output.append("c"),
        "node 'flat' (Reshape) makes 'c', which is made before",
    ),
    "input made": (
        lambda model: model.graph.node[2].output.append("x"),
        "node 'flat' (Reshape) makes 'x', which is made",
    ),
    "nothing makes": (
        lambda model: model.graph.node[2].input.append("z"),
        "node 'flat' (Reshape) reads 'z', which nothing makes",
    ),
    "order": (
        lambda model: model.graph.node[0].input.append("r"),
        "its graph has a cycle: node 'conv' (Conv) reads 'r', which depends on an output of that node",
    ),
    "in a branch": (
        lambda model: model.graph.node[3].attribute[0].g.node[0].input.append("q"),
        "node 0 (Relu) reads 'q', which nothing makes",
    ),
    "output": (lambda model: model.graph.output.add(name="q"), "its output 'q' is made by no node"),
    "input twice": (
        lambda model: model.graph.input.append(model.graph.input[0]),
        "an input of the graph, 'x', stands there twice",
    ),
    "attribute twice": (
        lambda model: model.graph.node[0].attribute.append(model.graph.node[0].attribute[0]),
        "attribute 'pads' of node 'conv' (Conv) stands there twice",
    ),
    "attribute of another type": (
        lambda model: setattr(model.graph.node[0].attribute[0], "type", 2),
        "attribute 'pads' of node 'conv' (Conv) is of type INT, which is in the field 'i', but has 'ints'",
    ),
    "no value": (
        lambda model: model.graph.node[1].attribute[0].ClearField("t"),
        "attribute 'value' of node 'sizes' (Constant) has no value: the field 't' is missing",
    ),
    "nameless attribute": (
        lambda model: model.graph.node[0].attribute[0].ClearField("name"),
        "an attribute of node 'conv' (Conv) has no name",
    ),
    "reference": (
        lambda model: model.graph.node[4].attribute.add(name="beta", ref_attr_name="b", type=1),
        "attribute 'beta' of node 'call' (own) refers to an attribute of a function, and stands in none",
    ),
    "in a function": (
        lambda model: model.functions[0].node[0].input.append("q"),
        "node 0 (LeakyRelu) reads 'q', which nothing makes",
    ),
    "function twice": (
        lambda model: model.functions.append(model.functions[0]),
        "function 'own' of the domain 'own' stands there twice: a call could mean either",
    ),
    "version": (
        lambda model: setattr(model.opset_import[0], "version", 1 << 32),
        "the model uses version 4294967296 of the operator set 'ai.onnx', which cannot exist",
    ),
    "type of an input": (
        lambda model: model.graph.input[0].type.tensor_type.ClearField("elem_type"),
        "input 'x' of the graph has the element type 0",
    ),
    "axes of an input": (
        lambda model: [model.graph.input[0].type.tensor_type.shape.dim.add(dim_value=1 << 50) for _ in range(2)],
        f"input 'x' of the graph has the shape (1, 3, 4, 4, {1 << 50}, {1 << 50})",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_damage_is_named(tmp_path: Path, case: str) -> None:
    change, told = CASES[case]

    with pytest.raises(InputError, match=re.escape(told)):
        lazy.read(saved(tmp_path, changed(change)))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("made-here", "the producer_name of the model is b'\\xffade-here', which is no UTF-8"),
        ("pads", "the name of an attribute of node 'conv' (Conv) is b'\\xffads', which is no UTF-8"),
        ("flat", "the name of node 2 is b'\\xfflat'"),
        ("Reshape", "the operator of node 2 is b'\\xffeshape'"),
        ("branch", "the name of node 3 is b'\\xffranch'"),
    ],
)
def test_text_that_is_no_utf_8_is_named(tmp_path: Path, text: str, told: str) -> None:
    path = saved(tmp_path, good())
    path.write_bytes(path.read_bytes().replace(text.encode(), b"\xff" + text[1:].encode()))

    with pytest.raises(InputError, match=re.escape(told)):
        lazy.read(path)


def test_an_attribute_without_a_type_has_that_of_its_field(tmp_path: Path) -> None:
    model = changed(lambda model: model.graph.node[0].attribute[0].ClearField("type"))
    assert lazy.read(saved(tmp_path, model)).model.graph.node[0].attribute[0].type == onnx.AttributeProto.INTS


def test_a_million_inputs_are_checked_in_linear_time(tmp_path: Path) -> None:
    number = 200_000
    model = changed(lambda model: model.graph.node.add(op_type="Sum", input=["x"] * number, output=["sum"]))
    for at in range(number):
        model.graph.input.add(name=f"in{at}").type.tensor_type.elem_type = TensorProto.FLOAT
    path = saved(tmp_path, model)
    begin = time.process_time()

    assert len(lazy.read(path).model.graph.input) == number + 1
    assert time.process_time() - begin < 10


def test_no_mutation_ends_in_an_exception_of_python(tmp_path: Path) -> None:
    """Bytes that are changed, left out or repeated."""
    content, generator = good().SerializeToString(), random.Random(14)
    path, target, refused = tmp_path / "m.onnx", str(tmp_path / "made.onnx"), 0
    other = str(saved(tmp_path, good()).rename(tmp_path / "other.onnx"))
    for _ in range(100):
        at, length = generator.randrange(len(content)), generator.randrange(1, 5)
        new = generator.choice([generator.randbytes(length), b"", content[at : at + length] * 2, b"\xff\x01"])
        path.write_bytes(content[:at] + new + content[at + length :])
        try:
            requests.picture(path=str(path), **NOTHING_GIVEN)
            requests.memory(path=str(path), **NOTHING_GIVEN)
            requests.weights(path=str(path))
            requests.text(path=str(path))
            requests.diff(path=str(path), other=other)
            requests.fold(path=str(path), target=target, shapes={}, dims={}, free=[])
            requests.extract(path=str(path), target=target, inputs=[], outputs=[])
        except BenchError:
            refused += 1
    assert 25 < refused < 100


def test_the_text_of_a_file_with_a_damaged_string_is_refused(tmp_path: Path) -> None:
    padded = helper.make_attribute("auto_pad", b"\xffOTSET")
    path = saved(tmp_path, changed(lambda model: model.graph.node[0].attribute.append(padded)))

    with pytest.raises(InputError, match=r"its text b.*OTSET.* is no UTF-8"):
        requests.text(path=str(path))
