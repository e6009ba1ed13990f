"""The three places that count parameters follow one rule, and which stored tensors are parameters by it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.onnxfile.costs.profile import profile
from bench.onnxfile.file.lazy import read
from bench.onnxfile.weights.parameter_counts import of_onnx
from bench.onnxfile.weights.report import weight_report

INT8, INT32 = np.int8, np.int32
FOUR = np.ones(4, np.float32)
NORMALIZATION = dict.fromkeys(("scale", "shift", "mean", "variance"), FOUR)


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
    assert of_onnx(quantized(tmp_path)).num_params == 8 * 2 + 2


@pytest.mark.parametrize("reads_product", [False, True])
def test_smaller_numbers_behind_scales_do_not_count_unless_something_else_reads_them(
    reads_product: bool, tmp_path: Path
) -> None:
    stored = {"w": np.ones((2, 8), INT8), "codes": np.ones(2, INT8), "step": np.ones(1, np.float32)}
    nodes = [
        helper.make_node("Cast", ["codes"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["wide", "step"], ["w_scale"]),
        helper.make_node("DequantizeLinear", ["w", "w_scale"], ["weights"], axis=0),
        helper.make_node("MatMul", ["weights", "x"], ["product"]),
        helper.make_node("Add", ["product", "wide" if reads_product else "product"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2])
    tensors = [numpy_helper.from_array(array, name) for name, array in stored.items()]
    graph = helper.make_graph(nodes, "scales", [x], [y], tensors)
    path = tmp_path / "scales.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)
    assert of_onnx(path).num_params == 16 + 2 * reads_product


@pytest.mark.parametrize(
    "count", [lambda path: profile(path, observe=False).num_params, lambda path: of_onnx(path).num_params]
)
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
    assert of_onnx(path).num_params == profile(path, observe=False).num_params == 8 * 2 + 2 + 5


def counted(nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], folder: Path, outputs: str = "y") -> int:
    x, *results = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", *outputs.split()))
    stored = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "graph", [x], results, stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), folder / "counted.onnx")
    return of_onnx(folder / "counted.onnx").num_params


def test_statistics_of_a_normalization_are_no_parameters(tmp_path: Path) -> None:
    normalization = helper.make_node("BatchNormalization", ["x", "scale", "shift", "mean", "variance"], ["y"])
    assert counted([normalization], NORMALIZATION, tmp_path) == 2 * 4


def test_statistics_that_are_used_for_something_else_are_parameters(tmp_path: Path) -> None:
    normalization = helper.make_node("BatchNormalization", ["x", "scale", "shift", "mean", "variance"], ["z"])
    shift = helper.make_node("Add", ["z", "mean"], ["y"])
    assert counted([normalization, shift], NORMALIZATION, tmp_path) == 3 * 4
    assert counted([normalization, shift], NORMALIZATION, tmp_path, outputs="y variance") == 4 * 4


def test_statistics_in_constant_nodes(tmp_path: Path) -> None:
    constants = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))
        for name, array in NORMALIZATION.items()
    ]
    normalization = helper.make_node("BatchNormalization", ["x", *NORMALIZATION], ["y"])
    assert counted([*constants, normalization], {}, tmp_path) == 2 * 4


def test_scales_of_a_resize_are_no_parameters(tmp_path: Path) -> None:
    weights = {"regions": np.zeros(8, np.float32), "scales": FOUR, "bias": FOUR}
    nodes = [
        helper.make_node("Resize", ["x", "regions", "scales"], ["larger"]),
        helper.make_node("Add", ["larger", "bias"], ["y"]),
    ]
    assert counted(nodes, weights, tmp_path) == 4


def test_bias_of_a_single_output_is_a_parameter(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "b"], ["y"])]
    weights = {"w": np.ones((4, 1), np.float32), "b": np.ones(1, np.float32)}
    assert counted(nodes, weights, tmp_path) == 4 + 1


def test_constant_node_with_a_list_of_floats(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Constant", [], ["c"], value_floats=[1.0, 2.0, 3.0]),
        helper.make_node("Add", ["x", "c"], ["y"]),
    ]
    assert counted(nodes, {}, tmp_path) == 3


@pytest.mark.parametrize(("dtype", "num_params"), [(np.int32, 32), (np.int64, 0)])
def test_of_wide_integers_in_a_product_only_those_of_32_bits_are_parameters(
    dtype: type, num_params: int, tmp_path: Path
) -> None:
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    assert counted([product], {"w": np.ones((8, 4), dtype)}, tmp_path) == num_params


def chain(*steps: tuple[str, str, str]) -> list[onnx.NodeProto]:
    """Nodes of one output each, as (operator, inputs with blanks between, output)."""
    return [helper.make_node(operator, inputs.split(), [output]) for operator, inputs, output in steps]


ONE, MATRIX = np.ones(1, np.float32), np.ones((4, 4), np.float32)
ATTENTION = chain(
    ("MatMul", "x w", "q"), ("Mul", "q s", "q2"), ("Mul", "x s", "k"), ("MatMul", "q2 k", "a"), ("Softmax", "a", "y")
)


@pytest.mark.parametrize(
    ("nodes", "weights", "num_params"),
    [
        (ATTENTION, {"w": MATRIX, "s": ONE}, 16),  # the scale of an attention, whose keys have it, too
        (chain(("MatMul", "x w", "h"), ("Div", "h s", "y")), {"w": MATRIX, "s": np.ones((1, 1, 1), np.float32)}, 16),
        (chain(("Pow", "x s", "h"), ("Mul", "h w", "y")), {"w": FOUR, "s": ONE}, 4),
        (chain(("Relu", "x", "h"), ("Add", "h s", "y")), {"s": ONE}, 0),
        (chain(("MatMul", "x x", "h"), ("Add", "h s", "y")), {"s": ONE}, 0),  # a product without weights has no bias
        (chain(("Conv", "x w", "h"), ("Add", "h s", "y")), {"w": np.ones((1, 4, 3), np.float32), "s": ONE}, 12 + 1),
        (chain(("Conv", "x w s", "y")), {"w": np.ones((1, 4, 3), np.float32), "s": ONE}, 12 + 1),
        (chain(("PRelu", "x s", "y")), {"s": ONE}, 1),
        (chain(("Mul", "x s", "h"), ("Add", "t h", "y")), {"s": ONE, "t": ONE}, 2),  # a learnable affine block
        (chain(("Mul", "x s", "h"), ("Add", "h t", "a"), ("Mul", "h a", "y")), {"s": ONE, "t": ONE}, 0),
        (chain(("Add", "x t", "h"), ("Mul", "h s", "y")), {"s": ONE, "t": ONE}, 0),
        (
            chain(("MatMulInteger", "x w", "n"), ("Cast", "n", "f"), ("Mul", "f w_scale", "h"), ("Add", "h s", "y")),
            {"w": np.ones((4, 1), INT8), "w_scale": ONE, "s": ONE},
            4 + 1,
        ),
    ],
)
def test_single_numbers_of_formulas_are_no_parameters_and_biases_of_one_output_are(
    nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], num_params: int, tmp_path: Path
) -> None:
    assert counted(nodes, weights, tmp_path) == num_params


TURNS = [("Cos", "a", "c"), ("Sin", "a", "s"), ("Concat", "c s", "y")]


@pytest.mark.parametrize(
    ("nodes", "shape", "num_params"),
    [
        (chain(("MatMul", "x w", "t"), ("Transpose", "t", "t2"), ("Concat", "t2 t2", "a"), *TURNS), (1, 32, 1), 0),
        (chain(("Mul", "x w", "a"), *TURNS), (32,), 0),
        (chain(("Unsqueeze", "w", "u"), ("Cast", "u", "f"), ("Mul", "x f", "a"), *TURNS), (32,), 0),
        (chain(("MatMul", "x w", "a"), *TURNS), (4, 32), 128),  # features that training may set
        (chain(("Mul", "x w", "a"), ("Sin", "a", "y")), (32,), 32),  # a layer with a sine as its activation
        (chain(("Mul", "x w", "a"), *TURNS, ("Mul", "x w", "z")), (32,), 32),
    ],
)
def test_frequencies_of_rotary_positions_are_no_parameters(
    nodes: list[onnx.NodeProto], shape: tuple[int, ...], num_params: int, tmp_path: Path
) -> None:
    assert counted(nodes, {"w": np.ones(shape, np.float32)}, tmp_path) == num_params
