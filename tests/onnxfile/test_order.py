"""Nodes in an order in which they can be run."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from bench.onnxfile.edits.order import replace_nodes
from support import variant_graphs as graphs

node = helper.make_node


def test_nodes_stay_where_they_are_but_for_those_that_come_too_early() -> None:
    ordered = [node("Exp", ["x"], ["a"]), node("Neg", ["x"], ["b"]), node("Abs", ["b"], ["c"])]
    ordered += [node("Add", ["a", "c"], ["d"]), node("Relu", ["d"], ["y"])]
    model = graphs.model_of(ordered, {}, inputs={"x": ["batch", 4]}, outputs={"y": ["batch", 4]})
    exp, neg, absolute, add, relu = ordered
    replace_nodes(model, [add, exp, absolute, neg, relu])
    assert [item.op_type for item in model.graph.node] == ["Exp", "Neg", "Abs", "Add", "Relu"]
    replace_nodes(model, model.graph.node)
    assert [item.op_type for item in model.graph.node] == ["Exp", "Neg", "Abs", "Add", "Relu"]


def test_nodes_that_nothing_reads_are_left_out_with_what_leads_to_them() -> None:
    nodes = [node("Exp", ["x"], ["unused"]), node("Neg", ["unused"], ["too"]), node("Relu", ["x"], ["y"])]
    model = graphs.model_of(nodes, {}, inputs={"x": ["batch", 4]}, outputs={"y": ["batch", 4]})
    replace_nodes(model, nodes)
    assert [item.op_type for item in model.graph.node] == ["Relu"]


def test_what_a_subgraph_reads_comes_before_it() -> None:
    around = [node("Exp", ["half"], ["factor"])]
    model = graphs.looped([node("Mul", ["state", "factor"], ["next"])], {"half": np.float32(0.5)}, around)
    replace_nodes(model, list(reversed(model.graph.node)))
    assert [item.op_type for item in model.graph.node] == ["Exp", "Loop"]


def test_circle_is_our_own_mistake() -> None:
    model = graphs.model_of([node("Relu", ["x"], ["y"])], {}, inputs={"x": ["batch", 4]}, outputs={"y": ["batch", 4]})
    with pytest.raises(AssertionError, match="circle"):
        replace_nodes(
            model, [node("Add", ["x", "b"], ["a"]), node("Add", ["a", "x"], ["b"]), node("Neg", ["b"], ["y"])]
        )
