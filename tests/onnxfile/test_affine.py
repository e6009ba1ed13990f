"""The arithmetic of quantized weights: error bounds, exact zeros, ONNX's own rounding, and packing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api.errors import ArtifactError, InputError
from bench.onnxfile.weights.affine import BLOCK_SIZE, SCHEMES, Quantized, Scheme, pack, quantize, scheme

SHAPE = (7, 70, 3)  # 70 is two blocks of 32 and one of 6
AXIS = 1

every_scheme = pytest.mark.parametrize("chosen", SCHEMES, ids=lambda item: item.name)


def make_weights(shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """Weights whose magnitude differs from channel to channel, one of them all positive and one all 0."""
    generator = np.random.default_rng(3)
    weights = generator.standard_normal(shape) * np.logspace(-3, 1, shape[AXIS])[:, None]
    weights[:, 3] = np.abs(weights[:, 3]) + 1
    weights[:, 40:70] = 0
    return weights.astype(np.float32)


def spread(values: np.ndarray, chosen: Scheme, shape: tuple[int, ...]) -> np.ndarray:
    """The scale or the zero point of each weight, found element by element."""
    full = np.empty(shape, values.dtype)
    for index in np.ndindex(*shape):
        if chosen.per == "tensor":
            full[index] = values
        elif chosen.per == "channel":
            full[index] = values[index[AXIS]]
        else:
            full[index] = values[(*index[:AXIS], index[AXIS] // BLOCK_SIZE, *index[AXIS + 1 :])]
    return full


def dequantize(quantized: Quantized) -> np.ndarray:
    shape = quantized.codes.shape
    steps = quantized.codes - spread(quantized.zero_point, quantized.scheme, shape)
    return steps.astype(np.float64) * spread(quantized.scale, quantized.scheme, shape)


def test_every_scheme_has_its_name() -> None:
    assert len({item.name for item in SCHEMES}) == 2 * 2 * 3
    assert scheme("int4-asym-block") == Scheme(bits=4, symmetric=False, per="block")
    with pytest.raises(InputError, match="'int3-sym-tensor'; there are: int8-sym-channel"):
        scheme("int3-sym-tensor")


@every_scheme
def test_error_is_at_most_half_a_scale(chosen: Scheme) -> None:
    weights = make_weights()
    quantized = quantize(weights, chosen, AXIS)
    half = spread(quantized.scale, chosen, SHAPE) / 2
    error = np.abs(dequantize(quantized) - weights)
    assert quantized.scale.dtype == np.float32
    assert (error <= half * (1 + 1e-5)).all()
    assert (error > 0.9 * half).any()


@every_scheme
def test_codes_fill_the_range(chosen: Scheme) -> None:
    quantized = quantize(make_weights(), chosen, AXIS)
    lowest, highest = {
        (4, True): (-7, 7),
        (8, True): (-127, 127),
        (4, False): (0, 15),
        (8, False): (0, 255),
    }[chosen.bits, chosen.symmetric]
    assert lowest <= quantized.codes.min()
    assert quantized.codes.max() <= highest
    # The largest magnitude of what shares the coarsest scale has the outermost code.
    assert lowest == quantized.codes.min() or quantized.codes.max() == highest


@every_scheme
def test_zero_is_exact(chosen: Scheme) -> None:
    weights = make_weights()
    weights[2, 5, 1] = 0
    dequantized = dequantize(quantize(weights, chosen, AXIS))
    assert dequantized[2, 5, 1] == 0
    assert not dequantized[:, 40:].any()


@every_scheme
def test_rounds_as_onnx_does(chosen: Scheme) -> None:
    """The same codes as QuantizeLinear gives for our scale and zero point; halves are rounded to even."""
    from onnx.reference import ReferenceEvaluator

    weights = make_weights()
    quantized = quantize(weights, chosen, AXIS)
    kind = getattr(TensorProto, f"{'' if chosen.symmetric else 'U'}INT{chosen.bits}")
    shape = quantized.zero_point.shape
    zero_point = helper.make_tensor("z", kind, shape, pack(quantized.zero_point, chosen.bits), raw=True)
    attributes = {} if chosen.per == "tensor" else {"axis": AXIS}
    if chosen.per == "block":
        attributes["block_size"] = BLOCK_SIZE
    nodes = [
        helper.make_node("QuantizeLinear", ["w", "s", "z"], ["q"], **attributes),
        helper.make_node("Cast", ["q"], ["codes"], to=TensorProto.INT32),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("w", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("codes", TensorProto.INT32, SHAPE)],
        [numpy_helper.from_array(quantized.scale, "s"), zero_point],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (codes,) = ReferenceEvaluator(model).run(None, {"w": weights})
    np.testing.assert_array_equal(quantized.codes, codes)


def test_halves_are_rounded_to_even() -> None:
    weights = np.array([[127, 0.5, 1.5, -2.5, 126.5]], np.float32)
    quantized = quantize(weights, scheme("int8-sym-tensor"), 0)
    assert quantized.scale == 1
    assert quantized.codes.tolist() == [[127, 0, 2, -2, 126]]


def test_weights_too_small_for_a_scale_are_zero() -> None:
    quantized = quantize(np.full((2, 2), 1e-44, np.float32), scheme("int4-asym-channel"), 0)
    assert quantized.scale.tolist() == [1, 1]
    assert not dequantize(quantized).any()


def test_weights_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ArtifactError, match="not finite"):
        quantize(np.array([[1, np.nan]], np.float32), scheme("int8-sym-tensor"), 0)


def test_four_bits_are_packed_low_half_first() -> None:
    assert pack(np.array([1, -2, 7], np.int16), 4) == bytes([0xE1, 0x07])
    assert pack(np.array([[3], [-1]], np.int16), 8) == bytes([0x03, 0xFF])
    tensor = helper.make_tensor("t", TensorProto.INT4, (3,), pack(np.array([1, -2, 7], np.int16), 4), raw=True)
    assert numpy_helper.to_array(tensor).astype(int).tolist() == [1, -2, 7]


@every_scheme
def test_stored_bytes_are_those_of_the_tensors(chosen: Scheme) -> None:
    quantized = quantize(make_weights(), chosen, AXIS)
    assert quantized.scale.shape == chosen.scale_shape(SHAPE, AXIS)
    num_bytes = len(pack(quantized.codes, chosen.bits)) + quantized.scale.nbytes
    if not chosen.symmetric:
        num_bytes += len(pack(quantized.zero_point, chosen.bits))
    assert chosen.stored_bytes(SHAPE, AXIS) == num_bytes


def test_stored_bytes_by_hand() -> None:
    weights = 7 * 70 * 3
    assert scheme("int8-sym-tensor").stored_bytes(SHAPE, AXIS) == weights + 4
    assert scheme("int4-asym-channel").stored_bytes(SHAPE, AXIS) == weights / 2 + 70 * 4 + 70 / 2
    assert scheme("int4-asym-block").stored_bytes(SHAPE, AXIS) == weights / 2 + 63 * 4 + math.ceil(63 / 2)
