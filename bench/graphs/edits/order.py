"""Which nodes of an ONNX graph are needed, and an order in which they can be run."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from bench.graphs.deferred import onnx
from bench.graphs.file.reads import node_reads

if TYPE_CHECKING:
    from collections.abc import Sequence


def replace_nodes(model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto]) -> None:
    """Make some nodes those of the main graph: in an order in which they can be run, without those that nothing reads.

    Nodes that could be run where they stand stay in their order. What a subgraph reads counts.
    """
    reads = [node_reads(node) for node in nodes]
    made_by = {name: at for at, node in enumerate(nodes) for name in node.output if name}
    needed: set[int] = set()
    queue = [made_by[value.name] for value in model.graph.output if value.name in made_by]
    while queue:
        at = queue.pop()
        if at not in needed:
            needed.add(at)
            queue += [made_by[name] for name in reads[at] if name in made_by]
    waits_for = {at: {made_by[name] for name in reads[at] if name in made_by} for at in needed}
    followers: dict[int, list[int]] = {at: [] for at in needed}
    for at, others in waits_for.items():
        for other in others:
            followers[other].append(at)
    ready = [at for at, others in waits_for.items() if not others]
    heapq.heapify(ready)
    order = []
    while ready:
        order.append(heapq.heappop(ready))
        for follower in followers[order[-1]]:
            waits_for[follower].remove(order[-1])
            if not waits_for[follower]:
                heapq.heappush(ready, follower)
    assert len(order) == len(needed), "nodes read each other in a circle"
    # Copied first: they may be nodes of this very graph.
    copies = [_copy(nodes[at]) for at in order]
    del model.graph.node[:]
    model.graph.node.extend(copies)


def _copy(node: onnx.NodeProto) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    return copy
