"""The nodes that two runtimes ran, matched by the work that they do, also where nodes were fused, split or removed.

Two nodes do the same work where both compute the same tensor of the artifact. Where the tensors are unknown, nodes of
the same operator are matched.
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
    """Matches that have the same operators on both sides.

    Attributes:
        before, after: number of nodes in one match by operator, the operators that take most time first.
        count: number of matches.
        before_ns, after_ns: total time of all matches in nanoseconds.
    """

    before: dict[str, int]
    after: dict[str, int]
    count: int
    before_ns: float
    after_ns: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class OperatorTime:
    """Number and total time of all nodes of one operator; None before where there is no other side."""

    operator: str
    before_nodes: int | None
    before_ns: float | None
    after_nodes: int
    after_ns: float


def by_operator(before: Sequence[NodeTime] | None, after: Sequence[NodeTime]) -> list[OperatorTime]:
    """Operators of both sides, those that take most time first; None for no other side."""
    counts = [collections.Counter(node.operator for node in side or ()) for side in (before, after)]
    times = [_time_of_each(side or ()) for side in (before, after)]
    found = [
        OperatorTime(
            operator=name,
            before_nodes=None if before is None else counts[0][name],
            before_ns=None if before is None else times[0][name],
            after_nodes=counts[1][name],
            after_ns=times[1][name],
        )
        for name in {**counts[0], **counts[1]}
    ]
    return sorted(found, key=lambda one: (-max(one.before_ns or 0.0, one.after_ns), one.operator))


def changes(matches: Iterable[Match]) -> list[Change]:
    """Matches grouped by their operators, the groups that take most time first."""
    alike: dict[Hashable, list[Match]] = {}
    for match in matches:
        key = tuple(tuple(sorted(node.operator for node in side)) for side in (match.before, match.after))
        alike.setdefault(key, []).append(match)
    found = [
        Change(
            before=_operators([node for match in group for node in match.before], len(group)),
            after=_operators([node for match in group for node in match.after], len(group)),
            count=len(group),
            before_ns=sum(node.time_ns for match in group for node in match.before),
            after_ns=sum(node.time_ns for match in group for node in match.after),
        )
        for group in alike.values()
    ]
    return sorted(found, key=lambda change: -max(change.before_ns, change.after_ns))


def _operators(nodes: Sequence[NodeTime], times: int) -> dict[str, int]:
    """Number of nodes by operator in each of `times` equal matches, the operators that take most time first."""
    counts = collections.Counter(node.operator for node in nodes)
    taken = _time_of_each(nodes)
    return {name: counts[name] // times for name in sorted(counts, key=lambda name: -taken[name])}


def _time_of_each(nodes: Iterable[NodeTime]) -> dict[str, float]:
    taken: dict[str, float] = collections.defaultdict(float)
    for node in nodes:
        taken[node.operator] += node.time_ns
    return taken


def match(before: Sequence[NodeTime], after: Sequence[NodeTime], names: Mapping[str, str] | None = None) -> list[Match]:
    """Match the nodes that do the same work, in the order in which they run.

    Nodes that compute the same tensor belong together. A node that computes no tensor of the other side belongs to a
    node that reads its outputs: to the first such node that computes a shared tensor, or else to the first. So the
    nodes that were fused into one node are those between the tensors that both sides share.

    Args:
        before: the nodes of the first side.
        after: the nodes of the second side.
        names: names of the tensors that both sides share, from the second side to the first; by default tensors of
            the same name are the same.
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
    found: dict[Hashable, tuple[list[NodeTime], list[NodeTime]]] = {}
    for which in (1, 0):
        for index, node in enumerate(sides[which]):
            found.setdefault(together[which, index], ([], []))[which].append(node)
    return [Match(before=tuple(old), after=tuple(new)) for old, new in found.values()]
