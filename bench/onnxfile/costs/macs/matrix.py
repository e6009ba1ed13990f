"""Work of matrix products and of other operators on matrices.

Shapes: M rows, N columns, K summed over.
"""

from __future__ import annotations

import math

from bench.onnxfile.costs.work import Work, numel, rule
from bench.onnxfile.operators import MICROSOFT, ML, OPENVINO
from bench.onnxfile.shapes.node import Node
from bench.onnxfile.shapes.rules.products import einsum_sizes, matmul_operands


@rule("MatMul", "MatMulInteger", "QLinearMatMul")
def matmul(node: Node) -> Work:
    outputs = numel(node.out())
    return Work(outputs * node.shape()[-1], 2 * outputs if node.op_type == "QLinearMatMul" else 0)


@rule("DynamicQuantizeMatMul MatMulIntegerToFloat", domains=(MICROSOFT,))
def scaled_matmul(node: Node) -> Work:
    """A product of integers, scaled; the first operand may have to be quantized before."""
    dynamic = node.op_type == "DynamicQuantizeMatMul"
    biased = node.has(4 if dynamic else 6)
    outputs = numel(node.out())
    return Work(outputs * node.shape()[-1], outputs * (1 + biased) + dynamic * 4 * numel(node.shape()))


@rule("FusedMatMul", "TransposeMatMul", domains=(MICROSOFT,))
def fused_matmul(node: Node) -> Work:
    scaled = numel(node.out()) if node.floating("alpha", 1.0) != 1 else 0
    inner = matmul_operands(node)[0][-1]
    assert isinstance(inner, int)
    return Work(numel(node.out()) * inner, scaled)


@rule("Gemm")
@rule("FusedGemm", "QGemm", domains=(MICROSOFT,))
def gemm(node: Node) -> Work:
    inner = node.shape()[0] if node.integer("transA") else node.shape()[1]
    outputs = numel(node.out())
    if node.op_type == "QGemm":
        return Work(outputs * inner, outputs * (2 + node.has(6)))
    scaled = (node.floating("alpha", 1.0) != 1) + (node.floating("beta", 1.0) != 1 and node.has(2))
    activated = bool(node.text("activation"))
    return Work(outputs * inner, outputs * (node.has(2) + scaled + activated))


@rule("MatMulNBits MatMulBnb4", domains=(MICROSOFT,))
def matmul_n_bits(node: Node) -> Work:
    """A product with weights of a few bits, which are brought to floats on the way: a scale and a zero point each."""
    outputs, weights = numel(node.out()), node.integer("N") * node.integer("K")
    return Work(outputs * node.integer("K"), 2 * weights + outputs * (node.op_type == "MatMulNBits" and node.has(5)))


@rule("MoE", domains=(MICROSOFT,))
def mixture_of_experts(node: Node) -> Work:
    """Each token goes through k experts of two or three layers."""
    tokens = numel(node.shape()[:-1]) * node.integer("k", 1)
    layers = [numel(node.shape(index)[1:]) for index in (2, 4, 6) if node.has(index)]
    return Work(tokens * sum(layers))


@rule("Einsum", domains=("", OPENVINO))
def einsum(node: Node) -> Work:
    """Each combination of indices is a product of all inputs, one multiplication fewer than there are inputs."""
    sizes, output, leading = einsum_sizes(node)
    total = numel([size for size in (*sizes.values(), *leading) if isinstance(size, int)])
    summed = set(sizes) - set(output)
    if len(node.inputs) > 1 and summed:
        return Work(total * (len(node.inputs) - 1))
    return Work(0, total if len(node.inputs) > 1 or summed else 0)


@rule("Det")
def determinant(node: Node) -> Work:
    """The LU decomposition of a matrix takes a third of the cube of its size."""
    size = node.shape()[-1]
    return Work(numel(node.shape()[:-2]) * (size**3 // 3))


@rule("DFT", "STFT")
def fourier(node: Node) -> Work:
    """The fast transform takes 5 N log2 N real operations for each signal, and half of that for a real signal.

    Source: Johnson, Frigo, "A Modified Split-Radix FFT With Fewer Arithmetic Operations", IEEE Transactions on Signal
    Processing 55(1), 2007, for the usual count.
    """
    signal, result = node.shape(), node.out()
    if node.op_type == "STFT":
        length = (result[2] - 1) * 2 if node.integer("onesided", 1) else result[2]
        transforms = result[0] * result[1]
    else:
        axis = node.integer("axis", 1) if node.version < 20 else (node.items(2)[0] if node.has(2) else -2)
        axis = node.checked_axis(axis, len(signal))
        length = max(signal[axis], result[axis])
        transforms = numel(result) // max(result[axis] * result[-1], 1)
    each = int(5 * length * math.log2(length)) if length > 1 else 0
    return Work(0, transforms * each // (2 if signal[-1] == 1 else 1))


@rule("LinearClassifier", "LinearRegressor", "SVMClassifier", "SVMRegressor", domains=(ML,))
def kernel_machine(node: Node) -> Work:
    """A product with the coefficients, after a product with each support vector if the model has any."""
    samples = node.shape()[0] if len(node.shape()) > 1 else 1
    names = [name for name in ("support_vectors", "coefficients") if name in node.attributes]
    return Work(samples * sum(len(node.attributes[name].floats) for name in names))
