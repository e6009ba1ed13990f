"""What shape inference tells of a graph: its nodes in order with the shapes of their values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from bench.graphs.deferred import onnx
from bench.graphs.shapes.dims import Size
from bench.graphs.shapes.node import Node, Value

Scope = Mapping[str, Value]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Body:
    """A subgraph of a node.

    Attributes:
        runs: how often it runs each time that the node does; None where the data decide.
        is_branch: whether it runs instead of others.
    """

    path: str
    steps: Sequence[Step]
    values: Scope
    outputs: Sequence[Value]
    runs: Size | None
    is_branch: bool = False


class Step(NamedTuple):
    """A node with everything that is known of it.

    Attributes:
        is_open: whether the data decide a shape that it makes, or how often a body runs.
        why_unknown: what inference failed at, if it did.
    """

    node: Node
    bodies: Sequence[Body] = ()
    is_open: bool = False
    why_unknown: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inferred:
    """What is known of a model.

    Attributes:
        steps: nodes of the main graph in order.
        values: of the main graph, by name.
    """

    model: onnx.ModelProto
    steps: Sequence[Step]
    values: Scope

    @property
    def outputs(self) -> list[Value]:
        """The outputs of the main graph."""
        return [self.values[value.name] for value in self.model.graph.output]


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
    """Nodes with those of their subgraphs."""
    for step in steps:
        yield step
        for body in step.bodies:
            yield from all_steps(body.steps)


def all_outputs(inferred: Inferred) -> Iterator[Value]:
    """Outputs of a model and of all subgraphs."""
    yield from inferred.outputs
    for step in all_steps(inferred.steps):
        for body in step.bodies:
            yield from body.outputs
