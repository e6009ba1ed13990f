"""Shape rules of operators that hold graphs: If, Loop, Scan and SequenceMap.

A branch that is known not to be taken does not count."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from bench.graphs.deferred import onnx
from bench.graphs.shapes.dims import Dim, Shape, Size, symbol
from bench.graphs.shapes.node import Node, ShapeError, Value, array
from bench.graphs.shapes.steps import Body, GraphWalk

Outputs: TypeAlias = tuple[Sequence[Value | None], Sequence[Body]]
BOOL, INT64 = 9, 7
BRANCHES = {"then_branch": True, "else_branch": False}
MAX_PASSES = 4
"""Passes over a loop's body after which carried sizes that still change are taken as unknown."""


def _subgraph(node: Node, name: str) -> tuple[onnx.GraphProto, str]:
    """The graph that an attribute of a node holds, and its path."""
    if name not in node.attributes:
        raise ShapeError(f"{node.what} has no {name}")
    own = f"{node.name}.{name}"
    return node.attributes[name].g, f"{node.path}/{own}" if node.path else own


def _results(graph: onnx.GraphProto, values: Mapping[str, Value]) -> list[Value]:
    return [values[value.name] for value in graph.output]


def if_(node: Node, walk: GraphWalk, values: Mapping[str, Value]) -> Outputs:
    """Infer both branches; if it is not known which is taken, only properties on which they agree are known."""
    condition = node.input().elements
    taken = None if condition is None or isinstance(condition.reshape(-1)[0], Dim) else bool(condition.reshape(-1)[0])
    walked = {}
    for name, truth in BRANCHES.items():
        try:
            graph, path = _subgraph(node, name)
            walked[truth] = walk.graph(graph, {}, values, path)
        except ShapeError:  # the branch is for inputs of other shapes
            if taken is truth:
                raise
            taken = not truth
    bodies, results = [], {}
    for name, truth in BRANCHES.items():
        graph, path = _subgraph(node, name)
        steps, inner = walked.get(truth, ([], {}))
        runs = None if taken is None else int(taken == truth)
        results[truth] = _results(graph, inner) if truth in walked else []
        bodies.append(Body(path=path, steps=steps, values=inner, outputs=results[truth], runs=runs, is_branch=True))
    if taken is not None:
        return results[taken], bodies
    pairs = zip(results[True], results[False], strict=False)
    return [_agreed(node, index, one, other) for index, (one, other) in enumerate(pairs)], bodies


def _agreed(node: Node, index: int, one: Value, other: Value) -> Value:
    """A value with the properties that two values have in common."""
    if one.proto is not None or other.proto is not None:
        return one if one.proto is not None and one.proto == other.proto else Value(0, None)
    return _common(one, other, lambda axis: node.fresh(index, axis))


def _common(one: Value, other: Value, unknown: Callable[[int], Size]) -> Value:
    """A tensor with the type and the sizes that two tensors share; `unknown` gives the size of any other axis."""
    dtype = one.dtype or other.dtype
    if one.shape is None or other.shape is None or len(one.shape) != len(other.shape):
        return Value(dtype, None)
    pairs = enumerate(zip(one.shape, other.shape, strict=True))
    return Value(dtype, [first if first == second else unknown(axis) for axis, (first, second) in pairs])


def loop(node: Node, walk: GraphWalk, values: Mapping[str, Value]) -> Outputs:
    """Carried values keep the shape that does not change from one iteration to the next.

    The body reads the iteration's number, a condition and the carried values, and makes a condition, the carried values
    and values that are stacked over all iterations.
    """
    graph, path = _subgraph(node, "body")
    names = [value.name for value in graph.input]
    number = len(names) - 2
    carried = [_without_elements(value) for value in node.inputs[2:]]
    if len(carried) != number:
        raise ShapeError(f"{node.what} carries {len(carried)} values; its body takes {number}")
    iteration = Value(INT64, (), array([symbol(f"{path}:{names[0]}", is_free=False)], ()))
    for attempt in range(MAX_PASSES):
        given = dict(zip(names, [iteration, Value(BOOL, ()), *carried], strict=True))
        steps, inner = walk.graph(graph, given, values, path)
        results = _results(graph, inner)[1:]
        after = [
            _carried(path, names[index + 2], one, two, give_up=attempt == MAX_PASSES - 2)
            for index, (one, two) in enumerate(zip(carried, results, strict=False))
        ]
        if [value.shape for value in after] == [value.shape for value in carried]:
            break
        carried = after
    runs = _trips(node, graph, inner)
    count: Size = symbol(f"{path}:iterations", is_free=False) if runs is None else runs
    # Without an iteration the carried values are the inputs, so only properties that did not change are sure.
    outputs = [_without_elements(value) for value in carried]
    outputs += [_stacked(value, count, 0) for value in results[number:]]
    return outputs, [Body(path=path, steps=steps, values=inner, outputs=_results(graph, inner), runs=runs)]


