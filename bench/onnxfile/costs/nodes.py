"""The cost of each node of a model: MACs, other operations, parameters and bytes; nodes of subgraphs are included."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from bench.onnxfile.costs import macs
from bench.onnxfile.costs.observed import Execution
from bench.onnxfile.costs.work import NOTHING, Work
from bench.onnxfile.shapes.dims import Dim
from bench.onnxfile.shapes.node import Node, UnknownError, Value
from bench.onnxfile.shapes.steps import Body, Step


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeCost:
    """The cost of one node.

    Attributes:
        name: of the node; made up where the file gives no name or gives it to several nodes.
        inputs: names of the values that the node reads; empty for an input that is left out.
        output_shapes: None for a shape that is not known.
        macs: MACs of all runs of the node in one inference.
        other_ops: elementary operations that are no MACs, of all runs.
        params: number of parameters in the tensors that the node reads.
        weight_bytes: size of all stored tensors that the node reads.
        activation_bytes: size of the outputs of one run, without those that are left out; the output of a Constant is a
            weight and does not count.
        runs: number of runs in one inference; None where it is not known, and the work of one run is counted.
        known: whether the operator and all shapes are known; if not, the work is not counted.
        path: of the subgraph that the node is in, such as `loop_1.body`; empty in the main graph.
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


def node_costs(
    steps: Sequence[Step], params: Mapping[int, int], observed: Observed, *, runs: int | None = 1
) -> list[NodeCost]:
    """Costs of all nodes in order; the nodes of a subgraph come directly after the node that holds it.

    Where it is not known which branch is taken, the branch with the most MACs counts, and the others run 0 times.

    Args:
        params: number of parameters in each tensor, as `parameters.learned` returns them.
        observed: executions of each node, by its name; empty if the model was not run.
        runs: number of runs of the graph in one inference; None where it is not known.
    """
    costs = []
    for step in steps:
        own = runs
        executions = observed.get(step.node.name, ())
        if observed and (executions or step.node.path):
            own = sum(execution.count for execution in executions)
        costs.append(_cost(step, params, executions, own))
        if not step.bodies:
            continue
        bodies = [node_costs(body.steps, params, observed, runs=_times(own, body)) for body in step.bodies]
        if not observed and all(body.is_branch and body.runs is None for body in step.bodies):
            taken = max(bodies, key=lambda body: sum(cost.macs for cost in body))
            for body in bodies:
                if body is not taken:
                    body[:] = [dataclasses.replace(cost, macs=0, other_ops=0, runs=0) for cost in body]
        costs += itertools.chain(*bodies)
    return costs


def _times(runs: int | None, body: Body) -> int | None:
    if body.is_branch and body.runs is None:
        return runs
    if runs is None or body.runs is None or isinstance(body.runs, Dim):
        return None
    return runs * body.runs


def _cost(step: Step, params: Mapping[int, int], executions: Sequence[Execution], runs: int | None) -> NodeCost:
    node = step.node
    work, known = _work(step, executions, runs)
    output_lists = [with_shapes(node, execution).outputs for execution in executions] if executions else (node.outputs,)
    weights = {id(value): value for value in node.inputs if value is not None and value.is_weight}
    return _node_cost(
        name=node.name,
        op_type=node.op_type,
        domain=node.domain,
        inputs=node.reads,
        outputs=node.makes,
        output_shapes=tuple([None if value is None else value.numbers for value in output_lists[-1]]),
        macs=work.macs,
        other_ops=work.other_ops,
        params=sum([params.get(key, 0) for key in weights]) if weights else 0,
        weight_bytes=sum([value.bytes for value in weights.values()]) if weights else 0,
        activation_bytes=max([_activation_bytes(node, outputs) for outputs in output_lists]),
        runs=runs,
        known=known,
        path=node.path,
    )


def _node_cost(**fields: Any) -> NodeCost:
    """A NodeCost of all its fields.

    Its own `__init__` sets the frozen fields one by one, which takes 9 % more time for the profiles of the light
    SqueezeNet and DenseNet-121 of the onnx package (paired turns).
    """
    cost = object.__new__(NodeCost)
    vars(cost).update(fields)
    return cost


def _activation_bytes(node: Node, outputs: Sequence[Value | None]) -> int:
    named = [
        value for name, value in zip(node.makes, outputs, strict=False) if name
    ]  # rules infer outputs left out, too
    return sum(
        [value.bytes for value in named if value is not None and not value.is_weight]
    )  # a Constant makes weights


def _work(step: Step, executions: Sequence[Execution], runs: int | None) -> tuple[Work, bool]:
    """The work of all runs, and whether it is known."""
    node = step.node
    rule = macs.RULES.get((node.domain, node.op_type))
    if rule is None or runs == 0:
        return NOTHING, rule is not None
    try:
        if executions and not _is_static(node):
            parts = [(rule(with_shapes(node, execution)), execution.count) for execution in executions]
            return Work(*(sum(work[index] * times for work, times in parts) for index in range(2))), True
        once = rule(node)
        if type(once.macs) is not int or type(once.other_ops) is not int:  # an expression of a size that is not known
            return NOTHING, False
        return (once if runs == 1 else Work(once.macs * (runs or 1), once.other_ops * (runs or 1))), True
    except (UnknownError, AssertionError, TypeError, ValueError, IndexError, KeyError, ZeroDivisionError):
        # A size is not known, or the node breaks the rules of its operator.
        return NOTHING, False


def _is_static(node: Node) -> bool:
    return all(value is None or value.is_static or value.proto is not None for value in (*node.inputs, *node.outputs))


def with_shapes(node: Node, execution: Execution) -> Node:
    """A copy of a node whose tensors have the shapes of one execution.

    Values whose shape is known without a run are the same objects as those of the node.
    """
    inputs, outputs = _reshaped(node.inputs, execution.inputs), _reshaped(node.outputs, execution.outputs)
    return Node(node.proto, inputs, outputs, version=node.version, path=node.path)


def _reshaped(values: Sequence[Value | None], shapes: Sequence[tuple[int, ...]]) -> list[Value | None]:
    shaped = list(values)
    tensors = [(index, value) for index, value in enumerate(values) if value is not None and value.proto is None]
    if len(tensors) == len(shapes):  # else the run shows no shapes of values that are no tensors
        for (index, value), shape in zip(tensors, shapes, strict=True):
            if not value.is_static:
                shaped[index] = Value(value.dtype, shape, value.elements)
    return shaped
