"""Translations of operations on elements, of reductions and of normalizations."""

from __future__ import annotations

from typing import Any

from bench.graphs.deferred import onnx
from bench.plugins.engines.openvino.graph.operation import Operation, UntranslatableError, rule

SAME = """
    Abs Acos Acosh Asin Asinh Atan Atanh BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cos Cosh Equal Erf Exp Floor Greater
    IsInf IsNaN Less Log Mish Relu Sigmoid Sign Sin Sinh Sqrt Tan Tanh
"""
RENAMED = {
    "Add": "Add",
    "Ceiling": "Ceil",
    "ConvertLike": "CastLike",
    "Divide": "Div",
    "GreaterEqual": "GreaterOrEqual",
    "HSwish": "HardSwish",
    "LessEqual": "LessOrEqual",
    "LogicalAnd": "And",
    "LogicalNot": "Not",
    "LogicalOr": "Or",
    "LogicalXor": "Xor",
    "Maximum": "Max",
    "Minimum": "Min",
    "Multiply": "Mul",
    "Negative": "Neg",
    "Power": "Pow",
    "Select": "Where",
    "SoftPlus": "Softplus",
    "SoftSign": "Softsign",
    "Subtract": "Sub",
}
"""ONNX operators by operations with the same inputs and no attributes."""


@rule(SAME, *RENAMED)
def same(op: Operation) -> None:
    if op.attributes.get("auto_broadcast", "numpy") == "pdpd":
        raise UntranslatableError
    op.result(RENAMED.get(op.kind, op.kind), *op.all())


@rule("NotEqual")
def not_equal(op: Operation) -> None:
    op.result("Not", op.make("Equal", *op.all()))


@rule("Mod")
def mod(op: Operation) -> None:
    """The remainder has the sign of the dividend, as in C."""
    op.result("Mod", *op.all(), fmod=1)


@rule("FloorMod")
def floor_mod(op: Operation) -> None:
    """The remainder has the sign of the divisor; ONNX Runtime's Mod computes it of integers alone."""
    if op.node.get_element_type().is_real():
        times = op.make("Floor", op.make("Div", *op.all()))
        op.result("Sub", op.x(), op.make("Mul", times, op.x(1)))
    else:
        op.result("Mod", *op.all())


@rule("SquaredDifference")
def squared_difference(op: Operation) -> None:
    difference = op.make("Sub", *op.all())
    op.result("Mul", difference, difference)


@rule("Convert")
def convert(op: Operation) -> None:
    op.result("Cast", op.x(), to=op.graph.dtype(op.node.output(0)))


@rule("Round")
def round_(op: Operation) -> None:
    if op.attributes.get("mode", "half_to_even") != "half_to_even":
        raise UntranslatableError
    op.result("Round", op.x())


@rule("Clamp")
def clamp(op: Operation) -> None:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(op.graph.dtype(op.node.output(0))).name
    op.result("Clip", op.x(), op.constant(op.attributes["min"], dtype), op.constant(op.attributes["max"], dtype))


@rule("Elu")
def elu(op: Operation) -> None:
    op.result("Elu", op.x(), alpha=float(op.attributes["alpha"]))


@rule("Gelu")
def gelu(op: Operation) -> None:
    is_tanh = op.attributes.get("approximation_mode", "ERF").lower() == "tanh"
    op.result("Gelu", op.x(), approximate="tanh" if is_tanh else "none")


@rule("HSigmoid")
def h_sigmoid(op: Operation) -> None:
    op.result("HardSigmoid", op.x(), alpha=1 / 6, beta=0.5)


@rule("HardSigmoid")
def hard_sigmoid(op: Operation) -> None:
    op.result("HardSigmoid", op.x(), alpha=op.number(1), beta=op.number(2))


@rule("Selu")
def selu(op: Operation) -> None:
    op.result("Selu", op.x(), alpha=op.number(1), gamma=op.number(2))


@rule("Swish")
def swish(op: Operation) -> None:
    op.result("Swish", op.x(), alpha=op.number(1) if op.has(1) else 1.0)


@rule("PRelu")
def p_relu(op: Operation) -> None:
    """A slope with one axis belongs to the channels, which are the second axis of the data."""
    slope, rank = op.shape(1), op.rank()
    if len(slope) == 1 and slope[0] != 1 and rank > 2:
        op.result("PRelu", op.x(), op.shaped(1, (*slope, *[1] * (rank - 2))))
    else:
        op.result("PRelu", op.x(), op.x(1))


@rule("Softmax", "LogSoftmax")
def softmax(op: Operation) -> None:
    op.result(op.kind, op.x(), axis=op.attributes["axis"])


@rule("ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum")
def reduction(op: Operation) -> None:
    op.result(op.kind, op.x(), op.indices(1), keepdims=int(op.attributes["keep_dims"]))


@rule("CumSum")
def cumulative_sum(op: Operation) -> None:
    exclusive, reverse = (int(op.attributes[name]) for name in ("exclusive", "reverse"))
    op.result("CumSum", op.x(), op.constant(op.integers(1)[0]), exclusive=exclusive, reverse=reverse)


@rule("MVN")
def mean_variance(op: Operation) -> None:
    if not op.has(1) or not op.attributes["normalize_variance"]:
        raise UntranslatableError
    axes = [axis % op.rank() for axis in op.integers(1)]
    op.result("MeanVarianceNormalization", op.x(), axes=axes)


@rule("NormalizeL2")
def l2(op: Operation) -> None:
    if len(axes := op.integers(1)) != 1:
        raise UntranslatableError
    op.result("LpNormalization", op.x(), axis=axes[0], p=2)


@rule("LRN")
def local_response(op: Operation) -> None:
    if op.integers(1) != [1]:
        raise UntranslatableError
    numbers: dict[str, Any] = {name: float(op.attributes[name]) for name in ("alpha", "beta", "bias")}
    op.result("LRN", op.x(), size=op.attributes["size"], **numbers)


@rule("BatchNormInference")
def batch_normalization(op: Operation) -> None:
    """The first version of the operation has the data after scale and shift."""
    is_first = op.node.get_type_info().version_id == "opset1"
    order = (2, 0, 1, 3, 4) if is_first else (0, 1, 2, 3, 4)
    op.result("BatchNormalization", *(op.x(index) for index in order), epsilon=float(op.attributes["epsilon"]))


@rule("GroupNormalization")
def group_normalization(op: Operation) -> None:
    number, epsilon = op.attributes["num_groups"], float(op.attributes["epsilon"])
    op.result("GroupNormalization", *op.all(), num_groups=number, epsilon=epsilon)
