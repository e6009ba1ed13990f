"""Shape rules of elementwise operators, which also compute elements that are known, because shapes depend on them."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from bench.onnxfile.deferred import np
from bench.onnxfile.file.dtypes import is_floating, type_name
from bench.onnxfile.operators import MICROSOFT
from bench.onnxfile.shapes import dims
from bench.onnxfile.shapes.dims import Dim, Shape
from bench.onnxfile.shapes.node import BOOL, MAX_ELEMENTS, Node, ShapeError, Value
from bench.onnxfile.shapes.rules.registry import rule

_WIDEST_BITS = 64  # of an integer type


def broadcast_shapes(node: Node, shapes: Sequence[Shape]) -> Shape:
    """The shape that several shapes broadcast to, as NumPy does it.

    Raises:
        ShapeError: two sizes of an axis differ, and neither is 1.
    """
    if shapes.count(shapes[0]) == len(shapes):
        return shapes[0]
    rank = max(len(shape) for shape in shapes)
    result: list[Any] = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            joined = dims.broadcast(result[axis], size)
            if joined is None:
                raise ShapeError(f"{node.what} cannot broadcast {' and '.join(map(dims.shape_text, shapes))}")
            result[axis] = joined
    return tuple(result)


def known_operands(node: Node) -> list[Any] | None:
    """Elements of all inputs of a node; None if the elements of an input are not known."""
    operands: list[Any] = []
    for value in node.inputs:
        if value is not None:
            if value.elements is None:  # elements of further inputs are not even read
                return None
            operands.append(value.elements)
    return operands


def _elementwise(function: Callable[..., Any] | None, dtype: int, *operands: np.ndarray | None) -> np.ndarray | None:
    """Apply a function of numbers to every element of its operands.

    Args:
        dtype: of the result. Elements of float32 and float16 are rounded as these types can hold them, because that
            decides how a size is rounded.

    Returns:
        An array of objects; None if there is no function, an operand is not known, the function cannot take an
        expression, or there are too many elements.
    """
    known = [operand for operand in operands if operand is not None]
    if function is None or len(known) < len(operands):
        return None
    try:
        if math.prod(np.broadcast_shapes(*[operand.shape for operand in known])) > MAX_ELEMENTS:  # a causal mask
            return None
        result = np.asarray(np.frompyfunc(function, len(known), 1)(*known), object)
        if any(isinstance(number, int) and number.bit_length() > _WIDEST_BITS for number in result.reshape(-1)):
            return None
    except (TypeError, ZeroDivisionError, OverflowError, ValueError):
        return None
    if type_name(dtype) in ("float32", "float16"):
        kind = np.dtype(type_name(dtype)).type
        result = np.frompyfunc(lambda number: number if isinstance(number, Dim) else float(kind(number)), 1, 1)(result)
    return np.asarray(result, object)


def _power(base: Any, exponent: Any) -> Any:
    """Raises `OverflowError` for whole numbers that no integer type holds, before they are computed."""
    if isinstance(base, int) and isinstance(exponent, int) and exponent > _WIDEST_BITS and abs(base) > 1:
        raise OverflowError(f"{base} ** {exponent} has more than {_WIDEST_BITS} bits")
    return base**exponent


COMPARISONS = ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Xor")
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Abs": lambda a: dims.maximum(a, -a),
    "Add": operator.add,
    "And": lambda a, b: dims.select(a, b, 0),
    "Ceil": math.ceil,
    "Equal": dims.equal,
    "Exp": math.exp,
    "Floor": math.floor,
    "Greater": lambda a, b: dims.less(b, a),
    "GreaterOrEqual": lambda a, b: 1 - dims.less(a, b),
    "Identity": lambda a: a,
    "Less": dims.less,
    "LessOrEqual": lambda a, b: 1 - dims.less(b, a),
    "Log": math.log,
    "Max": dims.maximum,
    "Min": dims.minimum,
    "Mod": operator.mod,
    "Mul": operator.mul,
    "Neg": operator.neg,
    "Not": lambda a: 1 - a,
    "Or": lambda a, b: dims.select(a, 1, b),
    "Pow": _power,
    "Reciprocal": lambda a: 1 / a,
    "Relu": lambda a: dims.maximum(a, 0),
    "Round": round,
    "Sign": lambda a: (a > 0) - (a < 0),
    "Sqrt": math.sqrt,
    "Sub": operator.sub,
    "Sum": operator.add,
    "Xor": operator.xor,
}
"""Functions of elementwise operators, which take plain numbers and expressions; truth values are 1 and 0."""


@rule("Add", "Sub", "Mul", "Div", "Mod", "Pow", "Min", "Max", "Sum", "Mean", "BitShift", "BitwiseAnd", "BitwiseOr")
@rule("BitwiseXor", "PRelu", "SwiGLU", *COMPARISONS)
def binary(node: Node) -> Value:
    """Inputs broadcast to each other."""
    first = node.input()
    dtype = BOOL if node.op_type in COMPARISONS else first.dtype
    if node.version < 7 and len(node.inputs) == 2:  # before, only the second input was broadcast
        return Value(dtype, node.shape())
    shape = broadcast_shapes(node, [node.shape(index) for index in range(len(node.inputs))])
    function = _FUNCTIONS.get(node.op_type)
    if node.op_type == "Div":
        function = dims.true_quotient if is_floating(dtype) else dims.truncated_quotient
    elif node.op_type == "Mod" and node.integer("fmod"):
        function = math.fmod if is_floating(dtype) else lambda a, b: int(math.fmod(a, b))
    operands = known_operands(node) if function is not None else None
    elements = functools.reduce(functools.partial(_elementwise, function, dtype), operands) if operands else None
    return Value(dtype, shape, elements)


SAME = """
    Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Celu Clip Cos Cosh CumProd CumSum Elu Erf Exp Floor Gelu
    GroupNormalization HardSigmoid HardSwish Hardmax Identity InstanceNormalization LRN LeakyRelu Log LogSoftmax
    LpNormalization MeanVarianceNormalization Mish Neg Not RMSNormalization Reciprocal Relu ReverseSequence
    RotaryEmbedding Round Scatter ScatterElements ScatterND Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign
    Sqrt Swish Tan Tanh TensorScatter ThresholdedRelu Trilu
