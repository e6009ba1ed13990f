"""A model made ready to be walked: its local functions inlined, and each node with a name of its own."""

from __future__ import annotations

import itertools

from bench.graphs.deferred import onnx

HOLD_GRAPHS = ("If", "Loop", "Scan", "SequenceMap")
"""ONNX's own operators that have graphs as attributes; others may have them, too."""


def settle(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without local functions, and with a name for each node that no other has."""
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
