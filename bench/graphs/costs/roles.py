"""Which stored tensors are parameters, and how many: learned numbers, however few bits each is stored with."""

from __future__ import annotations

import functools
import math
import re
from typing import TYPE_CHECKING

from bench.graphs.costs.macs import INPUT_NAMES
from bench.graphs.file.dtypes import bits, is_floating, type_name
from bench.graphs.shapes.node import Node, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NOT_LEARNED = re.compile(r".+_(scale|zero_point)|scales|zero_points|absmax|g_idx|roi|(input_)?(mean|var)")
"""Names of inputs that no training changes: what quantization adds, statistics, and sizes.

Statistics are not parameters in PyTorch and Keras either.
"""
QUANTIZED_BIAS = {"QLinearConv": "B", "QGemm": "C", "DequantizeLinear": "x"}
"""Inputs whose 32-bit integers are parameters: biases, in the scale of the products they are added to."""


def parameters(node: Node, index: int) -> int:
    """Parameters that a node reads as one of its inputs, 0 where it is none.

    Floats of one axis or more are parameters, and integers of 16 bits or fewer, which quantization makes of floats;
    others are shapes, axes and indices. A float without an axis is a constant of a formula.
    """
    value = node.inputs[index]
    if value is None or not value.shape or not value.is_weight:
        return 0
    name, may_be_learned = _input(node.domain, node.op_type, node.version, index)
    if not may_be_learned:
        return 0
    if not is_learned_type(value.dtype) and QUANTIZED_BIAS.get(node.op_type) != name:
        return 0
    return _packed(node, name) or numel(value)


def learned(nodes: Iterable[Node]) -> dict[int, int]:
    """Parameters in each tensor that a node reads as such, by the `id` of its value."""
    found: dict[int, int] = {}
    for node in nodes:
        for index, value in enumerate(node.inputs):
            if value is not None and value.is_weight and (number := parameters(node, index)):
                found[id(value)] = number
    return found


@functools.cache
def is_learned_type(dtype: int) -> bool:
    """Whether elements of the type may be learned numbers."""
    return is_floating(dtype) or (type_name(dtype).startswith(("int", "uint")) and bits(dtype) <= 16)


def numel(value: Value) -> int:
    return math.prod(value.numbers or ())


def _packed(node: Node, name: str) -> int:
    """Elements of a tensor that holds several in each byte; 0 for any other."""
    if node.op_type in ("MatMulNBits", "MatMulBnb4") and name == "B":
        return node.integer("N") * node.integer("K")
    if node.op_type == "GatherBlockQuantized" and name == "data" and type_name(node.input(0).dtype) == "uint8":
        return numel(node.input(0)) * 8 // node.integer("bits", 4)
    return 0


@functools.lru_cache(maxsize=4096)  # files from outside may name anything
def _input(domain: str, op_type: str, version: int, index: int) -> tuple[str, bool]:
    """The name of an operator's input, the last of which may be there many times, and whether training may change it.

    A file decides the version, so what is kept is as many as there are kinds of nodes with weights in files.
    """
    names = input_names(domain, op_type, version)
    name = names[min(index, len(names) - 1)] if names else ""
    return name, not NOT_LEARNED.fullmatch(name)


@functools.cache
def input_names(domain: str, op_type: str, version: int) -> Sequence[str]:
    """Names of an operator's inputs in order; empty for one that is not known."""
    import onnx

    try:
        return tuple(one.name for one in onnx.defs.get_schema(op_type, version, domain).inputs)
    except onnx.defs.SchemaError:
        return INPUT_NAMES.get((domain, op_type), ())
