"""A digest of what an ONNX file computes, without the names it uses, to compare files by.

The digest is a Merkle hash. A weight is hashed by its content, an input by its position, a node by its operator, its
attributes and the hashes of what it reads; so a hash stands for the whole computation that leads to a value, and
neither names nor the order of nodes enter it. Time is linear in the size of the file; of the weights on disk, one is in
memory at a time.
"""

from __future__ import annotations

import collections
import hashlib
import struct
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from bench.api.errors import ArtifactError, InputError
from bench.onnxfile.deferred import np, onnx
from bench.onnxfile.file import refusals
from bench.onnxfile.file.crashes import hurts, is_crashing
from bench.onnxfile.file.lazy import Stored, read
from bench.onnxfile.file.replace import replace_all

_ABSENT = b""
"""Stands for an optional input or output that is left out."""


def canonical_digest(path: Path) -> str:
    """SHA-256 that two ONNX files share if they are the same computation with the same weights.

    It ignores: names of values, nodes and dynamic dimensions, the order of nodes, doc strings, producer, metadata,
    inferred shapes, unused opset imports, and how tensor data are stored. It depends on: operators, attributes (an
    attribute that is left out differs from its default written out), weights bit for bit, how many equal weights and
    nodes there are and how often each is used, inputs and outputs with their order, names and types, opset versions in
    use, and local functions. A weight in a Constant node differs from the same weight among the initializers.

    Raises:
        ArtifactError: the file cannot be read, or uses a value before it is made.
        InputError: external data are missing, or lie outside the file's folder.
    """
    stored = _read(path)
    model = stored.model
    graph = model.graph
    content = _graph(graph, Scope(stored=stored))
    symbols: dict[str, int] = {}
    inputs, outputs = (
        [sha256(value.name.encode(), _type(value.type, symbols)) for value in values]
        for values in (fed_inputs(graph), graph.output)
    )
    functions = sorted(_function(function, Scope(stored=stored)) for function in model.functions)
    used = {_domain(node) for node in all_nodes(model)}
    opsets = _opsets(model.opset_import, used)
    return sha256(b"model", content, sha256(*inputs), sha256(*outputs), sha256(*functions), opsets).hex()


def operator_counts(path: Path) -> dict[str, int]:
    """Number of nodes of each operator in a file, by name; nodes of subgraphs and local functions are included.

    The domain comes before the name of operators that are not ONNX's own, as in `com.microsoft.FusedConv`.

    Raises:
        ArtifactError: the file cannot be read.
    """
    return dict(sorted(collections.Counter(operator_names(_read(path).model)).items()))


def operator_names(model: onnx.ModelProto) -> Iterator[str]:
    """The name of each node's operator, with the domain before it where the domain is not ONNX's own."""
    return (f"{_domain(node)}.{node.op_type}".removeprefix(".") for node in all_nodes(model))


def _read(path: Path) -> Stored:
    try:
        return read(path)
    except InputError as error:
        raise ArtifactError(f"cannot read {path.name} as ONNX: {error}") from error


