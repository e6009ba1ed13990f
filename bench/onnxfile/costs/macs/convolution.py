"""Work of convolutions, pools and interpolations.

Shapes: N batch, C channels, M output channels, G groups; then as many spatial axes as there are.
"""

from __future__ import annotations

import math

from bench.onnxfile.costs.work import Work, numel, rule
from bench.onnxfile.operators import MICROSOFT, NCHWC
from bench.onnxfile.shapes.node import Node


@rule("Conv ConvInteger DeformConv QLinearConv")
@rule("FusedConv NhwcConv NhwcFusedConv QLinearConv", domains=(MICROSOFT,))
@rule("Conv", domains=(NCHWC,))
def conv(node: Node) -> Work:
    """Each output sums over a window of C / G channels: weights (M, C / G, ...)."""
    outputs, quantized = numel(node.out()), node.op_type == "QLinearConv"
    macs = outputs * numel(node.shape(3 if quantized else 1)[1:])
    bias = {"QLinearConv": 8, "DeformConv": 3}.get(node.op_type, 2)
    each = 2 * quantized + (node.op_type != "ConvInteger" and node.has(bias))
    if node.domain:  # ONNX Runtime's operators have an activation, and may add another input
        each += bool(node.text("activation")) + (not quantized and node.has(3))
    if node.op_type == "DeformConv":  # each tap of the window is interpolated between 4 pixels of its own
        taps = numel(node.out()[2:]) * numel(node.shape(1)[2:]) * node.out()[0] * node.shape()[1]
        return Work(macs, outputs * each + taps * 8)
    return Work(macs, outputs * each)


@rule("ConvTranspose")
def conv_transpose(node: Node) -> Work:
    """Each input is multiplied by a window of M / G channels: weights (C, M / G, ...)."""
    return Work(numel(node.shape()) * numel(node.shape(1)[1:]), numel(node.out()) if node.has(2) else 0)


@rule("CausalConvWithState")
def causal_conv(node: Node) -> Work:
    outputs = numel(node.out())
    activated = outputs if node.text("activation") not in ("", "none") else 0
    return Work(outputs * node.shape(1)[2], (outputs if node.has(2) else 0) + activated)


@rule("MaxPool", "AveragePool", "LpPool")
@rule("MaxPool", "AveragePool", domains=(NCHWC,))
@rule("NhwcMaxPool QLinearAveragePool", domains=(MICROSOFT,))
def pool(node: Node) -> Work:
    window = math.prod(node.integers("kernel_shape") or ())
    each = {"LpPool": 2 * window, "MaxPool": window, "NhwcMaxPool": window}.get(node.op_type, window + 1)
    return Work(0, numel(node.out()) * each)


@rule("RoiAlign")
def regions(node: Node) -> Work:
    """Each sample of a region is interpolated between 4 pixels; an adaptive number of samples counts as one."""
    return Work(0, numel(node.out()) * max(node.integer("sampling_ratio"), 1) ** 2 * 8)


@rule("GridSample", "Resize", "Upsample")
@rule("Upsample", domains=(NCHWC,))
def interpolation(node: Node) -> Work:
    """A multiplication and an addition for each neighbour that an output is interpolated between."""
    sizes, result = node.shape(), node.out()
    if node.op_type == "GridSample":
        axes = len(sizes) - 2
    else:
        axes = sum(size != other for size, other in zip(sizes, result, strict=True))
    mode = node.text("mode", "linear" if node.op_type == "GridSample" else "nearest")
    reach = {"nearest": 0, "linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}.get(mode, 2)
    return Work(0, 2 * numel(result) * reach**axes if reach and axes else 0)


@rule("AffineGrid")
def affine_grid(node: Node) -> Work:
    """Each coordinate is a product with a row of the matrix, which has one column more than there are axes."""
    return Work(numel(node.out()) * node.shape()[2])
