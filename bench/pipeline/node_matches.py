"""The nodes that two runtimes ran, matched by the work they do, even where nodes were fused, split or left out.

Nodes do the same work when they compute the same tensors of the artifact. Where these tensors are not known, nodes of
one operator are matched.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Hashable, Mapping, Sequence

from bench.api import NodeTime


@dataclasses.dataclass(frozen=True, kw_only=True)
class Match:
    """Nodes of each side that do the same work; one side may have no node."""

    before: tuple[NodeTime, ...]
    after: tuple[NodeTime, ...]


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
