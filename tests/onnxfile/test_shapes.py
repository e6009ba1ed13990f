"""Shapes of every tensor, inferred without running the model; onnx's own test cases give the right shapes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api.errors import InputError
from bench.onnxfile.file import normalized
from bench.onnxfile.file.lazy import Stored
from bench.onnxfile.shapes import engine, inference
from bench.onnxfile.shapes import tensors as shapes
from bench.onnxfile.shapes.dims import symbol
from bench.onnxfile.shapes.engine import compile_shapes
from bench.onnxfile.shapes.rules import RULES
from support import shape_inference
from support.shape_inference import graph_model

DEPEND_ON_DATA = {
    *("Compress", "ImageDecoder", "NonMaxSuppression", "NonZero", "StringNormalizer", "StringSplit", "Unique"),
    "Loop",  # in whose test the body makes a slice that depends on the iteration
}
LOST_WITH_EXPRESSIONS = {
    "CausalConvWithState",
    "Col2Im",
    "DFT",
    "DeformConv",
    "GatherND",
    "LinearAttention",
    "StringConcat",
}
"""Operators whose shapes only onnx's own inference knows, which takes no expressions."""
OTHER_REASONS = (
    "test_range_bfloat16",  # NumPy has no such numbers
    "test_resize_upsample_sizes_nearest_not",  # the policies of keep_aspect_ratio_policy
    "test_resize_downsample_sizes_nearest_not",
)


@pytest.fixture(scope="module")
def cases() -> list[Any]:
    """Every test that onnx has of an operator: a model, inputs and outputs."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return collect_testcases(None)


def known_inputs(case: Any, *, largest: int, axes: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A case's model with its small inputs as constants, and the other inputs."""
    model = onnx.ModelProto.FromString(case.model.SerializeToString())
    inputs = {}
    for value, given in zip(model.graph.input, case.data_sets[0][0], strict=True):
        if not isinstance(given, (np.ndarray, np.generic)):
            continue
        array = np.asarray(given)
        if array.size <= largest and array.ndim <= axes and array.dtype.kind in "iufb":
            model.graph.initializer.append(numpy_helper.from_array(array, value.name))
        else:
            inputs[value.name] = array
    return model, inputs


def operator_of(case: Any) -> str:
    nodes = case.model.graph.node
    return str(nodes[0].op_type) if len(nodes) == 1 else ""


def outputs_of(case: Any) -> list[tuple[str, np.ndarray]]:
    pairs = zip(case.model.graph.output, case.data_sets[0][1], strict=True)
    return [(value.name, np.asarray(made)) for value, made in pairs if isinstance(made, (np.ndarray, np.generic))]


def test_shapes_dtypes_and_small_values_are_those_of_onnx_tests(cases: list[Any]) -> None:
    num_checked = 0
    for case in cases:
        model, inputs = known_inputs(case, largest=64, axes=9)
        stored = Stored(model=normalized.settle(model), path=None)
        inferred = inference.infer(stored, {name: array.shape for name, array in inputs.items()})
        types = {value.name: value.type.tensor_type.elem_type for value in case.model.graph.output}
        for name, made in outputs_of(case):
            value = inferred.values[name]
            assert value.dtype == types[name], case.name
            if not value.is_static:
                assert operator_of(case) in DEPEND_ON_DATA or case.name.startswith(OTHER_REASONS), case.name
                continue
            assert value.shape == made.shape, case.name
            num_checked += 1
            if value.elements is not None:
                np.testing.assert_allclose(
                    value.elements.astype(float), made.astype(float), rtol=1e-5, err_msg=case.name
                )
    assert num_checked > 1800


def test_expressions_give_the_shapes_of_onnx_tests(cases: list[Any]) -> None:
    num_checked = 0
    for case in cases:
        model, inputs = known_inputs(case, largest=64, axes=1)
        sizes = {f"{name}_{axis}": size for name, array in inputs.items() for axis, size in enumerate(array.shape)}
        symbols = {name: [symbol(f"{name}_{axis}") for axis in range(array.ndim)] for name, array in inputs.items()}
        inferred = inference.infer(Stored(model=normalized.settle(model), path=None), symbols)
        for name, made in outputs_of(case):
            shape = inferred.values[name].shape
            if shape is None or any(engine.unknowns(size) for size in shape):
                allowed = operator_of(case) in DEPEND_ON_DATA | LOST_WITH_EXPRESSIONS
                assert allowed or case.name.startswith(OTHER_REASONS), case.name
                continue
            found = compile_shapes({name: shape}, list(sizes))(*sizes.values())
            assert found[name] == made.shape, case.name
            num_checked += 1
    assert num_checked > 1700


def conv_model() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["h"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["h"], ["p"]),
        helper.make_node("Flatten", ["p"], ["y"]),
    ]
    return graph_model(nodes, {"image": ["N", 3, "height", "width"]}, "y", w=np.zeros((8, 3, 3, 3), np.float32))


