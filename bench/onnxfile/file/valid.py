"""Whether an ONNX file is a graph at all: one pass over the file when it is read, linear in its size.

What is refused here would otherwise end in an exception of Python or of a library, wherever it is met first: text that
is no UTF-8, attributes whose type and field differ, tensors with too few data, values that no node makes. Whether nodes
follow the rules of their operators is left to shape inference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bench.api.errors import InputError
from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.valid_tensors import check_sparse, check_tensor, check_type, decoded

_LARGEST_VERSION = 2**31 - 1  # that onnx's registry of operators can be asked for
_HELD_IN = {
    "FLOAT": "f",
    "INT": "i",
    "STRING": "s",
    "TENSOR": "t",
    "GRAPH": "g",
    "SPARSE_TENSOR": "sparse_tensor",
    "TYPE_PROTO": "tp",
    "FLOATS": "floats",
    "INTS": "ints",
    "STRINGS": "strings",
    "TENSORS": "tensors",
    "GRAPHS": "graphs",
    "SPARSE_TENSORS": "sparse_tensors",
    "TYPE_PROTOS": "type_protos",
}
"""The field that holds the value of an attribute, by the name of its type."""
NEEDED = ("t", "g", "sparse_tensor", "tp")
"""Fields whose absence is no value; an absent number is 0."""


def check_model(model: onnx.ModelProto) -> None:
    """Refuse a file that is no graph.

    Raises:
        InputError: a sentence that names the node, the tensor or the field.
    """
    for field in ("producer_name", "producer_version", "domain", "doc_string"):
        decoded(getattr(model, field), f"the {field} of the model")
    _check_imports(model.opset_import, "the model")
    _Pass(in_function=False).graph(model.graph, (), "the graph")
    keys: set[tuple[str, str, str]] = set()
    for function in model.functions:
        what = f"function {decoded(function.name, 'the name of a function')!r}"
        decoded(function.domain, f"the domain of {what}")
        decoded(function.overload, f"the overload of {what}")
        key = ("" if function.domain == "ai.onnx" else function.domain, function.name, function.overload)
        if key in keys:
            raise InputError(f"{what} of the domain {function.domain!r} stands there twice: a call could mean either")
        keys.add(key)
        _check_imports(function.opset_import, what)
        own = _new_names(function.input, f"an input of {what}")
        for name in function.attribute:
            decoded(name, f"the name of an attribute of {what}")
        walk = _Pass(in_function=True)
        for attribute in function.attribute_proto:
            walk.attribute(attribute, what, ())
        walk.nodes(function.node, [own])
        _check_outputs(function.output, [own], function.node, f" of {what}")


def _check_imports(imports: Iterable[onnx.OperatorSetIdProto], what: str) -> None:
    for entry in imports:
        domain = decoded(entry.domain, f"the domain of an operator set of {what}")
        if not 0 <= entry.version <= _LARGEST_VERSION:
            raise InputError(
                f"{what} uses version {entry.version} of the operator set {domain or 'ai.onnx'!r}, which cannot exist"
            )


def _new_names(names: Iterable[str], what: str) -> set[str]:
    new_names: set[str] = set()
    for name in names:
        if not decoded(name, f"the name of {what}"):
            raise InputError(f"{what} has no name")
        if name in new_names:
            raise InputError(f"{what}, {name!r}, stands there twice")
        new_names.add(name)
    return new_names


class _Pass:
    """One pass over graphs; `in_function` says whether attributes may refer to those of a function."""

    def __init__(self, *, in_function: bool) -> None:
        self.in_function = in_function
        self.fields = {onnx.AttributeProto.AttributeType.Value(name): field for name, field in _HELD_IN.items()}

    def graph(self, graph: onnx.GraphProto, around: Sequence[set[str]], what: str) -> None:
        """Check a graph; `around` are the names of the graphs around it, from the outermost."""
        decoded(graph.name, f"the name of {what}")
        own = _new_names((value.name for value in graph.input), f"an input of {what}")
        for value in graph.input:
            check_type(value.type, f"input {value.name!r} of {what}", known=not around)
        for tensor in graph.initializer:
            name = decoded(tensor.name, f"the name of a weight of {what}")
            if not name:
                raise InputError(f"a weight of {what} has no name")
            check_tensor(tensor, f"weight {name!r}")
            own.add(name)
        for sparse in graph.sparse_initializer:
            name = decoded(sparse.values.name, f"the name of a sparse weight of {what}")
            if not name:
                raise InputError(f"a sparse weight of {what} has no name")
            check_sparse(sparse, f"sparse weight {name!r}")
            own.add(name)
        for value in (*graph.value_info, *graph.output):
            check_type(value.type, f"value {decoded(value.name, f'the name of a value of {what}')!r} of {what}")
        self.nodes(graph.node, [*around, own])
        _check_outputs((value.name for value in graph.output), [*around, own], graph.node, "")

    def nodes(self, nodes: Sequence[onnx.NodeProto], scopes: list[set[str]]) -> None:
        """Check nodes and add what they make to the last of the scopes."""
        own = scopes[-1]
        for number, node in enumerate(nodes):
            what = _named(node, number)
            for name in node.input[:]:
                if name not in own and name and not any(name in scope for scope in scopes):
                    decoded(name, f"the name of an input of {what}")
                    raise InputError(unmade(name, what, node, nodes))
            if node.attribute:
                self._attributes(node, what, scopes)
            for name in node.output[:]:
                if not name:
                    continue
                if name in own:
                    raise InputError(f"{what} makes {name!r}, which is made before: each value has one name")
                decoded(name, f"the name of an output of {what}")
                own.add(name)

    def _attributes(self, node: onnx.NodeProto, what: str, scopes: Sequence[set[str]]) -> None:
        names: set[str] = set()
        for attribute in node.attribute:
            self.attribute(attribute, what, scopes)
            if attribute.name in names:
                raise InputError(f"attribute {attribute.name!r} of {what} stands there twice")
            names.add(attribute.name)

    def attribute(self, attribute: onnx.AttributeProto, of: str, scopes: Sequence[set[str]]) -> None:
        """Check the type and the value of an attribute of a node or of a function."""
        name = decoded(attribute.name, f"the name of an attribute of {of}")
        what = f"attribute {name!r} of {of}"
        if not name:
            raise InputError(f"an attribute of {of} has no name")
        fields = [field.name for field, _ in attribute.ListFields() if field.name in _HELD_IN.values()]
        if attribute.ref_attr_name:
            decoded(attribute.ref_attr_name, f"the reference of {what}")
            if not self.in_function:
                raise InputError(f"{what} refers to an attribute of a function, and stands in none")
            if fields:
                raise InputError(f"{what} has both a value and a reference to another attribute")
            return
        if not attribute.type and len(fields) == 1:  # before version 2 of the format, the field alone told the type
            attribute.type = next(number for number, field in self.fields.items() if field == fields[0])
        field = self.fields.get(attribute.type)
        if field is None:
            raise InputError(f"{what} has no type")
        if other := next((each for each in fields if each != field), None):
            kind = onnx.AttributeProto.AttributeType.Name(attribute.type)
            raise InputError(f"{what} is of type {kind}, which is in the field {field!r}, but has {other!r}")
        if field in NEEDED and not fields:
            raise InputError(f"{what} has no value: the field {field!r} is missing")
        if fields:
            self._value(getattr(attribute, field), field, what, scopes)

    def _value(self, value: Any, field: str, what: str, scopes: Sequence[set[str]]) -> None:
        if field in ("t", "tensors"):
            for tensor in _listed(value):
                check_tensor(tensor, f"the tensor in {what}")
                decoded(tensor.name, f"the name of the tensor in {what}")
        elif field in ("sparse_tensor", "sparse_tensors"):
            for sparse in _listed(value):
                check_sparse(sparse, f"the sparse tensor in {what}")
        elif field in ("tp", "type_protos"):
            for proto in _listed(value):
                check_type(proto, f"the type in {what}")
        elif field in ("g", "graphs"):
            for graph in _listed(value):
                self.graph(graph, [*scopes, set()], f"the graph in {what}")


def _listed(value: Any) -> list[Any]:
    """The messages of a field, which holds one or several."""
    return [value] if hasattr(value, "DESCRIPTOR") else list(value)


def _named(node: onnx.NodeProto, number: int) -> str:
    """The node as messages write it."""
    op_type, name = node.op_type, node.name
    if type(op_type) is not str or type(name) is not str or not op_type or type(node.domain) is not str:
        decoded(name, f"the name of node {number}")
        decoded(op_type, f"the operator of node {number}")
        decoded(node.domain, f"the domain of node {number}")
        raise InputError(f"node {name or number!r} has no operator")
    if type(node.overload) is not str:
        decoded(node.overload, f"the overload of node {number}")
    return f"node {name or number!r} ({op_type})"


def _check_outputs(names: Iterable[str], scopes: Sequence[set[str]], nodes: Sequence[onnx.NodeProto], of: str) -> None:
    for name in names:
        if not any(name in scope for scope in scopes):
            raise InputError(f"its output {name!r}{of} is made by no node")


def unmade(name: str, what: str, proto: onnx.NodeProto, nodes: Sequence[onnx.NodeProto]) -> str:
    """A message that says why a node reads a value that no node has made yet.

    Args:
        what: the node, as messages write it.
        nodes: of the node's graph.
    """
    what = f"{what} reads {name!r}"
    makers = {output: other for other in nodes for output in other.output}
    if name not in makers:
        return f"{what}, which nothing makes"
    needed: set[str] = set()
    pending = [name]
    while pending:
        source = pending.pop()
        if source in makers and source not in needed:
            needed.add(source)
            pending += makers[source].input
    if not needed.isdisjoint(proto.output):
        return f"its graph has a cycle: {what}, which depends on an output of that node"
    return f"{what} before node {makers[name].name!r} makes it: nodes must be in order"
