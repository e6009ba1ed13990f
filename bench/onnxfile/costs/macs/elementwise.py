"""Work of elementwise operators, normalizations and reductions: no MACs, but other operations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from bench.onnxfile.costs.work import Work, numel, rule
from bench.onnxfile.operators import MICROSOFT, ML, NCHWC, OPENVINO
from bench.onnxfile.shapes.node import Node

_OPS_PER_OUTPUT = {
    ("", 1): """
        Abs Acos Acosh Add And Asin Asinh Atan Atanh Bernoulli BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor
        BlackmanWindow Ceil Celu Cos Cosh CumProd CumSum Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual
        HammingWindow HannWindow HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log MelWeightMatrix
        Mish Mod Mul Multinomial Neg Not Or PRelu Pow RandomNormal RandomNormalLike RandomUniform RandomUniformLike
        Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Swish Tan Tanh
        ThresholdedRelu Xor
    """,
    # Two comparisons; a scale and a shift, because the statistics are constants; a scale and a zero point.
    ("", 2): "Clip BatchNormalization DequantizeLinear QuantizeLinear",
    ("", 3): "LpNormalization RotaryEmbedding SwiGLU",
    # Square, sum, quotient, scale; minimum and maximum before a scale and a zero point.
    ("", 4): "RMSNormalization SimplifiedLayerNormalization DynamicQuantizeLinear",
    # Of a Softmax: maximum, difference, exponential, sum, quotient.
    ("", 5): "Softmax LogSoftmax MeanVarianceNormalization SoftmaxCrossEntropyLoss",
    # Mean, difference, square, sum, quotient, scale, shift.
    ("", 7): "LayerNormalization InstanceNormalization GroupNormalization",
    (ML, 1): "Scaler Normalizer Binarizer Imputer",
    # Operators that convert integers to floats and back have more operations than those of floats.
    # Two comparisons, a difference, a scale, a rounding; a scale and a shift back.
    (OPENVINO, 2): "SquaredDifference",
    (OPENVINO, 7): "FakeQuantize",
    (MICROSOFT, 1): "Gelu",
    (MICROSOFT, 2): "BiasAdd BiasGelu DequantizeLinear FastGelu QuantizeLinear QuickGelu",
    (MICROSOFT, 3): "BiasSplitGelu RotaryEmbedding",
    (MICROSOFT, 5): "QLinearLeakyRelu QLinearSigmoid SkipSimplifiedLayerNormalization",
    (MICROSOFT, 6): "BiasSoftmax",
    (MICROSOFT, 7): "GroupNorm QLinearAdd QLinearMul",
    (MICROSOFT, 8): "SkipGroupNorm SkipLayerNormalization",
    (MICROSOFT, 9): "EmbedLayerNormalization QLinearSoftmax",  # two sums of embeddings before the normalization
    (MICROSOFT, 15): "QEmbedLayerNormalization",
}
"""Operators by their domain and their number of elementary operations for each element of the output."""
_OPS_PER_INPUT = {
    ("", 1): """
        ArgMax ArgMin Col2Im GlobalAveragePool GlobalMaxPool Hardmax ReduceLogSum ReduceMax ReduceMean ReduceMin
        ReduceProd ReduceSum
    """,
    ("", 2): "GlobalLpPool ReduceL1 ReduceL2 ReduceLogSumExp ReduceSumSquare",
    (MICROSOFT, 1): "QLinearGlobalAveragePool QLinearReduceMean",
    (NCHWC, 1): "GlobalAveragePool GlobalMaxPool",
}
"""Operators by their domain and their number of elementary operations for each element of the first input."""


def _ops(number: int, shape_of: Callable[[Node], Sequence[int]], node: Node) -> Work:
    return Work(0, number * numel(shape_of(node)))


def _register(table: Mapping[tuple[str, int], str], shape_of: Callable[[Node], Sequence[int]]) -> None:
    for (domain, number), names in table.items():
        domains = (domain,) if domain else ("", OPENVINO)
        rule(names, domains=domains)(functools.partial(_ops, number, shape_of))


_register(_OPS_PER_OUTPUT, Node.out)
_register(_OPS_PER_INPUT, Node.shape)


@rule("Max Min Sum Mean", domains=("", OPENVINO))
def variadic(node: Node) -> Work:
    return Work(0, numel(node.out()) * (len(node.inputs) - (node.op_type != "Mean")))


@rule("LRN", domains=("", OPENVINO))
def local_response(node: Node) -> Work:
    """A window of squares is summed, then raised to a power and divided by."""
    return Work(0, numel(node.out()) * (2 * node.integer("size", 1) + 3))


@rule("NegativeLogLikelihoodLoss")
def log_likelihood(node: Node) -> Work:
    return Work(0, numel(node.shape(1)))
