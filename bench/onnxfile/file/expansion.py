"""How large an ONNX file becomes when its local functions are inlined, summed up before anything is inlined.

A function that calls another one twice, which calls a third one twice, takes a line for each level and doubles the
graph with each. The sums are linear in the size of the file: each function is counted once, and a call adds the
function's sum. What a call adds can depend on its attributes, because a body may refer to them, and an attribute may
hold a graph; so the sum of a function is a linear form of the sums of its attributes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from bench.api.errors import InputError
from bench.onnxfile.deferred import onnx

_MOST_NODES = 1_000_000
"""Nodes of a model, those of subgraphs included: 3 to 4 GB in the memory of a profile."""
MOST_BYTES = 2**31 - 1  # of a protobuf message, which the inlined model is
MOST_CALLS = 100
"""Calls of functions within one another; onnx's inliner refuses more, too."""
_MOST_DEPTH = 32
"""Graphs within one another: protobuf reads no message of more than 100 levels, and each graph takes three."""
_MOST_VISITS = 10_000_000
"""Nodes that shape inference goes through at most, see `PASSES`."""
PASSES = 4
"""Passes over the body of a Loop after which sizes that still change are unknown; loops within loops multiply them."""
_CEILING = 10**300
"""Where the sums stop, so that 100,000 functions that double the model each do not make numbers of 100,000 bits."""

_Key = tuple[str, str, str]
"""Domain, name and overload of a function."""


@dataclasses.dataclass(kw_only=True)
class Expansion:
    """The size of a graph, of a function's body or of an attribute after inlining.

    Attributes:
        nodes: number of nodes, those of subgraphs included.
        bytes: size as a protobuf message; tensors that stay on disk are not counted.
        visits: nodes that shape inference goes through in the worst case.
        depth: most graphs within one another, below this one.
        calls: most calls within one another.
        references: by attribute of the function: how often the body contains it, how often shape inference goes
            through it, and at what depth.
    """

    nodes: int = 0
    bytes: int = 0
    visits: int = 0
    depth: int = 0
    calls: int = 0
    references: dict[str, tuple[int, int, int]] = dataclasses.field(default_factory=dict)

    def add(self, other: Expansion, *, times: int = 1, visits: int = 1, depth: int = 0) -> None:
        """Add something that stands `times` times at a depth in this graph, and is gone through `visits` times."""
        self.nodes = min(self.nodes + times * other.nodes, _CEILING)
        self.bytes = min(self.bytes + times * other.bytes, _CEILING)
        self.visits = min(self.visits + visits * other.visits, _CEILING)
        self.depth = max(self.depth, depth + other.depth)
        self.calls = max(self.calls, other.calls)
        for name, (count, visited, at) in other.references.items():
            self._refer(name, times * count, visits * visited, depth + at)

    def _refer(self, name: str, times: int, visits: int, depth: int) -> None:
        count, visited, at = self.references.get(name, (0, 0, 0))
        self.references[name] = (min(count + times, _CEILING), min(visited + visits, _CEILING), max(at, depth))

    def refer(self, name: str, *, visits: int) -> None:
        """Add a reference to an attribute of the function; a graph would stand one level deeper."""
        self._refer(name, 1, visits, 1)


def check_expansion(model: onnx.ModelProto) -> None:
    """Refuse a model that is too large to work with once its functions are inlined.

    Raises:
        InputError: there are too many nodes, bytes, levels or passes, or a function calls itself; the message has the
            figures.
    """
    total = expansion(model)
    inlined = f"with its {len(model.functions):,} functions inlined, it has" if model.functions else "it has"
    if total.calls > MOST_CALLS:
        raise InputError(f"its functions call each other {total.calls:,} deep; {MOST_CALLS} levels are read")
    if total.nodes > _MOST_NODES:
        raise InputError(f"{inlined} {_count(total.nodes)} nodes; {_MOST_NODES:,} are read")
    if total.bytes > MOST_BYTES:
        raise InputError(f"{inlined} {_count(total.bytes)} bytes; protobuf reads {MOST_BYTES:,}")
    if total.depth > _MOST_DEPTH:
        raise InputError(f"{inlined} graphs {total.depth:,} deep within one another; {_MOST_DEPTH} levels are read")
    if total.visits > _MOST_VISITS:
        raise InputError(
            f"loops within one another need up to {PASSES} passes for each level: {_count(total.visits)} nodes to go "
            f"through for the shapes; {_MOST_VISITS:,} are the limit"
        )