"""
"""Operators whose output has the type and the shape of the first input."""
_SAME_FUSED = """
    BiasAdd BiasGelu BiasSoftmax FastGelu Gelu GroupNorm MoE QLinearLeakyRelu QLinearSigmoid QLinearSoftmax
    QuickGelu RotaryEmbedding SkipGroupNorm Trilu
"""


@rule(SAME)
@rule("SimplifiedLayerNormalization")  # ONNX Runtime puts it into the standard domain
@rule(_SAME_FUSED, domains=(MICROSOFT,))
def same(node: Node) -> Value | list[Value | None]:
    """The first output has the type and the shape of the first input."""
    first = node.input()
    if first.proto is not None:
        return Value(0, None, proto=first.proto)
    function = _FUNCTIONS.get(node.op_type)
    if function is None:  # the elements of a weight are not even read
        return Value(first.dtype, first.shape)
    return Value(first.dtype, first.shape, _elementwise(function, first.dtype, first.elements))


@rule("LayerNormalization")
def layer_normalization(node: Node) -> list[Value | None]:
    """ONNX Runtime puts it into files of operator sets before 17, of which onnx infers not even its type."""
    first = node.input()
    shape, stash_type = first.shape, node.integer("stash_type", 1)
    if shape is None:
        statistics = Value(stash_type, None)
    else:
        axis = node.axis(len(shape), -1)
        statistics = Value(stash_type, (*shape[:axis], *(1 for _ in shape[axis:])))
    return [Value(first.dtype, shape), statistics, statistics]


@rule("BatchNormalization")
def batch_normalization(node: Node) -> list[Value | None]:
    statistics = Value(node.input(3).dtype, node.input(3).shape)
    return [Value(node.input().dtype, node.shape()), statistics, statistics, statistics, statistics]


@rule("Dropout")
def dropout(node: Node) -> list[Value | None]:
    first = node.input()
    return [Value(first.dtype, first.shape), Value(BOOL, first.shape)]


@rule("Cast", "CastLike")
def cast(node: Node) -> Value:
    """The input's shape, with the elements converted to another type."""
    first = node.input()
    dtype = node.integer("to") if node.op_type == "Cast" else node.input(1).dtype
    function: Callable[[Any], Any] | None = None
    if is_floating(dtype):
        function = _FUNCTIONS["Identity"]
    elif dtype == BOOL:
        function = _truth
    elif type_name(dtype).startswith(("int", "uint")):
        function = math.trunc
    return Value(dtype, first.shape, _elementwise(function, dtype, first.elements))


def _truth(number: Any) -> Any:
    """1 for a number that is not 0, else 0."""
    return 1 - dims.equal(number, 0)


@rule("Where")
def where(node: Node) -> Value:
    shape = broadcast_shapes(node, [node.shape(index) for index in range(3)])
    dtype = node.input(1).dtype
    operands = known_operands(node)
    return Value(dtype, shape, _elementwise(dims.select, dtype, *operands) if operands else None)


@rule("QuantizeLinear", domains=("", MICROSOFT))
def quantize(node: Node) -> Value:
    dtype = node.input(2).dtype if node.has(2) else node.integer("output_dtype", 2)
    return Value(dtype, node.shape())


@rule("DequantizeLinear", domains=("", MICROSOFT))
def dequantize(node: Node) -> Value:
    return Value(node.integer("output_dtype") or node.input(1).dtype, node.shape())


@rule("QLinearAdd", "QLinearMul", "QLinearWhere", domains=(MICROSOFT,))
def quantized_broadcast(node: Node) -> Value:
    """Each quantized tensor is followed by its scale and its zero point."""
    places = (0, 1, 4) if node.op_type == "QLinearWhere" else (0, 3)
    return Value(node.input(places[-1]).dtype, broadcast_shapes(node, [node.shape(place) for place in places]))
