"""The number of heads and the hidden size of the attention in an ONNX graph, read off the shapes and checked.

Shapes: N batch, H heads, T and S tokens of the queries and of the keys, K head size, D hidden size = H * K.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Sequence

from bench.api import Task
from bench.api.errors import RefusedError
from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.lazy import Stored
from bench.onnxfile.file.normalized import settle
from bench.onnxfile.shapes.dims import Size, shape_text
from bench.onnxfile.shapes.feeds import sample_shapes
from bench.onnxfile.shapes.inference import infer
from bench.onnxfile.shapes.node import Node, Value

_LAYOUT = {"Cast", "Dropout", "Expand", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
_SCALING = {"Add", "Div", "Mul", "Sub", "Where"}
"""Operators besides `_LAYOUT` that may lie between a projection, the scores and their use: scales, biases and masks."""


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
    inferred = infer(Stored(model=settle(model), path=None), sample_shapes(task))
    graph = _Graph([step.node for step in inferred.steps])
    layers = [layer for node in graph.nodes if node.op_type == "Softmax" and (layer := graph.layer(node)) is not None]
    if not layers:
        raise RefusedError("no attention in this model: no Softmax lies between two matrix products")
    if len(set(layers)) > 1:
        raise RefusedError(f"the attention of its layers differs: (heads, hidden size) are {sorted(set(layers))}")
    return Attention(num_heads=layers[0][0], hidden_size=layers[0][1], num_layers=len(layers))


class _Graph:
    """The nodes of a graph, each with the nodes before and after it."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self._made_by = {id(value): node for node in nodes for value in node.outputs if value is not None}
        self._read_by: dict[int, list[Node]] = collections.defaultdict(list)
        for node in nodes:
            for value in node.inputs:
                self._read_by[id(value)].append(node)

    def before(self, node: Node) -> list[Node]:
        """The nodes that make the inputs of a node."""
        return [self._made_by[id(value)] for value in node.inputs if id(value) in self._made_by]

    def after(self, node: Node) -> list[Node]:
        """The nodes that read the outputs of a node."""
        return [reader for value in node.outputs if value is not None for reader in self._read_by[id(value)]]

    def layer(self, softmax: Node) -> tuple[int, int] | None:
        """Heads and hidden size of one layer; None if the Softmax does not lie between two products.

        Raises:
            RefusedError: the sizes are not known, or contradict each other.
        """
        scores, context = _nearest(softmax, self.before), _nearest(softmax, self.after)
        if scores is None or context is None:
            return None
        where = f"the attention at {softmax.name!r}"
        scores_NHTS = softmax.input().shape or ()
        num_heads = scores_NHTS[1] if len(scores_NHTS) == 4 else None
        if not isinstance(num_heads, int):
            text = shape_text(size if isinstance(size, int) else "?" for size in scores_NHTS)
            raise RefusedError(f"{where}: its heads cannot be told, the scores are {text}, not (N, H, T, S)")
        roles = {"queries": scores.input(0), "keys": scores.input(1), "values": context.input(1)}
        widths = {role: self._projected_width(value) for role, value in roles.items()}
        hidden_size = widths["values"]
        if not isinstance(hidden_size, int):
            raise RefusedError(f"{where}: its hidden size cannot be told, no weights are found before its values")
        head_size = _width(scores.input(0))
        if set(widths.values()) != {hidden_size} or head_size != hidden_size / num_heads:
            raise RefusedError(
                f"{where}: {num_heads} heads of size {head_size} contradict the projections' widths, {widths}; "
                "they must be equal, and the product of the two"
            )
        return num_heads, hidden_size

    def _projected_width(self, value: Value) -> Size | None:
        """The last axis of the output of the nearest product with weights before a value."""
        node = self._made_by.get(id(value))
        if node is not None and node.op_type in ("MatMul", "Gemm"):
            return _width(value) if self._is_weight(node.input(1)) else None
        if node is None or node.op_type not in _LAYOUT | _SCALING:
            return None
        # Of a sum or product with a bias or a scale, the side that is computed; what a Reshape is told leads nowhere.
        computed = [item for item in node.inputs if item is not None and not self._is_weight(item)]
        widths = (self._projected_width(item) for item in computed)
        return next((width for width in widths if width is not None), None)

    def _is_weight(self, value: Value) -> bool:
        """Whether a value is stored, or made of a stored value by operators of `_LAYOUT` alone."""
        while not value.is_weight and id(value) in self._made_by and self._made_by[id(value)].op_type in _LAYOUT:
            value = self._made_by[id(value)].input()
        return value.is_weight


def _nearest(start: Node, neighbours: Callable[[Node], list[Node]]) -> Node | None:
    """The nearest MatMul or Gemm, found breadth first across operators that may lie between."""
    queue, seen = [start], {start}
    while queue:
        for node in neighbours(queue.pop(0)):
            if node.op_type in ("MatMul", "Gemm"):
                return node
            if node.op_type in _LAYOUT | _SCALING | {"IsNaN"} and node not in seen:
                seen.add(node)
                queue.append(node)
    return None


def _width(value: Value) -> Size | None:
    """The last axis of a value; None where the shape is not known."""
    return value.shape[-1] if value.shape else None
