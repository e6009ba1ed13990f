"""Times by operator on both sides, and which operators became which: see `bench.pipeline.node_matches`."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Hashable, Iterable, Sequence

from bench.api import NodeTime
from bench.pipeline.node_matches import Match


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
