"""What onnx refuses is a sentence about the file, and no exception of onnx."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api.errors import InputError
from bench.onnxfile import requests
from bench.onnxfile.file.digest import inferred
from bench.onnxfile.file.normalized import settle
from bench.onnxfile.file.refusals import as_input_errors
from bench.onnxfile.file.stale import drop_stale
from bench.onnxfile.file.wiring import constant_of

NOTHING_GIVEN = {"shapes": {}, "dims": {}, "observe": False, "inputs": None}
IMPORTS = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]


def model(nodes: list[onnx.NodeProto], body: list[onnx.NodeProto]) -> onnx.ModelProto:
    """A model with `own.f`, a function of an input `p` and an attribute `k`; its nodes make `y` of `x`."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["a b", 8]) for name in "xy")
    function = helper.make_function("own", "f", ["p"], ["r"], body, IMPORTS, ["k"])
    graph = helper.make_graph(nodes, "g", [x], [y])
    return helper.make_model(graph, functions=[function], opset_imports=IMPORTS, ir_version=8)


def test_a_call_with_more_inputs_than_its_function_is_refused() -> None:
    made = model([helper.make_node("f", ["x", "x"], ["y"], domain="own")], [helper.make_node("Relu", ["p"], ["r"])])
    with pytest.raises(InputError, match=r"^onnx cannot write out the functions .*: .*actual parameters"):
        settle(made)


@pytest.mark.parametrize(
    "error",
    [
        onnx.checker.ValidationError,
        onnx.shape_inference.InferenceError,
        RuntimeError,
        ValueError,
        TypeError,
        IndexError,
    ],
)
def test_what_onnx_raises_is_one_printable_line(error: type[Exception]) -> None:
    with pytest.raises(InputError, match=r"^onnx cannot work: two lines \\x1b$"), as_input_errors("work"):
        raise error("two\n  lines \x1b")


def test_a_refusal_of_ours_passes_unchanged() -> None:
    with pytest.raises(InputError, match=r"^ours$"), as_input_errors("work"):
        raise InputError("ours")


def loop_without_body() -> onnx.ModelProto:
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])
    graph = helper.make_graph([helper.make_node("Loop", [], ["y"])], "g", [], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)


def test_a_model_whose_shapes_onnx_cannot_infer_is_refused() -> None:
    with pytest.raises(InputError, match=r"^onnx cannot infer the shapes of the model: "):
        inferred(loop_without_body())


def test_statements_are_dropped_where_onnx_cannot_infer() -> None:
    made = loop_without_body()
    assert drop_stale(made) == "all 1 shapes that it states besides those of its inputs were dropped"
    assert not made.graph.output[0].type.tensor_type.HasField("shape")


def test_a_constant_that_a_call_gives_a_value_of_another_type_is_refused(tmp_path: Path) -> None:
    constant = helper.make_node("Constant", [], ["c"], name="number")
    constant.attribute.add(name="value_int", ref_attr_name="k", type=onnx.AttributeProto.FLOAT)
    call = helper.make_node("f", ["x"], ["y"], domain="own", k=2.5)
    path = tmp_path / "m.onnx"
    onnx.save(model([call], [constant, helper.make_node("Mul", ["p", "c"], ["r"])]), path)
    with pytest.raises(InputError, match=r"^attribute 'value_int' of node '.*' \(Constant\) is of type FLOAT; a Const"):
        requests.profile(path=str(path), **NOTHING_GIVEN)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("value_float", 2.5, np.float32(2.5)),
        ("value_floats", [2.5, 1.0], np.array([2.5, 1], np.float32)),
        ("value_int", -3, np.int64(-3)),
        ("value_ints", [1, 2], np.array([1, 2])),
        ("value_string", "a", np.array(b"a", object)),
        ("value_strings", ["a", "b"], np.array([b"a", b"b"], object)),
    ],
)
def test_every_attribute_of_a_constant_is_read(name: str, value: object, expected: np.ndarray) -> None:
    tensor = constant_of(helper.make_node("Constant", [], ["c"], **{name: value}))
    assert isinstance(tensor, onnx.TensorProto)
    array = numpy_helper.to_array(tensor)
    assert array.dtype == expected.dtype
    assert array.shape == expected.shape
    assert [str(one) for one in array.ravel()] == [
        one.decode() if isinstance(one, bytes) else str(one) for one in expected.ravel()
    ]


