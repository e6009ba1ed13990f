"""What shape inference tells of a graph: its nodes in order with the shapes of their values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from bench.graphs.shapes.dims import Atom, Size, symbols
from bench.graphs.shapes.node import Node, Value

if TYPE_CHECKING:
    import onnx

    Rule = Callable[[Node], Value | Sequence[Value | None]]


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


def all_steps(steps: Sequence[Step]) -> Iterator[Step]:
    """Nodes with those of their subgraphs."""
    for step in steps:
        yield step
        for body in step.bodies:
            yield from all_steps(body.steps)


def unknowns(size: Size) -> list[Atom]:
    """The dimensions that the data decide, of those in a size."""
    return [atom for atom in symbols(size) if not atom.is_free]
