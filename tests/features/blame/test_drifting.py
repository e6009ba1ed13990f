"""The search for wrong outputs, with errors that are made up."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import pytest

from bench.api.errors import ArtifactError
from bench.features.blame.cuts import Aligned, Graph, Node, Part, align
from bench.features.blame.drifting import Drifted, DriftSearch

TOLERANCE = 1e-3


def row(number: int) -> Aligned:
    """Both sides one chain of nodes."""
    nodes = tuple(Node(name=f"n{at}", operator="Op", reads=(f"t{at}",), makes=(f"t{at + 1}",)) for at in range(number))
    graph = Graph(nodes=nodes, inputs=("t0",), outputs=(f"t{number}",))
    return align(graph, graph, {f"t{at}": f"t{at}" for at in range(number + 1)})


@dataclasses.dataclass(kw_only=True)
class FakeComparing:
    """Errors of a chain to which each node adds its own.

    Attributes:
        own: by node, its own error.
        unlike: tensors that cannot be compared.
        unable: whether no part can be run alone.
    """

    own: Mapping[int, float]
    unlike: Sequence[str] = ()
    unable: bool = False
    looked: list[str] = dataclasses.field(default_factory=list)

    def tensors(self, names: Sequence[str]) -> list[float | None]:
        self.looked += names
        return [None if name in self.unlike else self._sum(0, int(name[1:])) for name in names]

    def alone(self, part: Part, tensor: str) -> float | None:
        assert tensor == f"t{part.end}"
        return None if self.unable else self._sum(part.start, part.end)

    def _sum(self, start: int, end: int) -> float:
        return sum(error for at, error in self.own.items() if start <= at < end)


def drifted(compares: FakeComparing, number: int = 300) -> Drifted:
    return DriftSearch(row(number), compares, TOLERANCE).run()


@pytest.mark.parametrize("wrong", [0, 1, 137, 298, 299])
def test_the_wrong_node_is_named_and_shows_it_alone(wrong: int) -> None:
    compares = FakeComparing(own={wrong: 0.02})

    answer = drifted(compares)

    assert answer.core == answer.part == Part(start=wrong, end=wrong + 1)
    assert (answer.tensor, answer.tensor_error, answer.part_error) == (f"t{wrong + 1}", 0.02, 0.02)
    assert len(compares.looked) < 100  # of 300


def test_nothing_is_blamed_within_the_tolerance() -> None:
    answer = drifted(FakeComparing(own={5: 0.9 * TOLERANCE}))

    assert (answer.core, answer.error) == (None, 0.9 * TOLERANCE)


def test_errors_that_add_up_take_the_nodes_before_along() -> None:
    answer = drifted(FakeComparing(own=dict.fromkeys(range(10, 30), TOLERANCE / 8)))

    assert answer.core == Part(start=18, end=19)  # the ninth eighth is the first beyond it
    assert answer.part == Part(start=10, end=19)  # and with fewer it is within
    assert answer.part_error == pytest.approx(9 / 8 * TOLERANCE)


def test_tensors_that_cannot_be_compared_are_passed_over() -> None:
    answer = drifted(FakeComparing(own={40: 0.1}, unlike=[f"t{at}" for at in range(30, 41)]))

    assert answer.core == Part(start=40, end=41)


def test_an_output_that_cannot_be_compared_is_no_output_without_drift() -> None:
    with pytest.raises(ArtifactError, match="'t300' cannot be compared"):
        drifted(FakeComparing(own={}, unlike=["t300"]))


def test_without_a_common_output_nothing_is_said_of_drift() -> None:
    nodes = (Node(name="n", operator="Op", reads=("x",), makes=("y",)),)
    aligned = align(
        Graph(nodes=nodes, inputs=("x",), outputs=("y",)),
        Graph(nodes=(Node(name="n", operator="Op", reads=("x",), makes=("z",)),), inputs=("x",), outputs=("z",)),
        {"x": "x"},
    )

    with pytest.raises(ArtifactError, match="none can be compared"):
        DriftSearch(aligned, FakeComparing(own={}), TOLERANCE).run()


def test_a_part_that_cannot_be_run_shows_nothing() -> None:
    answer = drifted(FakeComparing(own={4: 0.1}, unable=True))

    assert (answer.core, answer.part, answer.part_error) == (Part(start=4, end=5), None, None)


def test_an_error_without_bound_is_a_drift() -> None:
    assert drifted(FakeComparing(own={7: math.inf})).core == Part(start=7, end=8)


def test_of_two_branches_the_earlier_is_named() -> None:
    """The output reads both branches; the one that stands later is within the tolerance until they meet."""
    nodes = (
        Node(name="left", operator="Op", reads=("x",), makes=("l",)),
        Node(name="right", operator="Op", reads=("x",), makes=("r",)),
        Node(name="sum", operator="Add", reads=("l", "r"), makes=("y",)),
    )
    graph = Graph(nodes=nodes, inputs=("x",), outputs=("y",))
    aligned = align(graph, graph, {name: name for name in "xlry"})

    class Branches(FakeComparing):
        def tensors(self, names: Sequence[str]) -> list[float | None]:
            return [{"l": 0.5, "r": 0.0, "y": 0.5}[name] for name in names]

        def alone(self, part: Part, tensor: str) -> float | None:
            return {"l": 0.5}[tensor]

    answer = DriftSearch(aligned, Branches(own={0: 0.5}), TOLERANCE).run()

    assert answer.tensor == "l"