def sha256(*parts: bytes | memoryview) -> bytes:
    """SHA-256 of some parts and of where each of them ends."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(struct.pack("<Q", len(part)))
        digest.update(part)
    return digest.digest()


def _number(value: int) -> bytes:
    return struct.pack("<q", value)


class Scope(ChainMap[str, list[Any]]):
    """Hashes of the values that the nodes of a graph can read, each with how often it is read, by name.

    A subgraph has the scope `inner` of the scope around it.

    Args:
        maps: as for a `ChainMap`.
        stored: the model whose tensors may be on disk; None where they are all in memory.
    """

    def __init__(self, *maps: dict[str, list[Any]], stored: Stored | None = None) -> None:
        super().__init__(*maps)
        self.stored = stored

    def inner(self) -> Scope:
        """The scope of a subgraph."""
        return Scope({}, *self.maps, stored=self.stored)  # type: ignore[arg-type]

    def define(self, name: str, value: bytes) -> None:
        """Add a value of this graph."""
        self[name] = [value, 0]

    def define_inputs(self, names: Iterable[str]) -> None:
        """Add the inputs of this graph, which differ by their position."""
        depth = len(self.maps) - 1
        for position, name in enumerate(names):
            self.define(name, sha256(b"input", _number(depth), _number(position)))

    def read(self, name: str) -> bytes:
        """The hash of a value of this graph or of one around it."""
        if not name:
            return _ABSENT
        if name not in self:
            raise ArtifactError(f"the graph reads the value {name!r} before it is made")
        self[name][1] += 1
        return bytes(self[name][0])

    def uses(self, names: Iterable[str]) -> bytes:
        """How often each value is read, which tells a shared weight from two equal weights."""
        return b"".join(_number(self[name][1] if name else 0) for name in names)


def _graph(graph: onnx.GraphProto, scope: Scope) -> bytes:
    """Hash of a graph: of its outputs in order, and of all its nodes and weights, used or not."""
    tensors = {tensor.name: tensor_digest(tensor, scope.stored) for tensor in graph.initializer}
    tensors |= {sparse.values.name: _sparse(sparse, scope.stored) for sparse in graph.sparse_initializer}
    for name, value in tensors.items():
        scope.define(name, value)
    inputs = {value.name: None for value in graph.input}  # a set in order
    scope.define_inputs(name for name in inputs if name not in tensors)
    body = _body(graph.node, [value.name for value in graph.output], scope)
    # A weight that is an input, too, can be replaced at each run, so no runtime may fold it.
    weights = [
        sha256(value, scope.uses([name]), b"replaceable" if name in inputs else b"") for name, value in tensors.items()
    ]
    return sha256(_number(len(inputs)), body, *sorted(weights))


def _body(nodes: Iterable[onnx.NodeProto], outputs: list[str], scope: Scope) -> bytes:
    digests = []
    for node in nodes:
        value = _node(node, scope)
        digests.append((value, list(node.output)))
        for index, name in enumerate(node.output):
            if name:
                scope.define(name, sha256(b"output", value, _number(index)))
    results = [scope.read(name) for name in outputs]
    # Only now is it known how often each value is read.
    everything = [sha256(value, scope.uses(names)) for value, names in digests]
    return sha256(sha256(*results), *sorted(everything))


def _node(node: onnx.NodeProto, scope: Scope) -> bytes:
    inputs = [scope.read(name) for name in _without_absent_tail(node.input)]
    # The values that Split makes depend on the number of its outputs.
    outputs = [b"1" if name else _ABSENT for name in _without_absent_tail(node.output)]
    attributes = sorted(attribute_digest(attribute, scope) for attribute in node.attribute)
    operator = (_domain(node).encode(), node.op_type.encode(), node.overload.encode())
    return sha256(*operator, sha256(*inputs), sha256(*outputs), sha256(*attributes))


def _without_absent_tail(names: Iterable[str]) -> list[str]:
    names = list(names)
    while names and not names[-1]:
        names.pop()
    return names


def _domain(node: onnx.NodeProto) -> str:
    return "" if node.domain == "ai.onnx" else node.domain


def attribute_digest(attribute: onnx.AttributeProto, scope: Scope) -> bytes:
    """Hash of an attribute's name and value; a subgraph may read values of `scope`."""
    kind = attribute.AttributeType.Name(attribute.type)
    if attribute.ref_attr_name:
        return sha256(attribute.name.encode(), kind.encode(), b"reference", attribute.ref_attr_name.encode())
    if kind == "UNDEFINED":
        raise ArtifactError(f"attribute {attribute.name!r} has no type")
    setting: Any = onnx.helper.get_attribute_value(attribute)
    content: dict[str, Callable[[Any], bytes]] = {
        "FLOAT": struct.Struct("<f").pack,
        "INT": _number,
        "STRING": bytes,
        "TENSOR": lambda tensor: tensor_digest(tensor, scope.stored),
        "SPARSE_TENSOR": lambda sparse: _sparse(sparse, scope.stored),
        "GRAPH": lambda graph: _graph(graph, scope.inner()),
        "TYPE_PROTO": lambda proto: _type(proto, {}),
    }
    parts = map(content[kind.removesuffix("S")], setting if kind.endswith("S") else [setting])
    return sha256(attribute.name.encode(), kind.encode(), *parts)


def tensor_digest(tensor: onnx.TensorProto, stored: Stored | None = None) -> bytes:
    """SHA-256 of dtype, shape and elements, however they are stored; `stored` is the model of a tensor on disk."""
    array = onnx.numpy_helper.to_array(tensor) if stored is None else stored.array(tensor)
    data: bytes | memoryview
    if tensor.data_type == onnx.TensorProto.STRING:
        data = sha256(*[text if isinstance(text, bytes) else str(text).encode() for text in array.ravel().tolist()])
    else:
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data  # no copy: weights are large
    return sha256(_number(tensor.data_type), b"".join(_number(dim) for dim in tensor.dims), data)


def _sparse(sparse: onnx.SparseTensorProto, stored: Stored | None) -> bytes:
    parts = [tensor_digest(part, stored) for part in (sparse.values, sparse.indices)]
    return sha256(b"sparse", *parts, *[_number(dim) for dim in sparse.dims])


