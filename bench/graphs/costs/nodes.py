"""What each node of a model costs: MACs, other operations, parameters and bytes, those of subgraphs included."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.graphs.costs import macs
from bench.graphs.costs.observed import Execution
from bench.graphs.costs.work import NOTHING, Work
from bench.graphs.shapes.dims import Dim
from bench.graphs.shapes.node import Node, UnknownError, Value
from bench.graphs.shapes.steps import Body, Step


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeCost:
    """What one node costs.

    Attributes:
        name: its own, or one made up where it has none or shares it.
        inputs: names of what it reads, empty for what is left out.
        output_shapes: None for a shape that is not known.
        macs: of all its runs.
        other_ops: elementary operations that are no MACs, of all its runs.
        params: parameters in the tensors that it reads.
        weight_bytes: of everything stored that it reads.
        activation_bytes: of its outputs in one run; what a Constant makes is a weight.
        runs: how often it runs in one inference; None where that is not known, and it is counted once.
        known: whether its operator and shapes are known; if not, its work is not counted.
        path: of the subgraph it is in, such as `loop_1.body`; empty in the main graph.
    """

    name: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    output_shapes: tuple[tuple[int, ...] | None, ...]
    macs: int
    other_ops: int
    params: int
    weight_bytes: int
    activation_bytes: int
    runs: int | None = 1
    known: bool = True
    path: str = ""


Observed = Mapping[str, Sequence[Execution]]


def node_costs(steps: Sequence[Step], params: Mapping[int, int], observed: Observed) -> list[NodeCost]:
    """Costs of nodes in order, those of a node's subgraphs directly after it.

    Of branches of which it is not known which is taken, the one with the most MACs counts; the others run 0 times.

    Args:
        params: parameters in each tensor, as `parameters.learned` gives them.
        observed: how each node ran, by its name, where the model was run.
    """
    return list(_costs(steps, params, observed, 1))


def _costs(
    steps: Sequence[Step], params: Mapping[int, int], observed: Observed, runs: int | None
) -> Iterator[NodeCost]:
    for step in steps:
        own = runs
        executions = observed.get(step.node.name, ()) if observed else ()
        if observed and (executions or step.node.path):
            own = sum(execution.count for execution in executions)
        yield _cost(step, params, executions, own)
        if not step.bodies:
            continue
        bodies = [list(_costs(body.steps, params, observed, _times(own, body))) for body in step.bodies]
        if not observed and all(body.is_branch and body.runs is None for body in step.bodies):
            totals = [sum(cost.macs for cost in body) for body in bodies]
            taken = totals.index(max(totals))
            bodies = [body if index == taken else _never_run(body) for index, body in enumerate(bodies)]
        for body in bodies:
            yield from body


def _times(runs: int | None, body: Body) -> int | None:
    if body.is_branch and body.runs is None:
        return runs
    if runs is None or body.runs is None or isinstance(body.runs, Dim):
        return None
    return runs * body.runs


def _never_run(costs: Sequence[NodeCost]) -> list[NodeCost]:
    return [dataclasses.replace(cost, macs=0, other_ops=0, runs=0) for cost in costs]


def _cost(step: Step, params: Mapping[int, int], executions: Sequence[Execution], runs: int | None) -> NodeCost:
    node = step.node
    work, known = _work(step, executions, runs)
    last = node.outputs
    if executions:
        seen = [_with_shapes(node, execution).outputs for execution in executions]
        last, activation_bytes = seen[-1], max(map(_activation_bytes, seen))
    else:
        activation_bytes = _activation_bytes(last)
    weights = {id(value): value for value in node.inputs if value is not None and value.is_weight}
    return _made(
        name=node.name,
        op_type=node.op_type,
        domain=node.domain,
        inputs=node.reads,
        outputs=node.makes,
        output_shapes=tuple([None if value is None else value.numbers for value in last]),
        macs=work.macs,
        other_ops=work.other_ops,
        params=sum([params.get(key, 0) for key in weights]) if weights else 0,
        weight_bytes=sum([value.bytes for value in weights.values()]) if weights else 0,
        activation_bytes=activation_bytes,
        runs=runs,
        known=known,
        path=node.path,
    )


def _made(**fields: Any) -> NodeCost:
    """A NodeCost of these fields, all of them.

    Its own `__init__` takes longer than what is computed for most nodes, for it sets what is frozen field by field.
    """
    cost = object.__new__(NodeCost)
    object.__setattr__(cost, "__dict__", fields)
    return cost


def _activation_bytes(made: Sequence[Value | None]) -> int:
    return sum([value.bytes for value in made if value is not None and not value.is_weight])  # a Constant makes weights


def _work(step: Step, executions: Sequence[Execution], runs: int | None) -> tuple[Work, bool]:
    """Work of all runs, and whether it could be told."""
    node = step.node
    rule = macs.RULES.get((node.domain, node.op_type))
    if rule is None:
        return NOTHING, False
    if runs == 0:
        return NOTHING, True
    try:
        if executions and not _is_static(node):
            works = [(rule(_with_shapes(node, execution)), execution.count) for execution in executions]
            return Work(*(sum(work[part] * count for work, count in works) for part in range(2))), True
        once = rule(node)
        if type(once.macs) is not int or type(once.other_ops) is not int:  # an expression of what is not known
            return NOTHING, False
        return (once if runs == 1 else Work(once.macs * (runs or 1), once.other_ops * (runs or 1))), True
    except (UnknownError, AssertionError, TypeError, ValueError, IndexError, KeyError, ZeroDivisionError):
        # Sizes that are not known, or a node that breaks the rules of its operator.
        return NOTHING, False


def _is_static(node: Node) -> bool:
    return all(value is None or value.is_static or value.proto is not None for value in (*node.inputs, *node.outputs))


def _with_shapes(node: Node, execution: Execution) -> Node:
    """A node with the shapes that its tensors had in a run."""
    return Node(
        node.proto,
        _reshaped(node.inputs, execution.inputs),
        _reshaped(node.outputs, execution.outputs),
        version=node.version,
        path=node.path,
    )


def _reshaped(values: Sequence[Value | None], shapes: Sequence[tuple[int, ...]]) -> list[Value | None]:
    tensors = [value for value in values if value is not None and value.proto is None]
    if len(tensors) != len(shapes):  # what is no tensor was not seen
        return list(values)
    left = iter(shapes)
    result: list[Value | None] = []
    for value in values:
        if value is not None and value.proto is None:
            shape = next(left)
            value = value if value.is_static else Value(value.dtype, shape, value.elements)
        result.append(value)
    return result
