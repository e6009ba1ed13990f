"""Work of operations of OpenVINO whose inputs or attributes are other than those of ONNX's operator of that name.

Shapes: N batch, C channels, M output channels, G groups, then spatial axes; T steps, D directions, I inputs, H hidden
units.
"""

from __future__ import annotations

import math

from bench.onnxfile.costs.macs.attention import SOFTMAX
from bench.onnxfile.costs.macs.recurrent import GATES, OTHER_OPS
from bench.onnxfile.costs.work import Work, numel, rule
from bench.onnxfile.operators import OPENVINO
from bench.onnxfile.shapes.node import Node

_IN_OPENVINO = (OPENVINO,)


@rule("MatMul", domains=_IN_OPENVINO)
def product(node: Node) -> Work:
    shape = node.shape()
    summed = shape[-2] if node.integer("transpose_a") and len(shape) > 1 else shape[-1]
    return Work(numel(node.out()) * summed)


@rule("Conv ConvTranspose", domains=_IN_OPENVINO)
def convolution(node: Node) -> Work:
    """Weights (M, C, ...), or (G, M / G, C / G, ...); of a ConvTranspose (C, M, ...), or (G, C / G, M / G, ...)."""
    moved, weights = node.shape() if node.op_type == "ConvTranspose" else node.out(), node.shape(1)
    return Work(numel(moved) * numel(weights[len(weights) - len(node.shape()) + 1 :]))


@rule("LSTMSequence GRUSequence RNNSequence LSTMCell GRUCell RNNCell", domains=_IN_OPENVINO)
def recurrent(node: Node) -> Work:
    """X (N, T, I), W (D, gates * H, I); of a cell (N, I) and (gates * H, I)."""
    kind = node.op_type.removesuffix("Sequence").removesuffix("Cell")
    weights = node.shape(2 + (kind == "LSTM") + node.op_type.endswith("Sequence"))
    units = numel(node.shape()[:-1]) * math.prod(weights[:-1]) // GATES[kind]
    hidden = weights[-2] // GATES[kind]
    return Work(units * GATES[kind] * (weights[-1] + hidden), units * OTHER_OPS[kind])


@rule("ScaledDotProductAttention", domains=_IN_OPENVINO)
def attention(node: Node) -> Work:
    """Queries (..., L, K), keys (..., S, K), values (..., S, V)."""
    *batch, queries, inner = node.shape()
    keys, width = node.shape(2)[-2:]
    scores = math.prod(batch) * queries * keys
    return Work(scores * (inner + width), scores * (1 + SOFTMAX + (node.has(3) and bool(node.shape(3)))))


@rule("AvgPool MaxPool", domains=_IN_OPENVINO)
def pool(node: Node) -> Work:
    window = math.prod(node.integers("kernel") or ())
    return Work(0, numel(node.out()) * (window + (node.op_type == "AvgPool")))


@rule("AdaptiveAvgPool AdaptiveMaxPool", domains=_IN_OPENVINO)
def adaptive_pool(node: Node) -> Work:
    return Work(0, numel(node.shape()))


@rule("Resize GridSample", domains=_IN_OPENVINO)
def interpolation(node: Node) -> Work:
    """A multiplication and an addition for each neighbour that an output is interpolated between."""
    sizes, result = node.shape(), node.out()
    axes = len(sizes) - 2 if node.op_type == "GridSample" else sum(map(int.__ne__, sizes, result))
    reach = {"nearest": 0, "cubic": 4, "bicubic": 4, "bicubic_pillow": 4}.get(node.text("mode", "linear"), 2)
    return Work(0, 2 * numel(result) * reach**axes if reach and axes else 0)
