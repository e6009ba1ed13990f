"""The attention of a decoder's pass in an ONNX graph, found between the tensors of its cache, and written as one node.

A pass names its caches (`bench.api.decoder.Decoder`), so each layer is found from them: the keys and values that are
appended to the cache, the product with the softmax that reads the values, and the queries before that softmax.

Shapes: H heads of queries, G of keys and values, K head size, T tokens of the pass, M most tokens of a text.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Sequence

from bench.api.decoder import IDS, Decoder
from bench.api.errors import RefusedError
from bench.onnxfile.deferred import np, onnx
from bench.onnxfile.edits.order import replace_nodes
from bench.onnxfile.edits.rewire import drop_unread
from bench.onnxfile.file.replace import replace_all
from bench.onnxfile.sessions import cpu_session

_MICROSOFT = "com.microsoft"
SAME = ("Cast", "Identity")
"""Operators that leave a value as it is; exporters write Casts from float32 to float32."""
_REPEATING = ("Unsqueeze", "Expand", "Tile", "Reshape", *SAME)
"""Operators that may lie between the values of G heads and the product that takes them for H heads."""
_TURNING = {"Transpose": 1, "Slice": 1, "Split": 1, "Neg": 1, "Cast": 1, "Identity": 1, "Mul": 2, "Add": 2, "Concat": 2}
"""Operators of a rotary embedding, each with the number of its inputs that hold data."""
PREFIX = "grouped"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layer:
    """The attention of a layer by the names of its values.

    Attributes:
        queries: (1, T, H * K), before their rotation; likewise `keys` and `values`, (1, T, G * K).
        cos: what the rotation multiplies with, (1, 1, T, K); likewise `sin`.
        scale: of the scores before the softmax.
        context: (1, T, H * K), before the last projection.
    """

    queries: str
    keys: str
    values: str
    cos: str
    sin: str
    scale: float
    context: str


class Finder:
    """Finds the attention of each layer in a graph whose constants are initializers."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._made_by = {name: node for node in graph.node for name in node.output}
        self._read_by: dict[str, list[onnx.NodeProto]] = collections.defaultdict(list)
        for node in graph.node:
            for name in node.input:
                self._read_by[name].append(node)
        self._stored = {tensor.name: tensor for tensor in graph.initializer}

    def layer(self, number: int) -> Layer:
        """The attention of a layer.

        Raises:
            RefusedError: it has another form.
        """
        keys, values = (self._appended(number, part) for part in ("key", "value"))
        weighing = self._reader(f"present.{number}.value", number)
        scores, scale = self._scores(self._maker(weighing.input[0], "Softmax", number).input[0], number)
        queries = scores.input[0]
        tables = self._tables(queries, number)
        if tables != self._tables(keys, number):
            raise _refused(number, "queries and keys are rotated by different tables")
        merged = weighing.output[0]
        for operator in ("Transpose", "Reshape"):
            reader = self._read_by[merged]
            if [node.op_type for node in reader] != [operator]:
                raise _refused(number, f"no {operator} alone reads {merged}")
            merged = reader[0].output[0]
        queries, keys, values = (self._projected(name, number) for name in (queries, keys, values))
        return Layer(
            queries=queries, keys=keys, values=values, cos=tables[0], sin=tables[1], scale=scale, context=merged
        )

    def _appended(self, number: int, part: str) -> str:
        """The keys or values of the pass, (1, G, T, K), which are appended to a cache."""
        joined = self._maker(f"present.{number}.{part}", "Concat", number)
        past = f"past_key_values.{number}.{part}"
        if len(joined.input) != 2 or joined.input[0] != past:
            raise _refused(number, f"present.{number}.{part} is not {past} and what the pass adds")
        return str(joined.input[1])

    def _reader(self, name: str, number: int) -> onnx.NodeProto:
        """The product of the softmax with the values."""
        queue = [name]
        while queue:
            for node in self._read_by[queue.pop()]:
                if node.op_type == "MatMul":
                    return node
                if node.op_type in _REPEATING:
                    queue += node.output
        raise _refused(number, f"no matrix product reads {name}")

    def _scores(self, name: str, number: int) -> tuple[onnx.NodeProto, float]:
        """The product of queries and keys that leads to a value, and the scale between the two."""
        products = list(self._products(name, 1.0))
        if len(products) != 1:
            raise _refused(number, f"{len(products)} matrix products lead to its softmax by sums and scales")
        return products[0]

    def _products(self, name: str, scale: float) -> Iterator[tuple[onnx.NodeProto, float]]:
        node = self._made(name)
        if node is None:
            return
        if node.op_type == "MatMul":
            yield node, scale
        elif node.op_type == "Add":
            for each in node.input:
                yield from self._products(each, scale)
        elif node.op_type in ("Mul", "Div"):
            numbers = [self._number(each) for each in node.input]
            if node.op_type == "Mul" and numbers[0] is not None:
                yield from self._products(node.input[1], scale * numbers[0])
            elif numbers[1] is not None:
                factor = numbers[1] if node.op_type == "Mul" else 1 / numbers[1]
                yield from self._products(node.input[0], scale * factor)

    def _number(self, name: str) -> float | None:
        """A stored number; None where a value is something else."""
        tensor = self._stored.get(name)
        return None if tensor is None or np.prod(tensor.dims) != 1 else float(onnx.numpy_helper.to_array(tensor).item())

    def _tables(self, name: str, number: int) -> tuple[str, str]:
        """The cosines and sines by which a value x is rotated: x cos + (-x2, x1) sin, with x = (x1, x2)."""
        rotation = {}
        for term in self._maker(name, "Add", number).input:
            product = self._maker(term, "Mul", number)
            tables = [each for each in product.input if not self._projections(each)]
            makers = {node.op_type for each in product.input if (node := self._made(each)) is not None}
            if len(tables) == 1:
                rotation["sin" if "Concat" in makers else "cos"] = tables[0]
        if len(rotation) != 2:
            raise _refused(number, f"{name} is no rotary embedding")
        return rotation["cos"], rotation["sin"]

    def _projected(self, name: str, number: int) -> str:
        """What is split into heads, and perhaps rotated, to give a value."""
        projections = self._projections(name)
        if len(projections) != 1:
            raise _refused(number, f"{len(projections)} values are split into heads before {name}")
        return projections.pop()

    def _projections(self, name: str) -> set[str]:
        node = self._made_by.get(name)
        if node is None:
            return set()
        if node.op_type == "Reshape":
            return {node.input[0]}
        data = node.input[: _TURNING.get(node.op_type, 0)]
        return set().union(*(self._projections(each) for each in data))

    def _maker(self, name: str, operator: str, number: int) -> onnx.NodeProto:
        node = self._made(name)
        if node is None or node.op_type != operator:
            raise _refused(number, f"no {operator} makes {name}")
        return node

    def _made(self, name: str) -> onnx.NodeProto | None:
        """The node that makes a value, behind those that leave it as it is; None for inputs and weights."""
        node = self._made_by.get(name)
        while node is not None and node.op_type in SAME:
            node = self._made_by.get(node.input[0])
        return node


