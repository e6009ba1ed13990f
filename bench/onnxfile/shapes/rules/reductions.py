"""Shape rules of operators that reduce axes, or choose along an axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from bench.onnxfile.deferred import np
from bench.onnxfile.operators import MICROSOFT
from bench.onnxfile.shapes.dims import Dim, minimum
from bench.onnxfile.shapes.node import INT64, Node, Value
from bench.onnxfile.shapes.rules.registry import rule

_AXES_ARE_INPUT_SINCE = 18
_FOLDS: dict[str, Callable[[list[Any]], Any]] = {"ReduceProd": math.prod, "ReduceSum": sum}


@rule(
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
)
@rule("QLinearReduceMean", domains=(MICROSOFT,))
def reduce(node: Node) -> Value:
    first, sizes = node.input(), node.shape()
    since = 13 if node.op_type == "ReduceSum" else _AXES_ARE_INPUT_SINCE
    stated_axes = node.integers("axes") if node.domain else node.static_integers("axes", 1, since=since)
    if not stated_axes and node.integer("noop_with_empty_axes"):
        return Value(first.dtype, sizes, first.elements)
    axes = {node.checked_axis(axis, len(sizes)) for axis in stated_axes or range(len(sizes))}
    keep = node.integer("keepdims", 1)
    result = [1 if axis in axes else size for axis, size in enumerate(sizes) if keep or axis not in axes]
    elements, fold = first.elements, _FOLDS.get(node.op_type)
    if elements is None or fold is None or len(sizes) != 1 or not elements.size or axes != {0}:
        return Value(first.dtype, result)
    return Value(first.dtype, result, np.full(result, fold(elements.tolist()), object))


@rule("TopK")
def top_k(node: Node) -> list[Value | None]:
    sizes = list(node.shape())
    along = node.axis(len(sizes), -1)
    number = node.integer("k") if node.version < 10 else node.number(1)
    # A K that depends on data is at most the size of the axis.
    sizes[along] = minimum(number, sizes[along]) if isinstance(number, Dim) else number
    return [Value(node.input().dtype, sizes), Value(INT64, sizes)]
