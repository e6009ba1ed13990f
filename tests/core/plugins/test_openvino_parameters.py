"""Parameters of OpenVINO's models: in the bodies of loops, in recurrent layers, and in few bits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

openvino = pytest.importorskip("openvino")

from openvino import opset13 as ops  # noqa: E402

from bench.plugins.engines.openvino import parameters  # noqa: E402
from core.plugins import test_openvino_graph as graphs  # noqa: E402

RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def constants(model: Any) -> int:
    """Elements of all constants of floats with an axis, in all bodies: by OpenVINO's own walk."""
    total = 0
    for node in model.get_ordered_ops():
        kind = node.get_type_name()
        if kind == "Constant" and node.get_element_type().is_real() and len(node.shape) and math.prod(node.shape) > 1:
            total += math.prod(node.shape)
        bodies = {"If": (0, 1), "Loop": (None,), "TensorIterator": (None,)}.get(kind, ())
        total += sum(constants(node.get_function() if at is None else node.get_function(at)) for at in bodies)
    return total


@pytest.mark.parametrize("name", graphs.GRAPHS)
def test_models_with_loops_branches_and_recurrent_layers(name: str, tmp_path: Path) -> None:
    source = tmp_path / "model.onnx"
    graph = graphs.GRAPHS[name]()
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), source)
    model = openvino.convert_model(source)
    found = parameters.of_model(model)
    assert found.num_params == constants(model) > 0
    assert found.repeated is None


def iterated(*, steps: int = 5, weights: int = 1) -> Any:
    """A TensorIterator whose body multiplies a slice and its state by matrices, (3, 3) each."""
    x, state = ops.parameter([1, 3], np.float32), ops.parameter([1, 3], np.float32)
    made = ops.add(x, state)
    for _ in range(weights):
        made = ops.matmul(made, ops.constant(floats(3, 3)), False, False)
    body = openvino.Model([made], [x, state], "body")
    whole = ops.parameter([steps, 3], np.float32, name="x")
    loop = ops.tensor_iterator()
    loop.set_body(body)
    loop.set_sliced_input(x, whole.output(0), 0, 1, 1, -1, 0)
    first = ops.constant(np.zeros((1, 3), np.float32))
    loop.set_merged_input(state, first.output(0), body.get_results()[0].output(0))
    loop.get_iter_value(body.get_results()[0].output(0), -1)
    loop.validate_and_infer_types()
    return openvino.Model([loop.output(0)], [whole], "iterated")


@pytest.mark.parametrize("weights", [1, 2, 3])
def test_weights_of_a_body_count_once_and_its_first_state_does_not(weights: int) -> None:
    assert parameters.of_model(iterated(weights=weights)).num_params == weights * 9


def compressed(dtype: str, shape: tuple[int, ...], *, zero: bool, grouped: bool = False) -> Any:
    """Stored numbers of a type as floats: converted, shifted by zero points, scaled, and of groups made whole."""
    kind = getattr(openvino.Type, dtype)

    def stored(values: np.ndarray) -> Any:
        if dtype in ("i8", "u8"):
            return ops.constant(values.astype("int8" if dtype == "i8" else "uint8"))
        tensor = openvino.Tensor(kind, openvino.Shape(list(values.shape)))
        tensor.data[:] = np.zeros_like(tensor.data)
        return openvino.op.Constant(tensor)

    weight = ops.convert(stored(RNG.integers(0, 7, shape)), "f16")
    small = (*shape[:-1], 1)
    if zero:
        weight = ops.subtract(weight, ops.convert(stored(RNG.integers(0, 7, small)), "f16"))
    weight = ops.multiply(weight, ops.constant(RNG.random(small).astype("float16")))
    if grouped:
        weight = ops.reshape(weight, ops.constant([shape[0], shape[1] * shape[2]]), False)
    return ops.convert(weight, "f32")


@pytest.mark.parametrize("dtype", ["u8", "i8", "u4", "i4"])
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_compressed_weights_count_as_the_numbers_they_stand_for(dtype: str, zero: bool, grouped: bool) -> None:
    weight = compressed(dtype, (8, 2, 16) if grouped else (8, 32), zero=zero, grouped=grouped)
    x = ops.parameter([3, 32], np.float32, name="x")
    product = ops.add(ops.matmul(x, weight, False, True), ops.constant(floats(1, 8)))
    assert parameters.of_model(openvino.Model([product], [x], "compressed")).num_params == 8 * 32 + 8


def test_ranges_of_a_quantization_are_no_parameters() -> None:
    x = ops.parameter([1, 4, 6], np.float32, name="x")
    low, high = (ops.constant(np.full((1, 4, 1), value, "float32")) for value in (-1, 1))
    model = openvino.Model([ops.fake_quantize(x, low, high, low, high, 256)], [x], "ranges")
    assert parameters.of_model(model).num_params == 0


@pytest.mark.parametrize("operator", ["multiply", "divide", "power", "prelu"])
def test_single_numbers_of_formulas_are_no_parameters(operator: str) -> None:
    x = ops.parameter([3, 6], np.float32, name="x")
    made = getattr(ops, operator)(ops.matmul(x, ops.constant(floats(6, 4)), False, False), ops.constant(floats(1)))
    assert parameters.of_model(openvino.Model([made], [x], "formula")).num_params == 24


def test_a_constant_that_several_operations_read_counts_once_and_a_copy_is_told() -> None:
    x, table = ops.parameter([32, 64], np.float32, name="x"), floats(64, 32)
    shared, copied = ops.constant(table), ops.constant(np.ascontiguousarray(table.T))
    shared.set_friendly_name("table")
    copied.set_friendly_name("head")
    twice = ops.matmul(ops.matmul(x, shared, False, False), shared, False, True)
    assert parameters.of_model(openvino.Model([twice], [x], "shared")).num_params == 2048
    again = ops.matmul(ops.matmul(x, shared, False, False), copied, False, False)
    found = parameters.of_model(openvino.Model([again], [x], "copied"))
    assert (found.num_params, found.repeated) == (4096, "2,048 are stored again: table as head")
