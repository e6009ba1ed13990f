"""Work of convolutions, pools and interpolations.

Shapes: N batch, C channels, M output channels, G groups; then as many spatial axes as there are.
"""

from __future__ import annotations

import math

from bench.graphs.costs.work import NOTHING, Work, numel, rule
from bench.graphs.operators import MICROSOFT, NCHWC
from bench.graphs.shapes.node import Node


def _convolution(node: Node, weights: int, bias: int | None) -> Work:
    """Each output sums over a window of C / G channels: weights (M, C / G, ...)."""
    outputs = numel(node.out())
    macs = outputs * numel(node.shape(weights)[1:])
    added = outputs if bias is not None and node.has(bias) else 0
    if node.domain:  # ONNX Runtime's operators have an activation, and may add another input
        added += outputs * (bool(node.text("activation")) + (node.op_type != "QLinearConv" and node.has(3)))
    return Work(macs, added)


@rule("Conv", "DeformConv")
@rule("FusedConv", "NhwcConv", "NhwcFusedConv", domains=(MICROSOFT,))
@rule("Conv", domains=(NCHWC,))
def conv(node: Node) -> Work:
    if node.op_type == "DeformConv":  # each tap of the window is interpolated between 4 pixels of its own
        macs, other = _convolution(node, 1, 3)
        taps = numel(node.out()[2:]) * numel(node.shape(1)[2:]) * node.out()[0] * node.shape()[1]
        return Work(macs, other + taps * 8)
    return _convolution(node, 1, 2)


@rule("ConvInteger")
def conv_integer(node: Node) -> Work:
    return _convolution(node, 1, None)


@rule("QLinearConv")
@rule("QLinearConv", domains=(MICROSOFT,))
def quantized_conv(node: Node) -> Work:
    macs, other = _convolution(node, 3, 8)
    return Work(macs, other + 2 * numel(node.out()))


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
@rule("NhwcMaxPool", domains=(MICROSOFT,))
@rule("QLinearAveragePool", domains=(MICROSOFT,))
def pool(node: Node) -> Work:
    window = math.prod(node.integers("kernel_shape") or ())
    each = {"LpPool": 2 * window, "MaxPool": window, "NhwcMaxPool": window}.get(node.op_type, window + 1)
    return Work(0, numel(node.out()) * each)


@rule("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
@rule("GlobalAveragePool", "GlobalMaxPool", domains=(NCHWC,))
@rule("QLinearGlobalAveragePool", domains=(MICROSOFT,))
def global_pool(node: Node) -> Work:
    return Work(0, numel(node.shape()) * (2 if node.op_type == "GlobalLpPool" else 1))


@rule("MaxRoiPool", "RoiAlign")
def regions(node: Node) -> Work:
    """Each sample of a region is interpolated between 4 pixels; an adaptive number of samples counts as one."""
    if node.op_type == "MaxRoiPool":
        return NOTHING
    samples = max(node.integer("sampling_ratio"), 1) ** 2
    return Work(0, numel(node.out()) * samples * 8)


@rule("GridSample", "Resize", "Upsample")
@rule("Upsample", domains=(NCHWC,))
def interpolation(node: Node) -> Work:
    """A multiplication and an addition for each neighbour that an output is interpolated between."""
    sizes, result = node.shape(), node.out()
    if node.op_type == "GridSample":
        axes = len(sizes) - 2
    else:
        axes = sum(one != other for one, other in zip(sizes, result, strict=True))
    mode = node.text("mode", "linear" if node.op_type == "GridSample" else "nearest")
    reach = {"nearest": 0, "linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}.get(mode, 2)
    return Work(0, 2 * numel(result) * reach**axes if reach and axes else 0)


@rule("Col2Im")
def col2im(node: Node) -> Work:
    return Work(0, numel(node.shape()))


@rule("AffineGrid")
def affine_grid(node: Node) -> Work:
    """Each coordinate is a product with a row of the matrix, which has one column more than there are axes."""
    return Work(numel(node.out()) * node.shape()[2])
