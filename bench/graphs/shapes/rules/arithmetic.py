"""Shape rules of elementwise operators, which also compute elements that are known, because shapes depend on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from bench.graphs.deferred import np
from bench.graphs.file.dtypes import is_floating, type_name
from bench.graphs.operators import MICROSOFT, NCHWC
from bench.graphs.shapes import dims
from bench.graphs.shapes.dims import Dim, Shape
from bench.graphs.shapes.node import MAX_ELEMENTS, Node, ShapeError, Value, array
from bench.graphs.shapes.rules.registry import rule

BOOL, INT64 = 9, 7  # of onnx.TensorProto.DataType


def broadcast_shapes(node: Node, shapes: Sequence[Shape]) -> Shape:
    """The shape that several shapes broadcast to, as NumPy does it.

    Raises:
        ShapeError: they do not fit.
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


def _each(function: Callable[..., Any], *operands: np.ndarray) -> np.ndarray | None:
    """Apply a function to every element; None if it cannot take an expression, or there are too many elements."""
    try:
        if math.prod(np.broadcast_shapes(*[operand.shape for operand in operands])) > MAX_ELEMENTS:  # a causal mask
            return None
        result = np.frompyfunc(function, len(operands), 1)(*operands)
    except (TypeError, ZeroDivisionError, OverflowError, ValueError):
        return None
    return result if isinstance(result, np.ndarray) else array([result], ())


def _exact(number: Any) -> Any:
    """A float as an int where it is whole, so that it can be calculated with expressions."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _mixed(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Let a function take an expression and a whole float."""

    def mixed(one: Any, other: Any) -> Any:
        if isinstance(one, Dim) or isinstance(other, Dim):
            one, other = _exact(one), _exact(other)
        return function(one, other)

    return mixed


def _true_quotient(one: Any, other: Any) -> Any:
    if not isinstance(one, Dim) and not isinstance(other, Dim):
        return one / other
    quotient = one // other
    if quotient * other != one:
        raise TypeError("no whole number")
    return quotient


def _power(one: Any, other: Any) -> Any:
    if not isinstance(one, Dim):
        return one**other
    if not 0 <= other <= 8 or other != int(other):
        raise TypeError("no small whole number")
    return dims.product([one] * int(other))


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": _mixed(lambda a, b: a + b),
    "Sub": _mixed(lambda a, b: a - b),
    "Mul": _mixed(lambda a, b: a * b),
    "Min": _mixed(lambda a, b: dims.minimum(a, b) if _whole(a, b) else min(a, b)),
    "Max": _mixed(lambda a, b: dims.maximum(a, b) if _whole(a, b) else max(a, b)),
    "Sum": _mixed(lambda a, b: a + b),
    "Mod": lambda a, b: a % b,
    "Pow": _power,
    "And": lambda a, b: dims.select(a, b, 0),
    "Or": lambda a, b: dims.select(a, 1, b),
    "Xor": lambda a, b: int(a) ^ int(b),
    "Equal": _mixed(lambda a, b: dims.equal(a, b) if _whole(a, b) else int(a == b)),
    "Less": _mixed(lambda a, b: dims.less(a, b) if _whole(a, b) else int(a < b)),
    "Greater": _mixed(lambda a, b: dims.less(b, a) if _whole(a, b) else int(a > b)),
    "LessOrEqual": _mixed(lambda a, b: 1 - dims.less(b, a) if _whole(a, b) else int(a <= b)),
    "GreaterOrEqual": _mixed(lambda a, b: 1 - dims.less(a, b) if _whole(a, b) else int(a >= b)),
}
"""The functions of operators with two inputs; truth values are 1 and 0."""
COMPARISONS = ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Xor")


def _whole(*numbers: Any) -> bool:
    return all(isinstance(number, (int, Dim)) for number in numbers)


def _rounded(value: np.ndarray | None, dtype: int) -> np.ndarray | None:
    """Elements as their type can hold them: float32 arithmetic decides how a size is rounded."""
    if value is None or type_name(dtype) not in ("float32", "float16"):
        return value
    kind = np.dtype(type_name(dtype)).type
    return _each(_unless_size(lambda number: float(kind(number))), value)


@rule("Add", "Sub", "Mul", "Div", "Mod", "Pow", "Min", "Max", "Sum", "Mean", "BitShift", "BitwiseAnd", "BitwiseOr")
@rule("BitwiseXor", "PRelu", *COMPARISONS)
def binary(node: Node) -> Value:
    """Inputs broadcast to each other."""
    first = node.input()
    dtype = BOOL if node.op_type in COMPARISONS else first.dtype
    if node.version < 7 and len(node.inputs) == 2:  # then only the second was broadcast, from an axis on
        shape = node.shape()
    else:
        shape = broadcast_shapes(node, [node.shape(index) for index in range(len(node.inputs))])
    return Value(dtype, shape, _rounded(_binary_elements(node, first.dtype), dtype))


def _binary_elements(node: Node, dtype: int) -> np.ndarray | None:
    operands = []
    for value in node.inputs:
        if value is not None:
            if value.elements is None:
                return None
            operands.append(value.elements)
    function = BINARY.get(node.op_type)
    if node.op_type == "Div":
        function = _true_quotient if is_floating(dtype) else dims.truncated_quotient
    if node.op_type == "Mod" and node.integer("fmod"):
        function = math.fmod if is_floating(dtype) else lambda a, b: int(math.fmod(a, b))
    if function is None or (node.version < 7 and len(operands) == 2):
        return None
    result: np.ndarray | None = operands[0]
    for operand in operands[1:]:
        result = None if result is None else _each(function, result, operand)
    return result


