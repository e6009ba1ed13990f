"""A model prepared for a walk over its nodes: local functions are inlined, and each node has a name of its own."""

from __future__ import annotations

import itertools

from bench.graphs.deferred import onnx

HOLD_GRAPHS = ("If", "Loop", "Scan", "SequenceMap")
"""ONNX's own operators that have graphs as attributes; operators of other domains may have them, too."""


def settle(model: onnx.ModelProto) -> onnx.ModelProto:
    """Inline the local functions of a model, and give each node a name that no other node has.

    A model without local functions is changed in place.
    """
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    _name_nodes(model.graph, set(), onnx.AttributeProto.GRAPH)
    return model


def _name_nodes(graph: onnx.GraphProto, taken: set[str], holds_graph: int) -> None:
    for node in graph.node[:]:  # a slice is read at once, an iterator item by item
        name = node.name
        if not name or name in taken:
            others = (f"{name or node.op_type}_{number}" for number in itertools.count(len(taken)))
            node.name = name = next(other for other in others if other not in taken)
        taken.add(name)
        if not node.domain and node.op_type not in HOLD_GRAPHS:
            continue
        for attribute in node.attribute:
            if attribute.type == holds_graph:
                _name_nodes(attribute.g, taken, holds_graph)
