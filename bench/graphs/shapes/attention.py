"""The number of heads and the hidden size of the attention in an ONNX graph, read off the shapes and checked.

Shapes: N batch, H heads, T and S tokens of the queries and of the keys, K head size, D hidden size = H * K.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from bench.api import Task
from bench.api.errors import RefusedError
from bench.graphs.deferred import onnx
from bench.graphs.file.lazy import Stored
from bench.graphs.file.wiring import Wiring
from bench.graphs.shapes.dims import Shape, Size
from bench.graphs.shapes.feeds import sample_shapes
from bench.graphs.shapes.inference import infer

Shapes: TypeAlias = Mapping[str, Shape]
Nodes: TypeAlias = "Mapping[str, onnx.NodeProto]"
LAYOUT = {"Cast", "Dropout", "Expand", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
SCALING = {"Add", "Div", "Mul", "Sub", "Where"}
"""Operators besides `LAYOUT` that may lie between a projection, the scores and their use: scales, biases and masks."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attention:
    """The attention of every layer of a model.

    Attributes:
        hidden_size: of all heads together.
    """

    num_heads: int
    hidden_size: int
    num_layers: int


def find_attention(model: onnx.ModelProto, task: Task) -> Attention:
    """Heads and hidden size, the same in every layer.

    A Softmax between two products is a layer. H is an axis of its input (N, H, T, S). D is the last axis of what the
    nearest product with weights gives before the queries, the keys and the values, and must be the same for the three.
    H * K = D must hold for the heads' own size, the last axis of the queries.

    Raises:
        RefusedError: there is no attention, its sizes are not known, they contradict each other, or layers differ.
    """
    wiring = Wiring(Stored(model=model, path=None))
    values = infer(Stored(model=wiring.model, path=None), sample_shapes(task)).values
    shapes = {name: value.shape for name, value in values.items() if value.shape is not None}
    made_by = {name: wiring.nodes[index] for name, (index, _) in wiring.made_by.items()}
    read_by = {name: [wiring.nodes[index] for index, _ in places] for name, places in wiring.readers.items()}
    weights = set(wiring.weights)
    found = []
    for node in wiring.nodes:
        if node.op_type == "Softmax" and (products := _products(node, made_by, read_by)) is not None:
            found.append(_layer(node, *products, shapes, made_by, weights))
    if not found:
        raise RefusedError("no attention in this model: no Softmax lies between two matrix products")
    if len(set(found)) > 1:
        raise RefusedError(f"the attention of its layers differs: (heads, hidden size) are {sorted(set(found))}")
    return Attention(num_heads=found[0][0], hidden_size=found[0][1], num_layers=len(found))


def _products(
    softmax: onnx.NodeProto, made_by: Nodes, read_by: Mapping[str, list[onnx.NodeProto]]
) -> tuple[onnx.NodeProto, onnx.NodeProto] | None:
    """The MatMul that gives the scores, and the one that takes the values by them."""
    passes = LAYOUT | SCALING | {"IsNaN"}

    def before(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        return (made_by[name] for name in node.input if name in made_by)

    def after(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        return (reader for name in node.output for reader in read_by.get(name, ()))

    scores, context = _nearest(softmax, before, passes), _nearest(softmax, after, passes)
    return (scores, context) if scores is not None and context is not None else None


def _nearest(
    start: onnx.NodeProto, neighbours: Callable[[onnx.NodeProto], Iterator[onnx.NodeProto]], passes: set[str]
) -> onnx.NodeProto | None:
    """The nearest MatMul or Gemm, found breadth first across operators that may lie between."""
    queue, seen = [start], {start.output[0]}
    while queue:
        for node in neighbours(queue.pop(0)):
            if node.op_type in ("MatMul", "Gemm"):
                return node
            if node.op_type in passes and node.output[0] not in seen:
                seen.add(node.output[0])
                queue.append(node)
    return None


def _layer(
    softmax: onnx.NodeProto,
    scores: onnx.NodeProto,
    context: onnx.NodeProto,
    shapes: Shapes,
    made_by: Nodes,
    weights: set[str],
) -> tuple[int, int]:
    """Heads and hidden size of one layer."""
    where = f"the attention at {softmax.name or softmax.output[0]!r}"
    scores_NHTS = shapes.get(softmax.input[0], ())
    num_heads = scores_NHTS[1] if len(scores_NHTS) == 4 else None
    if not isinstance(num_heads, int):
        raise RefusedError(f"{where}: its heads cannot be told, the scores are {_text(scores_NHTS)}, not (N, H, T, S)")
    widths = {}
    for role, name in {"queries": scores.input[0], "keys": scores.input[1], "values": context.input[1]}.items():
        widths[role] = _projected_width(name, shapes, made_by, weights)
    hidden_size = widths["values"]
    if not isinstance(hidden_size, int):
        raise RefusedError(f"{where}: its hidden size cannot be told, no weights are found before its values")
    head_size = (shapes.get(scores.input[0]) or (None,))[-1]
    if set(widths.values()) != {hidden_size} or head_size != hidden_size / num_heads:
        raise RefusedError(
            f"{where}: {num_heads} heads of size {head_size} contradict the projections' widths, {widths}; "
            "they must be equal, and the product of the two"
        )
    return num_heads, hidden_size


def _projected_width(name: str, shapes: Shapes, made_by: Nodes, weights: set[str]) -> Size | None:
    """The last axis of the output of the nearest product with weights before a value."""
    if name not in made_by:
        return None
    node = made_by[name]
    if node.op_type in ("MatMul", "Gemm"):
        return (shapes.get(name) or (None,))[-1] if _is_weight(node.input[1], made_by, weights) else None
    if node.op_type not in LAYOUT | SCALING:
        return None
    # Of a sum or product with a bias or a scale, the side that is computed; what a Reshape is told leads nowhere.
    computed = [item for item in node.input if item and not _is_weight(item, made_by, weights)]
    widths = (_projected_width(item, shapes, made_by, weights) for item in computed)
    return next((width for width in widths if width is not None), None)


def _is_weight(name: str, made_by: Nodes, weights: set[str]) -> bool:
    """Whether a value is stored, or made of a stored value by operators of `LAYOUT` alone."""
    while name not in weights and name in made_by and made_by[name].op_type in LAYOUT:
        name = made_by[name].input[0]
    return name in weights


def _text(shape: Shape) -> str:
    return "(" + ", ".join(str(size) if isinstance(size, int) else "?" for size in shape) + ")"
