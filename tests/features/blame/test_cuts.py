"""Two graphs as a row of atoms: where both can be cut, and what a part needs and gives."""

from __future__ import annotations

import itertools
import random

import pytest

from bench.features.blame.cuts import Aligned, Graph, Node, Part, align, gaps


def node(name: str, reads: str, makes: str, operator: str = "Op") -> Node:
    return Node(name=name, operator=operator, reads=tuple(reads.split()), makes=tuple(makes.split()))


def graph(*nodes: Node, inputs: str = "x", outputs: str = "y") -> Graph:
    return Graph(nodes=nodes, inputs=tuple(inputs.split()), outputs=tuple(outputs.split()))


def same(names: str) -> dict[str, str]:
    return {name: name for name in names.split()}


def groups(aligned: Aligned) -> list[tuple[list[str], list[str]]]:
    """Names of the nodes of each atom on both sides."""
    parts = (aligned.nodes(Part(start=at, end=at + 1)) for at in range(len(aligned.atoms)))
    return [([each.name for each in before], [each.name for each in after]) for before, after in parts]


CHAIN = graph(node("a", "x", "t"), node("b", "t", "u"), node("c", "u", "y"))


def test_one_graph_is_cut_at_every_node() -> None:
    aligned = align(CHAIN, CHAIN, same("x t u y"))

    assert groups(aligned) == [(["a"], ["a"]), (["b"], ["b"]), (["c"], ["c"])]
    first, second = aligned.interfaces(Part(start=1, end=2))
    assert first == second
    assert (first.inputs, first.outputs, first.num_nodes) == (("t",), ("u",), 1)


def test_what_one_side_alone_has_goes_with_what_both_compute() -> None:
    after = graph(
        node("a", "x", "t"), node("turn", "t", "v"), node("back", "v", "w"), node("b", "w", "u"), node("c", "u", "y")
    )

    aligned = align(CHAIN, after, same("x t u y"))

    assert groups(aligned) == [(["a"], ["a"]), (["b"], ["turn", "back", "b"]), (["c"], ["c"])]
    first, second = aligned.interfaces(Part(start=1, end=2))
    assert (first.inputs, first.outputs) == (second.inputs, second.outputs) == (("t",), ("u",))


def test_renamed_tensors_have_each_sides_own_names() -> None:
    after = graph(node("0", "x", "1"), node("1", "1", "2"), node("2", "2", "y"))

    aligned = align(CHAIN, after, {"x": "x", "1": "t", "2": "u", "y": "y"})
    first, second = aligned.interfaces(Part(start=1, end=2))

    assert (first.inputs, first.outputs) == (("t",), ("u",))
    assert (second.inputs, second.outputs) == (("1",), ("2",))


def test_a_name_that_stands_for_other_tensors_on_both_sides_is_not_mistaken() -> None:
    """The optimizer's `t` is the first side's `u`, and its `u` is new."""
    after = graph(node("p", "x", "t"), node("q", "t", "u"), node("r", "u", "y"))

    aligned = align(CHAIN, after, {"x": "x", "t": "u", "y": "y"})

    assert groups(aligned) == [(["a", "b"], ["p"]), (["c"], ["q", "r"])]
    first, second = aligned.interfaces(Part(start=1, end=2))
    assert (first.inputs, second.inputs) == (("u",), ("t",))


def test_nodes_of_one_kernel_are_not_cut_apart() -> None:
    aligned = align(CHAIN, CHAIN, same("x t u y"), ([{"t", "u"}], []))

    assert groups(aligned) == [(["a", "b"], ["a", "b"]), (["c"], ["c"])]


def test_a_kernel_of_a_whole_large_graph_says_nothing() -> None:
    nodes = [node(f"n{at}", f"t{at}", f"t{at + 1}") for at in range(100)]
    large = graph(*nodes, inputs="t0", outputs="t100")
    names = {f"t{at}": f"t{at}" for at in range(101)}

    aligned = align(large, large, names, ([{f"t{at}" for at in range(1, 101)}], []))

    assert len(aligned.atoms) == 100


def test_a_kernel_with_another_between_its_nodes_takes_that_in() -> None:
    """Otherwise the kernel would need what it gives itself."""
    aligned = align(CHAIN, CHAIN, same("x t u y"), ([{"t", "y"}], []))

    assert groups(aligned) == [(["a", "b", "c"], ["a", "b", "c"])]


def test_branches_stand_in_an_order_in_which_both_graphs_run() -> None:
    before = graph(node("a", "x", "t"), node("b", "t", "u"), node("c", "x", "v"), node("d", "u v", "y"))
    after = graph(node("c", "x", "v"), node("a", "x", "t"), node("b", "t", "u"), node("d", "u v", "y"))

    aligned = align(before, after, same("x t u v y"))

    order = [pair[0][0] for pair in groups(aligned)]
    assert order.index("a") < order.index("b") < order.index("d") == 3
    part = Part(start=0, end=3)
    assert set(aligned.interfaces(part)[0].outputs) == {"u", "v"}
    assert aligned.interfaces(part)[1].inputs == ("x",)


def test_an_output_that_is_read_on_is_still_given() -> None:
    before = graph(node("a", "x", "t"), node("b", "t", "y"), outputs="t y")

    first, _ = align(before, before, same("x t y")).interfaces(Part(start=0, end=2))

    assert set(first.outputs) == {"t", "y"}


def test_a_graph_without_nodes_has_no_atoms() -> None:
    empty = graph(outputs="x")

    assert align(empty, empty, same("x")).atoms == ()


@pytest.mark.parametrize("seed", range(20))
def test_parts_of_random_graphs_fit_together(seed: int) -> None:
    """Each part needs only what the inputs or earlier parts give, on both sides, and each node is in one part."""
    generator = random.Random(seed)
    nodes, tensors = [], ["x"]
    for number in range(40):
        reads = " ".join(dict.fromkeys(generator.choices(tensors[-6:], k=generator.randint(1, 3))))
        nodes.append(node(f"n{number}", reads, f"t{number}"))
        tensors.append(f"t{number}")
    read = {name for each in nodes for name in each.reads}
    outputs = [name for name in tensors[1:] if name not in read]
    before = graph(*nodes, outputs=" ".join(outputs))
    common = {name: name for name in tensors if name in outputs or name == "x" or generator.random() < 0.6}
    kernels = [{f"t{at}", f"t{at + 1}"} for at in range(0, 38, 5)]

    aligned = align(before, before, common, (kernels, []))
    bounds = sorted({0, len(aligned.atoms), *(generator.randrange(len(aligned.atoms)) for _ in range(4))})
    parts = [Part(start=start, end=end) for start, end in itertools.pairwise(bounds)]

    for side in (0, 1):
        known = {"x"}
        for part in parts:
            interface = aligned.interfaces(part)[side]
            assert set(interface.inputs) <= known
            known |= set(interface.outputs)
        assert set(outputs) <= known
        names = [each.name for part in parts for each in aligned.nodes(part)[side]]
        assert sorted(names) == sorted(each.name for each in nodes)


def test_gaps_are_what_lies_between() -> None:
    within = Part(start=2, end=10)

    assert gaps([Part(start=5, end=6), Part(start=2, end=3)], within) == [
        Part(start=3, end=5),
        Part(start=6, end=10),
    ]
    assert gaps([], within) == [within]
    assert gaps([within], within) == []
