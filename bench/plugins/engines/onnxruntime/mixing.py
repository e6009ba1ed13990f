"""The nodes of an ONNX model whose precision can be chosen one by one.

They are the nodes of the main graph that read a stored weight, in their order, after the same preparation in all
places: weights are settled, ONNX Runtime's basic optimizations are applied, and each Gemm is a MatMul and an Add.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.api import Part, Task
from bench.onnxfile.deferred import onnx
from bench.onnxfile.edits.opset import raise_opset
from bench.onnxfile.edits.rewire import load_settled, matmul_from_gemm, separate_names
from bench.onnxfile.weights.quantizable import find_weights
from bench.plugins.engines.onnxruntime.optimized import load_optimized
from bench.plugins.engines.onnxruntime.static import read_inside

FLOAT, DYNAMIC, STATIC = "f", "d", "s"
BLOCKS, WIDE_BLOCKS, WIDEST_BLOCKS, TWO_BITS = "q", "k", "v", "t"
OPERATORS = {
    DYNAMIC: ("MatMul", "LSTM", "Gather"),
    STATIC: ("Conv", "ConvTranspose", "MatMul", "Gather"),
    BLOCKS: ("MatMul", "Gather"),
    WIDE_BLOCKS: ("MatMul", "Gather"),
    WIDEST_BLOCKS: ("MatMul", "Gather"),
    TWO_BITS: ("MatMul",),
}
"""Operators that take a precision below float32. Convolutions whose activations are rounded in each run are left out:
they are several times slower than in float32 (ONNX Runtime 1.31.1)."""
BETWEEN = ("Relu", "Clip", "MaxPool")
"""Operators without weights that go on in 8 bits behind a node whose ranges were measured before."""
_STANDARD = ("", "ai.onnx")
"""Names of the domain of ONNX's own operators."""
_OPSET = 13
"""The operator set from which on DequantizeLinear knows channels."""


INT4_OPSET = 21
"""The operator set that numbers of 4 bits are a part of."""


def prepared(source: Path, task: Task, opset: int = _OPSET) -> tuple[onnx.ModelProto, Mapping[str, str]]:
    """The model whose nodes are counted, and the names that its inputs and outputs had, by their new names."""
    model = raise_opset(load_settled(source), opset, task)
    model = load_optimized(model.SerializeToString(), level="basic")
    matmul_from_gemm(model)
    return model, separate_names(model)  # quantizers do not look whether x_scale or x0 is free


def parts(model: onnx.ModelProto) -> list[Part]:
    """The nodes of the main graph of a prepared model that have weights, in their order."""
    shapes = {weight.name: weight.shape for weight in find_weights(model)}
    weighted_parts = []
    for node in model.graph.node:
        if node.domain not in _STANDARD:
            continue
        read = {name: shapes[name] for name in node.input if name in shapes}
        if read:
            letters = (letter for letter, operators in OPERATORS.items() if node.op_type in operators)
            weighted_parts.append(
                Part(
                    name=node.name,
                    operator=node.op_type,
                    alike=f"{node.op_type} {' '.join('x'.join(map(str, shape)) for shape in read.values())}",
                    letters="".join((FLOAT, *letters)),
                    num_weights=sum(map(math.prod, read.values())),
                    weights=" ".join(read),
                )
            )
    return weighted_parts


def going_on(model: onnx.ModelProto, names: Sequence[str]) -> list[str]:
    """Names of the nodes between that read only what nodes of these names make, or each other."""
    chosen, activations = set(names), set(read_inside(model))
    inside = {output for node in model.graph.node if node.name in chosen for output in node.output}
    followers = []
    for node in model.graph.node:
        if node.op_type in BETWEEN and node.input[0] in inside and node.name not in activations:
            followers.append(node.name)
            inside |= set(node.output)
    return followers