def _type(proto: onnx.TypeProto, symbols: dict[str, int]) -> bytes:
    """Hash of a type; a dynamic dimension counts as its number among `symbols`, so that its name does not matter."""
    kind = proto.WhichOneof("value") or ""
    value: Any = getattr(proto, kind, None)
    parts: list[bytes] = []
    if kind in ("tensor_type", "sparse_tensor_type"):
        dims = [_dim(dim, symbols) for dim in value.shape.dim] if value.HasField("shape") else [b"any rank"]
        parts = [_number(value.elem_type), *dims]
    elif kind in ("sequence_type", "optional_type"):
        parts = [_type(value.elem_type, symbols)]
    elif kind == "map_type":
        parts = [_number(value.key_type), _type(value.value_type, symbols)]
    return sha256(kind.encode(), *parts)


def _dim(dim: Any, symbols: dict[str, int]) -> bytes:
    kind = dim.WhichOneof("value")
    if kind == "dim_value":
        return b"size" + _number(dim.dim_value)
    if kind == "dim_param" and dim.dim_param:
        return b"symbol" + _number(symbols.setdefault(dim.dim_param, len(symbols)))
    return b"unknown"


def _opsets(imports: Iterable[onnx.OperatorSetIdProto], used: set[str]) -> bytes:
    versions = {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in imports}
    return sha256(
        *[sha256(name.encode(), _number(version)) for name, version in sorted(versions.items()) if name in used]
    )


def _function(function: onnx.FunctionProto, scope: Scope) -> bytes:
    scope.define_inputs(function.input)
    body = _body(function.node, list(function.output), scope)
    names = [name.encode() for name in sorted(function.attribute)]
    defaults = sorted(attribute_digest(attribute, scope) for attribute in function.attribute_proto)
    opsets = _opsets(function.opset_import, {_domain(node) for node in _nodes(function.node)})
    name = (function.domain.encode(), function.name.encode(), function.overload.encode())
    return sha256(*name, body, _number(len(function.input)), sha256(*names), sha256(*defaults), opsets)


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes with those of their subgraphs."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from _nodes(graph.node)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs among a node's attributes, such as the branches of an If."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def fed_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """The inputs of a graph that have to be fed: before IR version 4, weights are listed as inputs, too."""
    stored = stored_names(graph)
    return [value for value in graph.input if value.name not in stored]


def stored_names(graph: onnx.GraphProto) -> set[str]:
    """Names of the initializers of a graph, sparse ones included."""
    return {tensor.name for tensor in graph.initializer} | {sparse.values.name for sparse in graph.sparse_initializer}


def inferred(model: onnx.ModelProto) -> onnx.GraphProto:
    """The main graph with the types that onnx infers from the inputs; what the model states is dropped, in place.

    Raises:
        InputError: onnx cannot infer them.
    """
    for graph in all_graphs(model):
        graph.ClearField("value_info")
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    with refusals.as_input_errors("infer the shapes of the model"):
        return onnx.shape_inference.infer_shapes(_without_crashing(model), data_prop=True).graph


def _without_crashing(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without the nodes that hurt onnx's inference: see `bench.onnxfile.file.crashes`."""
    nodes = list(all_nodes(model))
    if any(map(hurts, nodes)):
        model = onnx.ModelProto.FromString(model.SerializeToString())
        for part in (*all_graphs(model), *model.functions):
            replace_all(part.node, [node for node in part.node if not hurts(node)])
    if not any(map(is_crashing, nodes)):
        return model
    graph = onnx.shape_inference.infer_shapes(_typed(model, set())).graph
    values = (*graph.input, *graph.value_info, *graph.output)
    return _typed(model, {value.name for value in values if value.type.tensor_type.elem_type} | stored_names(graph))


def _typed(model: onnx.ModelProto, known: set[str]) -> onnx.ModelProto:
    """A copy of the model without the nodes of `crashes.CRASHING` that read a value which is not among `known`.

    The names within a function are its own, and its calls may give its inputs no type.
    """
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    for graph in all_graphs(copy):
        replace_all(graph.node, [node for node in graph.node if not is_crashing(node) or known >= {*node.input}])
    for function in copy.functions:
        replace_all(function.node, [node for node in function.node if not is_crashing(node)])
    return copy


def inferred_outputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """The outputs of the graph that `inferred` returns. Raises as `inferred`."""
    return list(inferred(model).output)


def all_graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """The main graph of a model, and all subgraphs, those of functions included."""
    yield model.graph
    for node in all_nodes(model):
        yield from subgraphs(node)


def all_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """All nodes of a model: of the main graph, of subgraphs and of functions."""
    return _nodes([*model.graph.node, *(node for function in model.functions for node in function.node)])