def _unless_size(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Apply a function to plain numbers, and leave expressions as they are: they are whole numbers."""
    return lambda number: number if isinstance(number, Dim) else function(number)


UNARY: dict[str, Callable[[Any], Any]] = {
    "Identity": lambda a: a,
    "Neg": lambda a: -a,
    "Abs": lambda a: dims.maximum(a, -a) if isinstance(a, Dim) else abs(a),
    "Not": lambda a: 1 - a if isinstance(a, Dim) else int(not a),
    "Floor": _unless_size(lambda a: float(math.floor(a))),
    "Ceil": _unless_size(lambda a: float(math.ceil(a))),
    "Round": _unless_size(lambda a: float(round(a))),
    "Sqrt": math.sqrt,
    "Exp": math.exp,
    "Log": math.log,
    "Reciprocal": lambda a: 1 / a,
    "Relu": lambda a: dims.maximum(a, 0) if isinstance(a, Dim) else max(a, 0),
    "Sign": lambda a: (a > 0) - (a < 0),
}
SAME = """
    Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Celu Clip Cos Cosh CumProd CumSum Elu Erf Exp Floor Gelu
    GroupNormalization HardSigmoid HardSwish Hardmax Identity InstanceNormalization LRN LeakyRelu Log LogSoftmax
    LpNormalization MeanVarianceNormalization Mish Neg Not RMSNormalization Reciprocal Relu ReverseSequence
    RotaryEmbedding Round Scatter ScatterElements ScatterND Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign
    Sqrt Swish Tan Tanh TensorScatter ThresholdedRelu Trilu
"""
"""Operators whose output has the type and the shape of the first input."""
SAME_FUSED = """
    BiasAdd BiasGelu BiasSoftmax FastGelu Gelu GroupNorm MoE QLinearLeakyRelu QLinearSigmoid QLinearSoftmax
    QuickGelu RotaryEmbedding SkipGroupNorm Trilu
"""


@rule(SAME)
@rule("SimplifiedLayerNormalization")  # ONNX Runtime puts it into the standard domain
@rule(SAME_FUSED, domains=(MICROSOFT,))
def same(node: Node) -> Value | list[Value | None]:
    """The first output is like the first input."""
    first = node.input()
    function = UNARY.get(node.op_type)
    elements = first.elements if function is not None else None
    if function is not None and elements is not None:
        elements = _rounded(_each(function, elements), first.dtype)
    if first.proto is not None:
        return Value(0, None, proto=first.proto)
    return Value(first.dtype, first.shape, elements)


@rule("LayerNormalization")
def layer_normalization(node: Node) -> list[Value | None]:
    first = node.input()
    shape = node.shape()
    axis = node.axis(len(shape), -1)
    statistics = Value(node.integer("stash_type", 1), (*shape[:axis], *(1 for _ in shape[axis:])))
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
    """Elements in another type."""
    first = node.input()
    dtype = node.integer("to") if node.op_type == "Cast" else node.input(1).dtype
    elements = first.elements
    if elements is None:
        return Value(dtype, first.shape)
    if is_floating(dtype):
        converted = _rounded(_each(_unless_size(float), elements), dtype)
    elif dtype == BOOL:
        converted = _each(
            lambda number: 1 - dims.equal(number, 0) if isinstance(number, Dim) else int(bool(number)), elements
        )
    elif type_name(dtype).startswith(("int", "uint")):
        converted = _each(_unless_size(int), elements)
    else:
        converted = None
    return Value(dtype, first.shape, converted)


@rule("Where")
def where(node: Node) -> Value:
    shape = broadcast_shapes(node, [node.shape(index) for index in range(3)])
    operands = [one for index in range(3) if (one := node.input(index).elements) is not None]
    elements = None
    if len(operands) == 3:
        elements = _each(lambda c, a, b: dims.select(c, a, b) if _whole(a, b) else (a if c else b), *operands)
    return Value(node.input(1).dtype, shape, elements)


@rule("QuantizeLinear", domains=("", MICROSOFT))
def quantize(node: Node) -> Value:
    dtype = node.input(2).dtype if node.has(2) else node.integer("output_dtype", 2)
    return Value(dtype, node.shape())


@rule("DequantizeLinear", domains=("", MICROSOFT))
def dequantize(node: Node) -> Value:
    return Value(node.integer("output_dtype") or node.input(1).dtype, node.shape())


@rule("DynamicQuantizeLinear")
def dynamic_quantize(node: Node) -> list[Value | None]:
    return [Value(2, node.shape()), Value(1, ()), Value(2, ())]


@rule("QLinearAdd", "QLinearMul", domains=(MICROSOFT,))
def quantized_binary(node: Node) -> Value:
    return Value(node.input().dtype, broadcast_shapes(node, [node.shape(0), node.shape(3)]))


@rule("ReorderOutput", domains=(NCHWC,))
def reorder_output(node: Node) -> Value:
    """Back from blocks of channels."""
    shape = list(node.shape())
    channels = node.integer("channels") or shape[1]
    axes = [shape[0], *shape[2:], channels] if node.integer("channels_last") else [shape[0], channels, *shape[2:]]
    return Value(node.input().dtype, axes)


@rule("SwiGLU")
def gated(node: Node) -> Value:
    return Value(node.input().dtype, broadcast_shapes(node, [node.shape(), node.shape(1)]))