def test_infer_gives_every_tensor() -> None:
    tensors = shape_inference.infer(conv_model(), shapes={"image": [2, 3, 10, 20]})

    assert {name: info.shape for name, info in tensors.items()} == {
        "image": (2, 3, 10, 20),
        "w": (8, 3, 3, 3),
        "h": (2, 8, 5, 10),
        "p": (2, 8, 1, 1),
        "y": (2, 8),
    }
    assert tensors["h"].bytes == 2 * 8 * 5 * 10 * 4
    assert {info.dtype for info in tensors.values()} == {"float32"}
    assert [name for name, info in tensors.items() if info.is_weight] == ["w"]
    assert not any(info.observed for info in tensors.values())


def test_dimensions_are_bound_by_name() -> None:
    tensors = shape_inference.infer(conv_model(), dims={"N": 4, "height": 7, "width": 9})

    assert tensors["h"].shape == (4, 8, 4, 5)


def test_what_is_not_given_is_guessed_and_said() -> None:
    bound, chosen = shapes.bind_inputs(conv_model(), dims={"height": 40})

    assert bound == {"image": (1, 3, 40, 224)}
    assert chosen.guessed == {"N": 1, "width": 224}


def test_a_name_used_twice_is_one_size() -> None:
    nodes = [helper.make_node("Add", ["a", "b"], ["y"])]
    model = graph_model(nodes, {"a": ["N", 3], "b": ["N", 3]}, "y")

    assert shape_inference.infer(model, shapes={"a": [5, 3]})["b"].shape == (5, 3)
    with pytest.raises(InputError, match="dimension N is given two sizes, 5 and 6"):
        shape_inference.infer(model, shapes={"a": [5, 3], "b": [6, 3]})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"shapes": {"imag": [1, 3, 8, 8]}}, "no input 'imag'; did you mean 'image'"),
        ({"dims": {"heigth": 8}}, "no dimension 'heigth'; did you mean 'height'"),
        ({"dims": {"zzz": 8}}, "no dimension 'zzz'; there are: N, height, width"),
        ({"shapes": {"image": [1, 3, 8]}}, r"has 4 axes, \(N, 3, height, width\); \(1, 3, 8\) was given"),
        ({"shapes": {"image": [1, 4, 8, 8]}}, "axis 1 of input 'image' is fixed to 3 in the file; 4 was given"),
        ({"shapes": {"image": [1, 3, 8, 8]}, "dims": {"height": 9}}, "height is given two sizes, 9 and 8"),
        ({"dims": {"N": -1}}, "a size is 0 or more"),
        ({"dims": {"height": 0, "width": 1}}, "slides a window of 3 over 2"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(given: dict[str, Any], message: str) -> None:
    if "slides" in message:
        model = graph_model([helper.make_node("Conv", ["image", "w"], ["y"])], {"image": [1, 3, 2, 2]}, "y",
                            w=np.zeros((8, 3, 3, 3), np.float32))  # fmt: skip
        given = {}
    else:
        model = conv_model()
    with pytest.raises(InputError, match=message):
        shape_inference.infer(model, **given)


@pytest.mark.parametrize(
    ("node", "inputs", "message"),
    [
        (("Add", ["a", "b"]), {"a": [2, 3], "b": [2, 4]}, r"'Add_0' \(Add\) cannot broadcast \(2, 3\) and \(2, 4\)"),
        (("MatMul", ["a", "b"]), {"a": [2, 3], "b": [4, 2]}, r"cannot multiply \(2, 3\) and \(4, 2\)"),
        (("Concat", ["a", "b"]), {"a": [2, 3], "b": [2, 4]}, r"joins \(2, 3\) and \(2, 4\) along axis 0"),
    ],
)
def test_shapes_that_contradict_each_other_are_refused(
    node: tuple[str, list[str]], inputs: dict[str, list[int]], message: str
) -> None:
    attributes = {"axis": 0} if node[0] == "Concat" else {}
    model = graph_model([helper.make_node(*node, ["y"], **attributes)], inputs, "y")

    with pytest.raises(InputError, match=message):
        shape_inference.infer(model)


def test_attention_with_keys_of_another_rank_is_left_to_onnx() -> None:
    attention = helper.make_node("Attention", ["q", "k", "v"], ["y"])
    model = graph_model([attention], {"q": [1, 2, 4, 8], "k": [1, 6, 16], "v": [1, 2, 6, 8]}, "y")
    model.opset_import[0].version = 23

    assert shape_inference.infer(model)["y"].shape == (1, 2, 4, 8)


def test_an_unknown_condition_chooses_no_fraction() -> None:
    """x (N): the condition N == 3 is an expression, and no expression chooses between a half and a quarter."""
    nodes = [
        helper.make_node("Shape", ["x"], ["n"]),
        helper.make_node("Equal", ["n", "three"], ["condition"]),
        helper.make_node("Where", ["condition", "half", "quarter"], ["y"]),
    ]
    stored = {"three": np.array([3]), "half": np.float32([0.5]), "quarter": np.float32([0.25])}
    model = normalized.settle(graph_model(nodes, {"x": ["N"]}, "y", **stored))
    inferred = inference.infer(Stored(model=model, path=None), {"x": [symbol("N")]})

    assert inferred.values["y"].shape == (1,)
    assert inferred.values["y"].elements is None


def test_a_cycle_is_told_from_a_wrong_order_and_a_missing_value() -> None:
    cycle = [helper.make_node("Add", ["x", "b"], ["a"], name="first"), helper.make_node("Relu", ["a"], ["b"])]
    order = [helper.make_node("Relu", ["a"], ["b"], name="late"), helper.make_node("Relu", ["x"], ["a"], name="early")]
    missing = [helper.make_node("Add", ["x", "nowhere"], ["b"], name="n")]

    with pytest.raises(InputError, match=r"its graph has a cycle: node 'first' \(Add\) reads 'b', which depends on"):
        shape_inference.infer(graph_model(cycle, {"x": [1]}, "b"))
    with pytest.raises(InputError, match=r"'late' .* before node 'early' makes it"):
        shape_inference.infer(graph_model(order, {"x": [1]}, "b"))
    with pytest.raises(InputError, match="reads 'nowhere', which nothing makes"):
        shape_inference.infer(graph_model(missing, {"x": [1]}, "b"))
    with pytest.raises(InputError, match="its output 'y' is made by no node"):
        shape_inference.infer(graph_model([], {"x": [1]}, "y"))


def test_reshape_follows_sizes_computed_in_the_graph() -> None:
    """x (N, T, 12) -> (N, T, 3, 4) -> (N, 3, T, 4) -> (N * 3, 4 * T)."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["n"], axis=0),
        helper.make_node("Slice", ["shape", "one", "two"], ["t"]),
        helper.make_node("Unsqueeze", ["n", "front"], ["n1"]),
        helper.make_node("Concat", ["n1", "t", "heads"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["x", "wanted"], ["parted"]),
        helper.make_node("Transpose", ["parted"], ["turned"], perm=[0, 2, 1, 3]),
        helper.make_node("Mul", ["n1", "three"], ["rows"]),
        helper.make_node("Concat", ["rows", "rest"], ["flat"], axis=0),
        helper.make_node("Reshape", ["turned", "flat"], ["y"]),
    ]
    constants = {"zero": 0, "one": [1], "two": [2], "front": [0], "heads": [3, -1], "three": [3], "rest": [-1]}
    stored = {name: np.array(value, np.int64) for name, value in constants.items()}
    tensors = shape_inference.infer(graph_model(nodes, {"x": ["N", "T", 12]}, "y", **stored), dims={"N": 2, "T": 5})

    assert tensors["turned"].shape == (2, 3, 5, 4)
    assert tensors["y"].shape == (6, 20)


def test_elements_that_no_rule_needs_are_not_read() -> None:
    """w: 4 bytes of data for 6 elements; the shape of an Elu follows from the stated shape alone."""
    model = graph_model([helper.make_node("Elu", ["w"], ["y"])], {}, "y")
    model.graph.initializer.append(TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2, 3], raw_data=bytes(4)))

    assert shape_inference.infer(model)["y"].shape == (2, 3)


def test_what_an_unknown_operator_makes_is_what_the_file_says() -> None:
    model = graph_model(
        [helper.make_node("Magic", ["x"], ["y"], domain="my.own"), helper.make_node("Relu", ["y"], ["z"])],
        {"x": [1]},
        "z",
    )
    model.opset_import.append(helper.make_opsetid("my.own", 1))
    silent = shape_inference.infer(onnx.ModelProto.FromString(model.SerializeToString()))
    model.graph.value_info.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [7, 2]))

    assert silent["z"].shape is None
    assert shape_inference.infer(model)["z"].shape == (7, 2)


def test_quantized_types_take_their_bits() -> None:
    tensors = [
        helper.make_tensor("four", TensorProto.INT4, [3, 5], np.zeros(15, np.int64)),
        helper.make_tensor("eight", TensorProto.UINT8, [3, 5], np.zeros(15, np.int64)),
        helper.make_tensor("half", TensorProto.BFLOAT16, [3, 5], np.zeros(15)),
    ]
    model = graph_model([helper.make_node("Relu", ["x"], ["y"])], {"x": [1]}, "y")
    model.graph.initializer.extend(tensors)
    found = shape_inference.infer(model)

    assert {name: (found[name].dtype, found[name].bytes) for name in ("four", "eight", "half")} == {
        "four": ("int4", 8),
        "eight": ("uint8", 15),
        "half": ("bfloat16", 30),
    }


def test_rules_survive_nodes_that_break_the_rules_of_their_operator() -> None:
    """A node without inputs or attributes may be refused or not be known, but it must not break the analysis."""
    for domain, name in RULES:
        node = helper.make_node(name, [], ["y"], domain=domain)
        model = graph_model([node], {"x": [1]}, "y")
        if domain:
            model.opset_import.append(helper.make_opsetid(domain, 1))
        try:
            shape_inference.infer(model)
        except InputError:
            continue
