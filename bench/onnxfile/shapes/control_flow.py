"""Shape rules of operators that hold graphs: If, Loop, Scan and SequenceMap.

A branch that is known not to be taken contributes nothing to the shapes of an If's outputs.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from bench.onnxfile.deferred import np, onnx
from bench.onnxfile.file.expansion import PASSES
from bench.onnxfile.shapes.dims import Dim, Shape, Size, symbol
from bench.onnxfile.shapes.node import BOOL, INT64, Node, ShapeError, Value
from bench.onnxfile.shapes.steps import Body, GraphWalk, Scope

Outputs: TypeAlias = tuple[Sequence[Value | None], Sequence[Body]]
_BRANCHES = {"then_branch": True, "else_branch": False}


def _subgraph(node: Node, name: str) -> tuple[onnx.GraphProto, str]:
    """The graph that an attribute of a node holds, and its path."""
    if name not in node.attributes:
        raise ShapeError(f"{node.what} has no {name}")
    own = f"{node.name}.{name}"
    return node.attributes[name].g, f"{node.path}/{own}" if node.path else own


def _body(node: Node, walk: GraphWalk, arguments: Sequence[Value], outer: Scope, name: str = "body") -> Body:
    """Infer the graph that an attribute of a node holds.

    Args:
        arguments: values of the graph's inputs, in order; empty for a branch, which lists weights alone as inputs.
        outer: values of the graphs around it, by name.

    Returns:
        The graph with its values. The number of its runs is None, for the caller to replace.

    Raises:
        ShapeError: there is no such graph, or it takes another number of values.
    """
    graph, path = _subgraph(node, name)
    if arguments and len(arguments) != len(graph.input):
        raise ShapeError(f"{node.what} gives its {name} {len(arguments)} values; it takes {len(graph.input)}")
    inputs = dict(zip([value.name for value in graph.input], arguments, strict=False))
    steps, values = walk.graph(graph, inputs, outer, path)
    outputs = [values[value.name] for value in graph.output]
    return Body(path=path, steps=steps, values=values, outputs=outputs, runs=None)


def _only(value: Value | None) -> Any:
    """The only element of a value; None where the value is left out or its elements are not known."""
    return None if value is None or value.elements is None else value.elements.reshape(-1)[0]


def if_(node: Node, walk: GraphWalk, values: Scope) -> Outputs:
    """Infer both branches; if it is not known which is taken, only properties on which they agree are known.

    A branch may be for inputs of other shapes. Then the other branch is taken; where neither can run, the file alone
    does not tell what happens, and nothing is known of the outputs.
    """
    condition = _only(node.input())
    taken = None if condition is None or isinstance(condition, Dim) else bool(condition)
    bodies = []
    for name, truth in _BRANCHES.items():
        try:
            bodies.append(_body(node, walk, (), values, name))
        except ShapeError as error:
            if taken is truth:
                raise
            path = _subgraph(node, name)[1]
            bodies.append(Body(path=path, steps=[], values={}, outputs=[], runs=None, why_not=str(error)))
    fitting = [truth for truth, body in zip(_BRANCHES.values(), bodies, strict=True) if body.why_not is None]
    if not fitting:
        return [], [dataclasses.replace(body, is_branch=True) for body in bodies]
    if len(fitting) == 1:
        (taken,) = fitting
    bodies = [
        dataclasses.replace(body, runs=None if taken is None else int(taken is truth), is_branch=True)
        for truth, body in zip(_BRANCHES.values(), bodies, strict=True)
    ]
    if taken is not None:
        return bodies[0 if taken else 1].outputs, bodies
    pairs = zip(bodies[0].outputs, bodies[1].outputs, strict=False)
    return [_agreed(node, index, output, other) for index, (output, other) in enumerate(pairs)], bodies


def _agreed(node: Node, index: int, value: Value, other: Value) -> Value:
    """The output of an If whose branches end in two values: only what both values agree on is known."""
    if value.proto is not None or other.proto is not None:
        return value if value.proto is not None and value.proto == other.proto else Value(0, None)
    return _common(value, other, functools.partial(node.fresh, index))


def _common(tensor: Value, other: Value, unknown: Callable[[int], Size]) -> Value:
    """A tensor with the type and the sizes that two tensors share; `unknown` gives the size of any other axis."""
    dtype = tensor.dtype or other.dtype
    if tensor.shape is None or other.shape is None or len(tensor.shape) != len(other.shape):
        return Value(dtype, None)
    pairs = enumerate(zip(tensor.shape, other.shape, strict=True))
    return Value(dtype, [first if first == second else unknown(axis) for axis, (first, second) in pairs])


def loop(node: Node, walk: GraphWalk, values: Scope) -> Outputs:
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
    iteration = Value(INT64, (), np.array(symbol(f"{path}:{names[0]}", is_free=False), object))
    for attempt in range(PASSES):
        body = _body(node, walk, [iteration, Value(BOOL, ()), *carried], values)
        results = body.outputs[1:]
        after = [
            _carried(path, name, before, two, give_up=attempt == PASSES - 2)
            for name, before, two in zip(names[2:], carried, results, strict=False)
        ]
        if [value.shape for value in after] == [value.shape for value in carried]:
            break
        carried = after
    runs = _trips(node, graph, body)
    count: Size = symbol(f"{path}:iterations", is_free=False) if runs is None else runs
    # Without an iteration the carried values are the inputs, so only properties that did not change are sure.
    outputs = [_without_elements(value) for value in carried]
    outputs += [_stacked(value, count, 0) for value in results[number:]]
    return outputs, [dataclasses.replace(body, runs=runs)]


def _without_elements(value: Value | None, batch_axes: int = 0) -> Value:
    """A value whose elements are not known, without the axes of a batch.

    Raises:
        ShapeError: the value is left out, which none of those that a loop carries or scans may be.
    """
    if value is None:
        raise ShapeError("a value that a loop carries or scans is left out")
    return Value(value.dtype, None if value.shape is None else value.shape[batch_axes:], proto=value.proto)


def _carried(path: str, name: str, before: Value, after: Value, *, give_up: bool) -> Value:
    """A carried value as it is in every iteration: sizes that change are not known."""
    if before.proto is not None:
        return Value(0, None, proto=before.proto)
    if give_up and before.shape != after.shape:
        return Value(before.dtype or after.dtype, None)
    return _common(before, after, lambda axis: symbol(f"{path}:{name}[{axis}]", is_free=False))


def _trips(node: Node, graph: onnx.GraphProto, body: Body) -> Size | None:
    """The number of iterations of a Loop; None if a condition that depends on data may end it earlier."""
    condition = _only(node.input(1)) if node.has(1) else True
    if condition is None or isinstance(condition, Dim):
        return None
    if not condition:
        return 0
    limit = _only(node.inputs[0]) if node.has(0) else None
    if limit is None or not _stays_true(graph, body):
        return None
    return limit if isinstance(limit, Dim) else max(int(limit), 0)


def _stays_true(graph: onnx.GraphProto, body: Body) -> bool:
    """Whether the body passes its condition on, or makes a condition that is always true."""
    name, condition = graph.output[0].name, graph.input[1].name
    passed = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Identity"}
    while name in passed:
        name = passed[name]
    return name == condition or bool(_only(body.values[name]) == 1)


def _stacked(value: Value, count: Size, axis: int) -> Value:
    """The output that stacks a value of each iteration along a new axis of size `count`."""
    if value.shape is None:
        return Value(value.dtype, None)
    at = axis + len(value.shape) + 1 if axis < 0 else axis
    return Value(value.dtype, (*value.shape[:at], count, *value.shape[at:]))


def scan(node: Node, walk: GraphWalk, values: Scope) -> Outputs:
    """The body runs once for each slice of the inputs that are scanned."""
    num_scanned = node.integer("num_scan_inputs")
    inputs = node.inputs if node.version >= 9 else node.inputs[1:]  # version 8 has sequence_lens first, and a batch
    num_states = len(inputs) - num_scanned
    batch_axes = 0 if node.version >= 9 else 1
    if not 0 <= num_scanned <= len(inputs):
        raise ShapeError(f"{node.what} scans {num_scanned} of {len(inputs)} inputs")
    axes = node.integers("scan_input_axes") or [0] * num_scanned
    if len(axes) != num_scanned:
        raise ShapeError(f"{node.what} scans {num_scanned} of {len(inputs)} inputs along {len(axes)} axes")
    arguments, runs = [_without_elements(value, batch_axes) for value in inputs], None
    for index, axis in enumerate(axes, num_states):
        shape = arguments[index].shape
        if shape is not None:
            if not shape:
                raise ShapeError(f"{node.what} scans a scalar")
            at = node.checked_axis(axis, len(shape))
            runs = shape[at] if runs is None else runs
            arguments[index] = Value(arguments[index].dtype, (*shape[:at], *shape[at + 1 :]))
    body = _body(node, walk, arguments, values)
    count: Size = symbol(f"{body.path}:iterations", is_free=False) if runs is None else runs
    results = body.outputs
    out_axes = node.integers("scan_output_axes") or [0] * (len(results) - num_states)
    if len(out_axes) != max(len(results) - num_states, 0):
        stacked = f"stacks {max(len(results) - num_states, 0)} outputs along {len(out_axes)} axes"
        raise ShapeError(f"{node.what} {stacked}")
    outputs = [_without_elements(value) for value in results[:num_states]]
    outputs += [_stacked(value, count, axis) for value, axis in zip(results[num_states:], out_axes, strict=True)]
    if batch_axes:
        batch: Shape = () if node.input(1).shape is None else node.shape(1)[:1]
        outputs = [
            Value(output.dtype, None if output.shape is None or not batch else (*batch, *output.shape))
            for output in outputs
        ]
        runs = None if runs is None or not batch else runs * batch[0]
    return outputs, [dataclasses.replace(body, runs=runs)]


def sequence_map(node: Node, walk: GraphWalk, values: Scope) -> Outputs:
    """The body runs once for each element of a sequence, whose number is not known."""
    arguments = [
        value if value.proto is None else walk.declared(value.proto.sequence_type.elem_type)
        for value in node.inputs
        if value is not None
    ]
    return [], [_body(node, walk, arguments, values)]


RULES: dict[str, Callable[[Node, GraphWalk, Scope], Outputs]] = {
    "If": if_,
    "Loop": loop,
    "Scan": scan,
    "SequenceMap": sequence_map,
}