def _without_elements(value: Value | None, batch_axes: int = 0) -> Value:
    """A value whose elements are not known, without the axes of a batch."""
    assert value is not None
    return Value(value.dtype, None if value.shape is None else value.shape[batch_axes:], proto=value.proto)


def _carried(path: str, name: str, before: Value, after: Value, *, give_up: bool) -> Value:
    """A carried value as it is in every iteration: sizes that change are not known."""
    if before.proto is not None:
        return Value(0, None, proto=before.proto)
    if give_up and before.shape != after.shape:
        return Value(before.dtype or after.dtype, None)
    return _common(before, after, lambda axis: symbol(f"{path}:{name}[{axis}]", is_free=False))


def _trips(node: Node, graph: onnx.GraphProto, inner: Mapping[str, Value]) -> Size | None:
    """The number of iterations, if nothing but this number ends the loop; else None."""
    condition = node.input(1).elements if node.has(1) else None
    if node.has(1) and (condition is None or isinstance(condition.reshape(-1)[0], Dim)):
        return None
    if condition is not None and not condition.reshape(-1)[0]:
        return 0
    limit = node.input(0).elements if node.has(0) else None
    if limit is None or not _stays_true(graph, inner):
        return None
    number = limit.reshape(-1)[0]
    return number if isinstance(number, Dim) else max(int(number), 0)


def _stays_true(graph: onnx.GraphProto, inner: Mapping[str, Value]) -> bool:
    """Whether the body passes its condition on, or makes a condition that is always true."""
    name, given = graph.output[0].name, graph.input[1].name
    passed = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Identity"}
    while name in passed:
        name = passed[name]
    elements = inner[name].elements
    return name == given or (elements is not None and bool(elements.reshape(-1)[0] == 1))


def _stacked(value: Value, count: Size, axis: int) -> Value:
    """A value with one more axis, over the iterations."""
    if value.shape is None:
        return Value(value.dtype, None)
    at = axis + len(value.shape) + 1 if axis < 0 else axis
    return Value(value.dtype, (*value.shape[:at], count, *value.shape[at:]))


def scan(node: Node, walk: GraphWalk, values: Mapping[str, Value]) -> Outputs:
    """The body runs once for each slice of the inputs that are scanned."""
    graph, path = _subgraph(node, "body")
    num_scanned = node.integer("num_scan_inputs")
    inputs = node.inputs if node.version >= 9 else node.inputs[1:]  # version 8 has sequence_lens first, and a batch
    num_states = len(inputs) - num_scanned
    batch_axes = 0 if node.version >= 9 else 1
    axes = node.integers("scan_input_axes") or [0] * num_scanned
    given, runs = [_without_elements(value, batch_axes) for value in inputs[:num_states]], None
    for value, axis in zip(inputs[num_states:], axes, strict=True):
        inner_value = _without_elements(value, batch_axes)
        shape = inner_value.shape
        if shape is None:
            given.append(inner_value)
            continue
        at = node.checked_axis(axis, len(shape))
        runs = shape[at] if runs is None else runs
        given.append(Value(inner_value.dtype, (*shape[:at], *shape[at + 1 :])))
    steps, inner = walk.graph(graph, dict(zip([value.name for value in graph.input], given, strict=True)), values, path)
    results = _results(graph, inner)
    count: Size = symbol(f"{path}:iterations", is_free=False) if runs is None else runs
    out_axes = node.integers("scan_output_axes") or [0] * (len(results) - num_states)
    outputs = [_without_elements(value) for value in results[:num_states]]
    outputs += [_stacked(value, count, axis) for value, axis in zip(results[num_states:], out_axes, strict=True)]
    if batch_axes:
        batch: Shape = () if node.input(1).shape is None else node.shape(1)[:1]
        outputs = [
            Value(one.dtype, None if one.shape is None or not batch else (*batch, *one.shape)) for one in outputs
        ]
        runs = None if runs is None or not batch else runs * batch[0]
    return outputs, [Body(path=path, steps=steps, values=inner, outputs=results, runs=runs)]


def sequence_map(node: Node, walk: GraphWalk, values: Mapping[str, Value]) -> Outputs:
    """The body runs once for each element of a sequence, whose number is not known."""
    graph, path = _subgraph(node, "body")
    given: dict[str, Any] = {}
    for value, inner_value in zip(node.inputs, graph.input, strict=True):
        assert value is not None
        held = value.proto.sequence_type.elem_type if value.proto is not None else None
        given[inner_value.name] = value if held is None else walk.declared(held)
    steps, inner = walk.graph(graph, given, values, path)
    return [], [Body(path=path, steps=steps, values=inner, outputs=_results(graph, inner), runs=None)]


RULES: dict[str, Callable[[Node, GraphWalk, Mapping[str, Value]], Outputs]] = {
    "If": if_,
    "Loop": loop,
    "Scan": scan,
    "SequenceMap": sequence_map,
}
