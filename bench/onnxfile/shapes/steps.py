"""The results of shape inference: the nodes of a graph in order, with the shapes of their values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from bench.onnxfile.deferred import onnx
from bench.onnxfile.shapes.dims import Size
from bench.onnxfile.shapes.node import Node, Value

Scope = Mapping[str, Value]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Body:
    """A subgraph of a node.

    Attributes:
        path: such as `loop_1.body`.
        steps: its nodes in order.
        values: all values that the subgraph has or can read, by name.
        outputs: values of the subgraph's outputs, in order.
        runs: number of runs of the subgraph in each run of the node; None if the number depends on data.
        is_branch: whether the subgraph runs instead of other subgraphs of the node.
        why_not: why the subgraph cannot run with these sizes; None if it can. It has no steps then.
    """

    path: str
    steps: Sequence[Step]
    values: Scope
    outputs: Sequence[Value]
    runs: Size | None
    is_branch: bool = False
    why_not: str | None = None


class Step(NamedTuple):
    """A node with the results of inference.

    Attributes:
        is_open: whether a shape of an output, or the number of runs of a body, depends on data.
        why_unknown: onnx's message if its inference of the node failed, else None.
    """

    node: Node
    bodies: Sequence[Body] = ()
    is_open: bool = False
    why_unknown: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inferred:
    """The results of inference for a model.

    Attributes:
        model: the settled model.
        steps: nodes of the main graph in order.
        values: of the main graph, by name.
    """

    model: onnx.ModelProto
    steps: Sequence[Step]
    values: Scope


class GraphWalk(Protocol):
    """The two methods of a walk over a model (`inference.Walk`) that operators with subgraphs call."""

    def graph(self, graph: onnx.GraphProto, given: Scope, outer: Scope, path: str) -> tuple[Sequence[Step], Scope]:
        """Infer a subgraph.

        Args:
            given: values of its inputs, by name.
            outer: values of the graphs around it, by name.
            path: of the subgraph, such as `loop_1.body`.

        Returns:
            Its nodes in order, and all values that it has or can read.
        """

    def declared(self, proto: onnx.TypeProto) -> Value:
        """A value of the type that the file states."""


def all_steps(steps: Sequence[Step]) -> Iterator[Step]:
    """Nodes in order, each followed by the nodes of its subgraphs."""
    for step in steps:
        yield step
        for body in step.bodies:
            yield from all_steps(body.steps)


def all_outputs(inferred: Inferred) -> Iterator[Value]:
    """Outputs of a model and of all subgraphs."""
    yield from (inferred.values[value.name] for value in inferred.model.graph.output)
    for step in all_steps(inferred.steps):
        for body in step.bodies:
            yield from body.outputs
