"""Two graphs of one model as a row of atoms that both have, and the parts that can be cut out of both.

An atom is what cannot be cut further: nodes of the first graph, and the nodes of the second that do the same work. The
two meet where both compute the same tensors, so whatever lies between two common tensors is in one atom. So are the
nodes that one kernel of a runtime computes: a cut through a kernel would be of other kernels. Atoms stand in an order
in which both graphs can run, and a part is a run of neighbours in it.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import heapq
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
from scipy.cluster.hierarchy import DisjointSet
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

_MOST_OF_GRAPH = 0.25
"""Share of a graph's nodes beyond which a kernel says nothing of where to cut: a whole graph may be compiled as one."""
_FEW_NODES = 20
"""Nodes that may be in one kernel however small the graph."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Node:
    """A node of a graph.

    Attributes:
        name: its name, which no other node of the graph has.
        operator: its type.
        reads: names of the tensors that it reads, without weights and what is made of weights alone; what its subgraphs
            read of the graph around them is among these.
        makes: names of the tensors that it makes.
    """

    name: str
    operator: str
    reads: tuple[str, ...]
    makes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Graph:
    """The nodes that lead to the outputs of a model, in an order in which they can run.

    Attributes:
        nodes: the nodes, without those that make constants.
        inputs: names of the model's inputs.
        outputs: names of the model's outputs.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def makers(self) -> dict[str, int]:
        """The node that makes each tensor, by the tensor's name."""
        return {name: index for index, node in enumerate(self.nodes) for name in node.makes}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Atom:
    """Nodes of both graphs that do the same work, by index; one of the graphs may have none.

    Attributes:
        before: nodes of the first graph.
        after: nodes of the second graph.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def sides(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return self.before, self.after


@dataclasses.dataclass(frozen=True, kw_only=True)
class Interface:
    """What a part of one graph needs and gives, as names in that graph."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    num_nodes: int


@dataclasses.dataclass(frozen=True, kw_only=True, order=True)
class Part:
    """Neighbouring atoms: those from `start` on, before `end`."""

    start: int
    end: int

    @property
    def num_atoms(self) -> int:
        return self.end - self.start

    @property
    def key(self) -> str:
        """A name of the part, which can be that of a file."""
        return f"part_{self.start}_{self.end}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Aligned:
    """Two graphs with their common tensors, and the atoms in an order in which both can run.

    Attributes:
        before: the first graph.
        after: the second graph.
        names: names in the first graph of tensors of the second one.
        atoms: the atoms.
    """

    before: Graph
    after: Graph
    names: Mapping[str, str]
    atoms: tuple[Atom, ...]

    def whole(self) -> Part:
        """All atoms."""
        return Part(start=0, end=len(self.atoms))

    def nodes(self, part: Part) -> tuple[list[Node], list[Node]]:
        """The nodes of a part in both graphs."""
        atoms = self.atoms[part.start : part.end]
        sides = zip((self.before, self.after), zip(*(atom.sides for atom in atoms), strict=True), strict=True)
        first, second = ([graph.nodes[index] for group in groups for index in sorted(group)] for graph, groups in sides)
        return first, second

    def interfaces(self, part: Part) -> tuple[Interface, Interface]:
        """What a part needs and gives in both graphs: the same tensors are given, so that no side gives more."""
        sides = self.nodes(part)
        made_by_name: list[dict[str, str]] = []
        passed_on: dict[str, None] = {}
        for number, (graph, side) in enumerate(zip((self.before, self.after), sides, strict=True)):
            own_names = {node.name for node in side}
            read_outside = {name for node in graph.nodes if node.name not in own_names for name in node.reads}
            read_outside |= set(graph.outputs)
            names = {name: known for node in side for name in node.makes if (known := self._common(number, name))}
            made_by_name.append({known: name for name, known in names.items()})
            passed_on |= dict.fromkeys(known for name, known in names.items() if name in read_outside)
        both = [name for name in passed_on if all(name in names for names in made_by_name)]
        first, second = (
            Interface(inputs=_needs(side), outputs=tuple(names[name] for name in both), num_nodes=len(side))
            for side, names in zip(sides, made_by_name, strict=True)
        )
        return first, second

    def _common(self, number: int, name: str) -> str | None:
        """The name in the first graph of a tensor that both have; None of any other."""
        return self.names.get(name) if number else name if name in self._named_before else None

    @functools.cached_property
    def _named_before(self) -> frozenset[str]:
        return frozenset(self.names.values())