def _refused(number: int, what: str) -> RefusedError:
    return RefusedError(f"the attention of layer {number} is not one of grouped queries with rotated keys: {what}")


def _rotations(model: onnx.ModelProto, names: Sequence[str], decoder: Decoder) -> dict[str, np.ndarray]:
    """The tables that a graph computes to rotate by, for the positions 0 to M - 1: float32 (M, K / 2) by name.

    They are computed by the graph itself, for a prompt of M tokens.

    Raises:
        RefusedError: they have another form.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    outputs = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names]
    replace_all(copy.graph.output, outputs)
    replace_nodes(copy, copy.graph.node)
    drop_unread(copy)
    num_tokens, size = decoder.max_positions, decoder.head_size
    feeds = empty_feeds(decoder, num_tokens)
    arrays = cpu_session(copy.SerializeToString()).run(list(names), feeds)
    tables = {}
    for name, array in zip(names, arrays, strict=True):
        if array.size != num_tokens * size or array.shape[-2:] != (num_tokens, size):
            raise RefusedError(f"{name} has the shape {array.shape}: it rotates by other numbers than one table holds")
        table = array.reshape(num_tokens, size)
        if not np.array_equal(table[:, : size // 2], table[:, size // 2 :]):
            raise RefusedError(f"{name} does not rotate the two halves of a head by the same numbers")
        tables[name] = np.ascontiguousarray(table[:, : size // 2])
    return tables


def empty_feeds(decoder: Decoder, num_tokens: int) -> dict[str, np.ndarray]:
    """Inputs of a pass over a prompt of so many tokens, all of them the same."""
    caches = np.zeros((1, decoder.num_groups, 0, decoder.head_size), np.float32)
    return {IDS: np.zeros((1, num_tokens), np.int64), **{spec.name: caches for spec in decoder.inputs[1:]}}


def write(model: onnx.ModelProto, layers: Sequence[Layer], decoder: Decoder) -> None:
    """Replace the attention of all layers, in place, by nodes of GroupQueryAttention, which rotate as well.

    Where the three projections are products with stored weights alone, they become one.
    """
    graph = model.graph
    names = dict.fromkeys(name for layer in layers for name in (layer.cos, layer.sin))
    tables = _rotations(model, list(names), decoder)
    shared = {table.tobytes(): table for table in tables.values()}  # exporters may write a table for each layer
    for place, table in enumerate(shared.values()):
        _store(graph, f"{PREFIX}_table_{place}", table)
    stored_as = {name: f"{PREFIX}_table_{[*shared].index(table.tobytes())}" for name, table in tables.items()}
    nodes = _lengths(graph)
    made_by = {name: node for node in graph.node for name in node.output}
    replaced = {layer.context for layer in layers}
    for number, layer in enumerate(layers):
        projected = [layer.queries, layer.keys, layer.values]
        if packed := _packed(graph, [made_by.get(name) for name in projected], f"{PREFIX}_qkv_{number}"):
            nodes.append(packed)
            projected = [packed.output[0], "", ""]
        past, present = (
            [f"{prefix}.{number}.{part}" for part in ("key", "value")] for prefix in ("past_key_values", "present")
        )
        replaced.update(present)
        nodes.append(
            onnx.helper.make_node(
                "GroupQueryAttention",
                [*projected, *past, f"{PREFIX}_last", f"{PREFIX}_total", stored_as[layer.cos], stored_as[layer.sin]],
                [layer.context, *present],
                name=f"{PREFIX}_{number}",
                domain=_MICROSOFT,
                num_heads=decoder.num_heads,
                kv_num_heads=decoder.num_groups,
                scale=layer.scale,
                do_rotary=1,
            )
        )
    replace_nodes(model, [*nodes, *(node for node in graph.node if replaced.isdisjoint(node.output))])
    drop_unread(model)
    if all(entry.domain != _MICROSOFT for entry in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid(_MICROSOFT, 1))
    graph.ClearField("value_info")


def _lengths(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The nodes that tell GroupQueryAttention the tokens of the cache after the pass: all, and the index of the last.

    Both are int32 (1,), and follow from the shapes of the ids and of the first cache.
    """
    for name, value in (("one", 1), ("two", 2)):
        _store(graph, f"{PREFIX}_{name}", np.array([value], np.int64))

    def node(operator: str, inputs: Sequence[str], output: str, **attributes: int) -> onnx.NodeProto:
        own = [name if name in (IDS, "past_key_values.0.key") else f"{PREFIX}_{name}" for name in inputs]
        return onnx.helper.make_node(operator, own, [f"{PREFIX}_{output}"], name=f"{PREFIX}_{output}", **attributes)

    to = onnx.TensorProto.INT32
    return [
        node("Shape", [IDS], "shape"),
        node("Gather", ["shape", "one"], "tokens"),
        node("Shape", ["past_key_values.0.key"], "past_shape"),
        node("Gather", ["past_shape", "two"], "past"),
        node("Add", ["past", "tokens"], "total_wide"),
        node("Sub", ["total_wide", "one"], "last_wide"),
        node("Cast", ["total_wide"], "total", to=to),
        node("Cast", ["last_wide"], "last", to=to),
    ]


def _packed(graph: onnx.GraphProto, makers: Sequence[onnx.NodeProto | None], name: str) -> onnx.NodeProto | None:
    """One product instead of several of the same value with stored weights; None where they are something else."""
    stored = {tensor.name: tensor for tensor in graph.initializer}
    products = [node for node in makers if node is not None and node.op_type == "MatMul" and node.input[1] in stored]
    if len(products) < len(makers) or len({node.input[0] for node in products}) > 1:
        return None
    weights = [onnx.numpy_helper.to_array(stored[node.input[1]]) for node in products]
    _store(graph, f"{name}_weight", np.concatenate(weights, axis=-1))
    return onnx.helper.make_node("MatMul", [products[0].input[0], f"{name}_weight"], [name], name=name)


def _store(graph: onnx.GraphProto, name: str, array: np.ndarray) -> None:
    graph.initializer.append(onnx.numpy_helper.from_array(array, name))
