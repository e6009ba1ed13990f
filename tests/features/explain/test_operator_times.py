"""Nodes of two runs side by side: which nodes were fused with which, and the time of each."""

from __future__ import annotations

from bench.api import NodeTime
from bench.features.explain.operator_times import Change, OperatorTime, by_operator, changes
from bench.pipeline.node_matches import Match, match


def node(operator: str, reads: str, makes: str, time_ns: float = 1.0, *, covers: str | None = None) -> NodeTime:
    """One whose tensors are letters, and which covers what it makes."""
    return NodeTime(
        name=makes,
        operator=operator,
        provider="p",
        time_ns=time_ns,
        reads=tuple(reads),
        makes=tuple(makes),
        covers=tuple(makes if covers is None else covers),
    )


def operators(matches: list[Match]) -> list[tuple[str, str]]:
    return [tuple(" ".join(one.operator for one in side) for side in (m.before, m.after)) for m in matches]  # type: ignore[misc]


CONVOLUTIONS = [
    node("Conv", "x", "a", 10),
    node("Relu", "a", "b", 3),
    node("Conv", "b", "c", 20),
    node("Relu", "c", "d", 4),
    node("Softmax", "d", "y", 5),
]


def test_fused_nodes_stand_beside_those_that_they_were() -> None:
    fused = [node("FusedConv", "x", "b", 11), node("FusedConv", "b", "d", 21), node("Softmax", "d", "y", 6)]
    found = match(CONVOLUTIONS, fused)
    assert operators(found) == [("Conv Relu", "FusedConv"), ("Conv Relu", "FusedConv"), ("Softmax", "Softmax")]
    assert changes(found) == [
        Change(before={"Conv": 1, "Relu": 1}, after={"FusedConv": 1}, count=2, before_ns=37, after_ns=32),
        Change(before={"Softmax": 1}, after={"Softmax": 1}, count=1, before_ns=5, after_ns=6),
    ]
    assert operators(match(fused, CONVOLUTIONS)) == [("FusedConv", "Conv Relu")] * 2 + [("Softmax", "Softmax")]


def test_what_one_side_alone_has_goes_with_what_reads_it() -> None:
    """A shape that two nodes read counts with the first: the two stay apart."""
    before = [
        node("Shape", "x", "s"),
        node("Reshape", "xs", "a"),
        node("Identity", "a", "i"),
        node("Relu", "i", "b"),
        node("Reshape", "bs", "y"),
    ]
    after = [node("Reshape", "x", "a"), node("Relu", "a", "b"), node("Reshape", "b", "y")]
    expected = [("Shape Reshape", "Reshape"), ("Identity Relu", "Relu"), ("Reshape", "Reshape")]
    assert operators(match(before, after)) == expected


def test_nodes_that_cover_the_same_though_they_make_something_else() -> None:
    """As a quantized convolution, which makes integers; without what it covers, it would all be one."""
    before = [node("Conv", "x", "a"), node("Conv", "a", "b"), node("Relu", "b", "y")]
    after = [
        node("QuantizeLinear", "x", "q"),
        node("QLinearConv", "q", "r", covers="a"),
        node("QLinearConv", "r", "s", covers="B"),
        node("DequantizeLinear", "s", "y"),
    ]
    expected = [
        ("Conv", "QuantizeLinear QLinearConv"),
        ("Conv", "QLinearConv"),
        ("Relu", "DequantizeLinear"),
    ]
    assert operators(match(before, after, {"a": "a", "B": "b", "y": "y"})) == expected
    assert operators(match(before, after)) == [expected[0], ("Conv Relu", "QLinearConv DequantizeLinear")]


def test_what_several_read_goes_with_one_that_both_have() -> None:
    """The LSTM's first reader is the arithmetic of shapes, which is on one side only."""
    before = [
        node("LSTM", "x", "l"),
        node("Shape", "l", "s"),
        node("Transpose", "l", "t"),
        node("Reshape", "ts", "y"),
    ]
    after = [node("DynamicQuantizeLSTM", "x", "q"), node("Transpose", "q", "t"), node("Reshape", "t", "y")]
    assert operators(match(before, after)) == [
        ("LSTM Transpose", "DynamicQuantizeLSTM Transpose"),
        ("Shape Reshape", "Reshape"),
    ]


def test_what_is_on_one_side_only() -> None:
    before = [node("Relu", "x", "y"), node("Sum", "x", "z")]
    assert operators(match(before, [node("Relu", "x", "y")])) == [("Relu", "Relu"), ("Sum", "")]


def test_without_tensors_operators_stand_side_by_side() -> None:
    """As where a provider compiled the graph."""
    compiled = [node("Conv", "", ""), node("Compiled", "", ""), node("Conv", "", "")]
    found = match(CONVOLUTIONS, compiled)
    assert sorted(operators(found)) == [
        ("", "Compiled"),
        ("Conv Conv", "Conv Conv"),
        ("Relu Relu", ""),
        ("Softmax", ""),
    ]


def test_nodes_of_a_body_stand_beside_their_like() -> None:
    """Their tensors are not those of the graph."""
    before = [node("Loop", "x", "y"), node("Add", "", ""), node("Add", "", "")]
    after = [node("Loop", "x", "y"), node("Add", "", "")]
    assert operators(match(before, after)) == [("Loop", "Loop"), ("Add Add", "Add")]


def test_time_by_operator() -> None:
    found = by_operator(CONVOLUTIONS, [node("FusedConv", "x", "d", 33), node("Softmax", "d", "y", 6)])
    assert found == [
        OperatorTime(operator="FusedConv", before_nodes=0, before_ns=0, after_nodes=1, after_ns=33),
        OperatorTime(operator="Conv", before_nodes=2, before_ns=30, after_nodes=0, after_ns=0),
        OperatorTime(operator="Relu", before_nodes=2, before_ns=7, after_nodes=0, after_ns=0),
        OperatorTime(operator="Softmax", before_nodes=1, before_ns=5, after_nodes=1, after_ns=6),
    ]
    alone = by_operator(None, [node("Relu", "x", "y", 2)])
    assert alone == [OperatorTime(operator="Relu", before_nodes=None, before_ns=None, after_nodes=1, after_ns=2)]