def test_a_dimension_with_blanks_in_its_name_is_fitted_and_given_by_its_name(tmp_path: Path) -> None:
    """The product needs 5 columns, which is not the size that is guessed first."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["{{ 7 * 7 }}", "b c"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    weight = numpy_helper.from_array(np.ones((5, 2), np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [weight])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    found = requests.profile(path=str(path), **NOTHING_GIVEN | {"dims": {"{{ 7 * 7 }}": 3}})
    assert [found["tensors"][name]["shape"] for name in "xy"] == [(3, 5), (3, 2)]


def test_a_node_that_makes_nothing_is_profiled(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.INT64, [])
    graph = helper.make_graph([helper.make_node("Reshape", ["x"], [])], "g", [x], [])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    assert requests.profile(path=str(path), **NOTHING_GIVEN)["tensors"]["x"]["shape"] == ()


@pytest.mark.parametrize(
    ("domain", "version", "name", "attributes"),
    [
        ("", 22, "EyeLike", {"dtype": 1}),
        ("", 20, "RegexFullMatch", {"pattern": "a"}),
        ("ai.onnx.ml", 1, "DictVectorizer", {"string_vocabulary": ["a"]}),
        ("ai.onnx.ml", 1, "LabelEncoder", {"classes_strings": ["a"]}),
        ("ai.onnx.ml", 2, "LabelEncoder", {"keys_strings": ["a"], "values_int64s": [1]}),
        ("ai.onnx.ml", 4, "LabelEncoder", {"keys_int64s": [1], "values_floats": [1.0]}),
        ("ai.onnx.ml", 5, "TreeEnsemble", {"aggregate_function": 1, "n_targets": 1, "post_transform": 0}),
    ],
)
def test_operators_that_crash_onnx_without_the_type_of_an_input_are_left_out(
    domain: str, version: int, name: str, attributes: dict[str, Any]
) -> None:
    """In this process, which a crash would end."""
    node = helper.make_node(name, ["x"], ["y"], domain=domain, **attributes)
    opsets = [helper.make_opsetid(domain, version), *([helper.make_opsetid("", 20)] if domain else [])]
    graph = helper.make_graph([node], "g", [onnx.ValueInfoProto(name="x")], [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    assert not inferred(model).output[0].type.tensor_type.HasField("shape")


@pytest.mark.parametrize(
    ("name", "attribute", "value"),
    [("GatherND", "batch_dims", -(2**31)), ("GatherND", "batch_dims", -1), ("Split", "num_outputs", 2**31 - 1)],
)
def test_operators_that_hurt_onnx_by_a_number_are_left_out(name: str, attribute: str, value: int) -> None:
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 4]),
        helper.make_tensor_value_info("i", TensorProto.INT64, [2]),
    ]
    node = helper.make_node(name, ["x", "i"] if name == "GatherND" else ["x"], ["y"], **{attribute: value})
    relu = helper.make_node("Relu", ["x"], ["z"])
    outputs = [onnx.ValueInfoProto(name=each) for each in ("y", "z")]
    graph = helper.make_graph([node, relu], "g", inputs, outputs)
    found = inferred(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))
    assert [len(output.type.tensor_type.shape.dim) for output in found.output] == [0, 2], "the others are inferred"


def test_numbers_that_onnx_takes_are_inferred() -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 4])
    node = helper.make_node("Split", ["x"], ["y", "z"], num_outputs=2)
    graph = helper.make_graph([node], "g", [x], [onnx.ValueInfoProto(name=each) for each in ("y", "z")])
    found = inferred(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))
    assert [output.type.tensor_type.shape.dim[0].dim_value for output in found.output] == [2, 2]


@pytest.mark.parametrize(
    ("name", "inputs", "attributes"),
    [
        ("GatherND", ["x", "i"], {"batch_dims": -(2**31)}),
        ("RegexFullMatch", ["untyped"], {"pattern": "a"}),
        ("EyeLike", ["untyped"], {"dtype": 1}),
    ],
)
def test_operators_that_crash_onnx_are_left_out_of_functions(
    name: str, inputs: list[str], attributes: dict[str, Any]
) -> None:
    opset = helper.make_opsetid("", 20)
    taken = [f"taken_{each}" for each in inputs]
    body = [helper.make_node(name, taken, ["made"], **attributes)]
    function = helper.make_function("own", "F", taken, ["made"], body, [opset])
    nodes = [helper.make_node("F", inputs, ["y"], domain="own"), helper.make_node("Relu", ["x"], ["z"])]
    given = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 4]),
        helper.make_tensor_value_info("i", TensorProto.INT64, [2]),
        onnx.ValueInfoProto(name="untyped"),
    ]
    graph = helper.make_graph(nodes, "g", given, [onnx.ValueInfoProto(name=each) for each in ("y", "z")])
    opsets = [opset, helper.make_opsetid("own", 1)]
    found = inferred(helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=8))
    assert [len(output.type.tensor_type.shape.dim) for output in found.output] == [0, 2]


def test_a_long_message_of_onnx_keeps_its_end() -> None:
    with (
        pytest.raises(InputError, match=r"^onnx cannot work: x{100,} \.\.\. x{100,} in node 'a'$"),
        as_input_errors("work"),
    ):
        raise RuntimeError("x" * 500 + " in node 'a'")