def expansion(model: onnx.ModelProto) -> Expansion:
    """The size of a model after inlining; no function is expanded.

    Raises:
        InputError: a function calls itself, directly or through others.
    """
    if not model.functions:
        return _of_graph(model.graph, {})
    functions = {(_domain(function.domain), function.name, function.overload): function for function in model.functions}
    done: dict[_Key, Expansion] = {}
    for start in functions:
        path: dict[
            _Key, Iterator[_Key]
        ] = {}  # the calls that lead to the function which is looked at, and its own calls
        pending: _Key | None = None if start in done else start
        while pending is not None:
            path[pending] = _all_calls(functions[pending], functions)
            pending = _next_call(path, functions, done)
    return _of_graph(model.graph, done)


def _next_call(
    path: dict[_Key, Iterator[_Key]], functions: Mapping[_Key, onnx.FunctionProto], done: dict[_Key, Expansion]
) -> _Key | None:
    """The next function that is called on a path and not counted yet; functions without such calls are counted."""
    while path:
        key, calls = next(reversed(path.items()))
        called = next((call for call in calls if call not in done), None)
        if called in path:
            names = [name for _, name, _ in path]
            circle = " -> ".join(map(repr, [*names[list(path).index(called) :][:8], called[1]]))
            raise InputError(
                f"its function {called[1]!r} calls itself: {circle}; ONNX allows no recursion: export the model anew"
            )
        if called is not None:
            return called
        done[key] = _of_function(functions[key], done)
        path.popitem()
    return None


def _all_calls(function: onnx.FunctionProto, functions: Mapping[_Key, onnx.FunctionProto]) -> Iterator[_Key]:
    """The functions that a function calls, also in the graphs that its attributes hold by default."""
    yield from _calls(function.node, functions)
    for attribute in function.attribute_proto:
        for graph in _graphs(attribute):
            yield from _calls(graph.node, functions)


def _calls(nodes: Iterable[onnx.NodeProto], functions: Mapping[_Key, onnx.FunctionProto]) -> Iterator[_Key]:
    """The functions that nodes and those of their subgraphs call."""
    for node in nodes:
        if (key := _key(node)) in functions:
            yield key
        for attribute in node.attribute:
            for graph in _graphs(attribute):
                yield from _calls(graph.node, functions)


def _of_graph(graph: onnx.GraphProto, functions: Mapping[_Key, Expansion]) -> Expansion:
    return _of_nodes(graph.node, graph.ByteSize(), functions)


def _of_function(function: onnx.FunctionProto, functions: Mapping[_Key, Expansion]) -> Expansion:
    """The size of a body; defaults of attributes are counted in any case, as if no call replaced them."""
    total = _of_nodes(function.node, function.ByteSize(), functions)
    for attribute in function.attribute_proto:
        times, visits, depth = total.references.get(attribute.name, (0, 0, 0))
        default = Expansion(bytes=attribute.ByteSize())
        for graph in _graphs(attribute):
            default.add(_of_graph(graph, functions))
        total.add(default, times=times, visits=visits, depth=depth)
    return total


def _of_nodes(nodes: Iterable[onnx.NodeProto], size_bytes: int, functions: Mapping[_Key, Expansion]) -> Expansion:
    """The size of nodes whose message, with all that belongs to them, has `size_bytes`."""
    total = Expansion(bytes=size_bytes)
    for node in nodes:
        called = functions.get(_key(node)) if functions else None
        if called is None:
            total.nodes += 1
            total.visits += 1
        else:
            body = dataclasses.replace(called, calls=called.calls + 1, references={})
            total.add(body)
        if not node.attribute:
            continue
        passes = PASSES if node.op_type == "Loop" and called is None else 1
        for attribute in node.attribute:
            size = Expansion()
            if attribute.ref_attr_name:
                size.refer(attribute.ref_attr_name, visits=passes)
            elif graphs := list(_graphs(attribute)):
                for graph in graphs:
                    size.add(_of_graph(graph, functions), visits=passes, depth=1)
                if called is None:  # the graphs are part of `size_bytes`
                    size.bytes -= sum(graph.ByteSize() for graph in graphs)
            elif called is not None and attribute.name in called.references:
                size.bytes = attribute.ByteSize()
            if called is None:
                total.add(size)
            elif attribute.name in called.references:
                times, visits, depth = called.references[attribute.name]
                total.add(size, times=times, visits=visits, depth=max(depth - 1, 0))
    return total


def _graphs(attribute: onnx.AttributeProto) -> list[onnx.GraphProto]:
    return [attribute.g] if attribute.HasField("g") else list(attribute.graphs)


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _key(node: onnx.NodeProto) -> _Key:
    return _domain(node.domain), node.op_type, node.overload


def _count(number: int) -> str:
    return f"{number:,}" if number < 10**12 else f"about {float(number):.1e}" if number < 10**300 else "over 1e300"
