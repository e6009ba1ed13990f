"""The nodes that two runtimes ran, matched by the work they do, even where nodes were fused, split or left out.

Nodes do the same work when they compute the same tensors of the artifact. Where these tensors are not known, nodes of
one operator are matched.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Hashable, Iterable, Mapping, Sequence

from bench.api import NodeTime


@dataclasses.dataclass(frozen=True, kw_only=True)
class Match:
    """Nodes of each side that do the same work; one side may have no node."""

    before: tuple[NodeTime, ...]
    after: tuple[NodeTime, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Change:
    """Matches that look alike: the same operators became the same operators.

    Attributes:
        before, after: number of nodes of each operator in one such match; operators that take most time come first.
        count: number of matches that look alike.
        before_ns, after_ns: time of all these matches together.
    """

    before: dict[str, int]
    after: dict[str, int]
    count: int
    before_ns: float
    after_ns: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class OperatorTime:
    """Number and time of all nodes of one operator on each side; None where there is no side before."""

    operator: str
    before_nodes: int | None
    before_ns: float | None
    after_nodes: int
    after_ns: float


def by_operator(before: Sequence[NodeTime] | None, after: Sequence[NodeTime]) -> list[OperatorTime]:
    """Number and time of nodes by operator, those that take most time first.

    Args:
        before: nodes of the cell to compare with; None where there is no such cell.
        after: nodes of the cell.
    """
    counts = [collections.Counter(node.operator for node in side or ()) for side in (before, after)]
    times = [_time_of_each(side or ()) for side in (before, after)]
    operators = [
        OperatorTime(
            operator=name,
            before_nodes=None if before is None else counts[0][name],
            before_ns=None if before is None else times[0][name],
            after_nodes=counts[1][name],
            after_ns=times[1][name],
        )
        for name in {**counts[0], **counts[1]}
    ]
    return sorted(
        operators, key=lambda operator: (-max(operator.before_ns or 0.0, operator.after_ns), operator.operator)
    )


def changes(matches: Iterable[Match]) -> list[Change]:
    """Matches grouped by the operators on both sides, those that take most time first."""
    alike: dict[Hashable, list[Match]] = {}
    for match in matches:
        key = tuple(tuple(sorted(node.operator for node in side)) for side in (match.before, match.after))
        alike.setdefault(key, []).append(match)
    kinds = [
        Change(
            before=_operators([node for match in group for node in match.before], len(group)),
            after=_operators([node for match in group for node in match.after], len(group)),
            count=len(group),
            before_ns=sum(node.time_ns for match in group for node in match.before),
            after_ns=sum(node.time_ns for match in group for node in match.after),
        )
        for group in alike.values()
    ]
    return sorted(kinds, key=lambda change: -max(change.before_ns, change.after_ns))


def _operators(nodes: Sequence[NodeTime], times: int) -> dict[str, int]:
    """How often each operator is in one of `times` matches that look alike, those that take most time first."""
    counts = collections.Counter(node.operator for node in nodes)
    taken = _time_of_each(nodes)
    return {name: counts[name] // times for name in sorted(counts, key=lambda name: -taken[name])}


def _time_of_each(nodes: Iterable[NodeTime]) -> dict[str, float]:
    taken: dict[str, float] = collections.defaultdict(float)
    for node in nodes:
        taken[node.operator] += node.time_ns
    return taken


def match(before: Sequence[NodeTime], after: Sequence[NodeTime], names: Mapping[str, str] | None = None) -> list[Match]:
    """Nodes of both sides that do the same work, in the order in which they run.

    Nodes that compute the same tensor are matched. A node that has no tensor in common with the other side joins a node
    that reads its outputs: the first such node that has a tensor in common, or else the first. So nodes that were fused
    into one are those between the tensors that both sides have.

    Args:
        before: nodes of the one side.
        after: nodes of the other side.
        names: names of tensors of `after`, with the names of the same tensors in `before`; None where tensors of one
            name are the same.
    """
    from scipy.cluster.hierarchy import DisjointSet

    sides = (before, after)
    covered = (
        [set(node.covers) for node in before],
        [
            set(node.covers) if names is None else {names[name] for name in node.covers if name in names}
            for node in after
        ],
    )
    common = set().union(*covered[0]) & set().union(*covered[1])
    is_known = all(any(node.covers for node in side) for side in sides)
    together = DisjointSet([(which, index) for which, side in enumerate(sides) for index in range(len(side))])
    for which, side in enumerate(sides):
        shared = [[("tensor", name) for name in sorted(names & common)] for names in covered[which]]
        readers: dict[str, list[int]] = collections.defaultdict(list)
        for index, node in enumerate(side):
            for name in node.reads:
                readers[name].append(index)
        for index, node in enumerate(side):
            anchors = shared[index]
            followers = [reader for name in node.makes for reader in readers[name]]
            if not is_known or not (node.makes or anchors):
                anchors = [("operator", node.operator)]
            elif not anchors and followers:
                together.merge((which, index), (which, min(followers, key=lambda reader: (not shared[reader], reader))))
            for anchor in anchors:
                together.add(anchor)
                together.merge((which, index), anchor)
    members: dict[Hashable, tuple[list[NodeTime], list[NodeTime]]] = {}
    for which in (1, 0):
        for index, node in enumerate(sides[which]):
            members.setdefault(together[which, index], ([], []))[which].append(node)
    return [Match(before=tuple(old), after=tuple(new)) for old, new in members.values()]
