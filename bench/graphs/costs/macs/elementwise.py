"""Work of elementwise operators, normalizations and reductions: no MACs, but other operations."""

from __future__ import annotations

from bench.graphs.costs.work import Work, numel, rule
from bench.graphs.operators import MICROSOFT, ML
from bench.graphs.shapes.node import Node

ONE_EACH = """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Celu Cos Cosh
    CumProd CumSum Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu
    Less LessOrEqual Log Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh
    Softplus Softsign Sqrt Sub Swish Tan Tanh ThresholdedRelu Xor
"""
EACH = {
    "Clip": 2,  # two comparisons
    "Softmax": 5,  # maximum, difference, exponential, sum, quotient
    "LogSoftmax": 5,
    "BatchNormalization": 2,  # a scale and a shift: the statistics are constants
    "LayerNormalization": 7,  # mean, difference, square, sum, quotient, scale, shift
    "InstanceNormalization": 7,
    "GroupNormalization": 7,
    "MeanVarianceNormalization": 5,
    "RMSNormalization": 4,  # square, sum, quotient, scale
    "SimplifiedLayerNormalization": 4,
    "LpNormalization": 3,
    "RotaryEmbedding": 3,
    "SwiGLU": 3,
    "QuantizeLinear": 2,  # scale and zero point
    "DequantizeLinear": 2,
    "DynamicQuantizeLinear": 4,  # minimum and maximum before
    "SoftmaxCrossEntropyLoss": 5,
}
"""Elementary operations for each element of the output."""
EACH_FUSED = {
    "Gelu": 1,
    "QuickGelu": 2,
    "BiasAdd": 2,
    "BiasGelu": 2,
    "FastGelu": 2,
    "BiasSplitGelu": 3,
    "BiasSoftmax": 6,
    "RotaryEmbedding": 3,
    "QuantizeLinear": 2,
    "DequantizeLinear": 2,
    "SkipLayerNormalization": 8,
    "SkipSimplifiedLayerNormalization": 5,
    "EmbedLayerNormalization": 9,  # two sums of embeddings before
    "GroupNorm": 7,
    "SkipGroupNorm": 8,
}
"""Elementary operations for each element of the output, of ONNX Runtime's own operators."""
EACH_QUANTIZED = {"QLinearAdd": 7, "QLinearMul": 7, "QLinearSigmoid": 5, "QLinearLeakyRelu": 5, "QLinearSoftmax": 9}
"""Elementary operations for each element of the output, of operators that convert integers to floats and back."""
REDUCED = {"ReduceL1": 2, "ReduceL2": 2, "ReduceLogSumExp": 2, "ReduceSumSquare": 2}
"""Elementary operations for each element of the input."""


@rule(ONE_EACH, *EACH)
@rule("Scaler", "Normalizer", "Binarizer", "Imputer", domains=(ML,))
def each(node: Node) -> Work:
    return Work(0, numel(node.out()) * EACH.get(node.op_type, 1))


@rule(*EACH_FUSED, domains=(MICROSOFT,))
def each_fused(node: Node) -> Work:
    return Work(0, numel(node.out()) * EACH_FUSED[node.op_type])


@rule("QLinearAdd", "QLinearMul", domains=(MICROSOFT,))
@rule(*[name for name in EACH_QUANTIZED if name not in ("QLinearAdd", "QLinearMul")], domains=(MICROSOFT,))
def each_quantized(node: Node) -> Work:
    return Work(0, numel(node.out()) * EACH_QUANTIZED[node.op_type])


@rule("QEmbedLayerNormalization", domains=(MICROSOFT,))
def quantized_embed_normalization(node: Node) -> Work:
    return Work(0, numel(node.out()) * 15)


@rule("Max", "Min", "Sum", "Mean")
def variadic(node: Node) -> Work:
    return Work(0, numel(node.out()) * (len(node.inputs) - (node.op_type != "Mean")))


@rule("LRN")
def local_response(node: Node) -> Work:
    """A window of squares is summed, then raised to a power and divided by."""
    return Work(0, numel(node.out()) * (2 * node.integer("size", 1) + 3))


@rule("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd")
@rule("ReduceSum", "ReduceSumSquare", "ArgMax", "ArgMin", "Hardmax")
@rule("QLinearReduceMean", domains=(MICROSOFT,))
def reduce(node: Node) -> Work:
    return Work(0, numel(node.shape()) * REDUCED.get(node.op_type, 1))


@rule("NegativeLogLikelihoodLoss")
def log_likelihood(node: Node) -> Work:
    return Work(0, numel(node.shape(1)))


@rule("HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix")
@rule("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial")
def made(node: Node) -> Work:
    return Work(0, numel(node.out()))