def _needs(nodes: Sequence[Node]) -> tuple[str, ...]:
    """Tensors that nodes read and do not make."""
    own = {name for node in nodes for name in node.makes}
    return tuple(dict.fromkeys(name for node in nodes for name in node.reads if name not in own))


def align(
    before: Graph, after: Graph, names: Mapping[str, str], kernels: Sequence[Iterable[Collection[str]]] = ((), ())
) -> Aligned:
    """Find the atoms of two graphs.

    Args:
        before: the first graph.
        after: the second graph.
        names: names in `before` of those tensors of `after` that both compute; inputs and outputs are among them.
        kernels: for each graph, the tensors that each kernel of its runtime computes.
    """
    graphs = (before, after)
    common = ({old: old for old in names.values()}, dict(names))
    together: DisjointSet = DisjointSet([(side, index) for side in (0, 1) for index in range(len(graphs[side].nodes))])
    anchors: dict[str, tuple[int, int]] = {}
    for side, graph in enumerate(graphs):
        for index, node in enumerate(graph.nodes):
            for name in node.makes:
                if (known := common[side].get(name)) is not None:
                    together.merge((side, index), anchors.setdefault(known, (side, index)))
        makers = graph.makers()
        for index, node in enumerate(graph.nodes):
            for name in node.reads:
                if name in makers and name not in common[side]:
                    together.merge((side, index), (side, makers[name]))
        for covered in kernels[side]:
            inside = sorted({makers[name] for name in covered if name in makers})
            if len(inside) <= max(_FEW_NODES, _MOST_OF_GRAPH * len(graph.nodes)):
                for first, second in itertools.pairwise(inside):
                    together.merge((side, first), (side, second))
    groups = _without_circles(graphs, list(together.subsets()))
    atoms = tuple(
        Atom(**{name: tuple(sorted(at for which, at in group if which == side)) for side, name in enumerate(_SIDES)})
        for group in _ordered(graphs, groups)
    )
    return Aligned(before=before, after=after, names=dict(names), atoms=atoms)


_SIDES = ("before", "after")
_Group = Collection[tuple[int, int]]


def _edges(graphs: Sequence[Graph], groups: Sequence[_Group]) -> Iterator[tuple[int, int]]:
    """Pairs of different groups of which the second reads what the first makes, in either graph."""
    place = {member: number for number, group in enumerate(groups) for member in group}
    for side, graph in enumerate(graphs):
        makers = graph.makers()
        for index, node in enumerate(graph.nodes):
            for name in node.reads:
                pair = (place.get((side, makers.get(name, -1)), -1), place[side, index])
                if pair[0] >= 0 and pair[0] != pair[1]:
                    yield pair


def _without_circles(graphs: Sequence[Graph], groups: Sequence[_Group]) -> list[_Group]:
    """Groups of which none reads, through others, what it makes itself: those in one circle become one group."""
    if not groups:
        return []
    edges = list(dict.fromkeys(_edges(graphs, groups)))
    sources, targets = zip(*edges, strict=True) if edges else ((), ())
    size = len(groups)
    links = coo_matrix((np.ones(len(edges)), (np.array(sources, int), np.array(targets, int))), shape=(size, size))
    number, labels = connected_components(links, directed=True, connection="strong")
    merged: list[list[tuple[int, int]]] = [[] for _ in range(number)]
    for label, group in zip(labels, groups, strict=True):
        merged[label] += group
    return list(merged)


def _ordered(graphs: Sequence[Graph], groups: Sequence[_Group]) -> list[_Group]:
    """Groups in an order in which both graphs can run: as they stand in the first graph, wherever that can be."""
    edges = list(dict.fromkeys(_edges(graphs, groups)))
    missing = collections.Counter(target for _, target in edges)
    readers: dict[int, list[int]] = collections.defaultdict(list)
    for source, target in edges:
        readers[source].append(target)

    def rank(number: int) -> tuple[float, int]:
        places = [index / max(1, len(graphs[side].nodes)) for side, index in groups[number]]
        return (max(places), number)

    ready = [rank(number) for number in range(len(groups)) if not missing[number]]
    heapq.heapify(ready)
    order = []
    while ready:
        _, number = heapq.heappop(ready)
        order.append(groups[number])
        for reader in readers[number]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, rank(reader))
    return order


def gaps(parts: Iterable[Part], within: Part) -> list[Part]:
    """The parts that lie between some parts that do not overlap, within another part."""
    bounds = [within.start, *(bound for part in sorted(parts) for bound in (part.start, part.end)), within.end]
    return [Part(start=start, end=end) for start, end in zip(bounds[::2], bounds[1::2], strict=True) if start < end]
