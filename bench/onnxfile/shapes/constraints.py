"""What the nodes of a model require of its dynamic dimensions, so that sizes can be found with which it runs.

A rule for shapes checks sizes that are numbers. Here a model is inferred with its dimensions as symbols, and what its
nodes require of their inputs is kept as expressions: a matrix product needs equal inner sizes, a Squeeze a size of 1, a
window at least one place. Sizes that data decide are in no requirement.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from bench.onnxfile.shapes import dims
from bench.onnxfile.shapes.dims import OPERATIONS, Atom, Dim, Shape, Size
from bench.onnxfile.shapes.node import Node, UnknownError
from bench.onnxfile.shapes.rules.arithmetic import COMPARISONS
from bench.onnxfile.shapes.rules.products import matmul_operands
from bench.onnxfile.shapes.steps import Step

_Sizes = Mapping[str, int]
Found = Iterator[tuple[str, Sequence[Size], Callable[..., bool]]]
"""What a node requires in words, the sizes that it is about, and whether numbers in their place meet it."""
_BROADCASTING = ("Add", "Sub", "Mul", "Div", "Mod", "Pow", "Min", "Max", "Sum", "Mean", "Where", *COMPARISONS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Requirement:
    """What one node requires of sizes.

    Attributes:
        node: the node, as messages write it.
        what: the requirement in words, which follow the node.
        sizes: the sizes that it is about.
        holds: whether numbers in place of `sizes` meet it.
        dims: names of the dimensions that it depends on.
    """

    node: str
    what: str
    sizes: tuple[Size, ...]
    holds: Callable[..., bool]
    dims: frozenset[str]

    def is_met(self, sizes: _Sizes, known: dict[Atom, int]) -> bool:
        """Whether sizes of all `dims` meet the requirement; `known` keeps the values of atoms for these sizes."""
        if self.holds is _divides and any(sizes[dim] == 0 for dim in self.dims):
            return True  # no elements are no rows
        try:
            return self.holds(*(_value_of(size, sizes, known) for size in self.sizes))
        except ArithmeticError:  # a division by a size of 0
            return False

    def is_equal(self, sizes: _Sizes, known: dict[Atom, int]) -> bool:
        """Whether its sizes are all the same; the arguments are as for `is_met`."""
        try:
            return equal(*(_value_of(size, sizes, known) for size in self.sizes))
        except ArithmeticError:
            return False

    def equates(self, size: Size) -> bool:
        """Whether it asks that others of its sizes be equal to a size."""
        return self.holds in (equal, _joined) and size in self.sizes

    def text(self, sizes: _Sizes) -> str:
        """The requirement in words, with the numbers that it meets instead."""
        numbers = " and ".join(str(value_of(size, sizes)) for size in self.sizes)
        return f"{self.node} {self.what}, not {numbers}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Requirements:
    """The requirements of a graph.

    Attributes:
        always: of nodes that run in any case.
        choices: for each If, the requirements of its branches, one of which is taken.
    """

    always: tuple[Requirement, ...]
    choices: tuple[tuple[Requirements, ...], ...] = ()

    @functools.cached_property
    def _alike(self) -> list[list[Requirement]]:
        """Those of `always` that ask the same of the same sizes, together: layers repeat, and many sizes are tried."""
        groups: dict[tuple[Callable[..., bool], tuple[Size, ...]], list[Requirement]] = {}
        for requirement in self.always:
            groups.setdefault((requirement.holds, requirement.sizes), []).append(requirement)
        return list(groups.values())

    def unmet(self, sizes: _Sizes, known: dict[Atom, int] | None = None) -> list[Requirement]:
        """The requirements that sizes do not meet; of an If, those of the branch that has the fewest.

        Args:
            sizes: of all dimensions.
            known: values of atoms for these sizes, which are added to.
        """
        known = {} if known is None else known
        missed = [requirement for alike in self._alike if not alike[0].is_met(sizes, known) for requirement in alike]
        for branches in self.choices:
            ways: list[list[Requirement]] = [branch.unmet(sizes, known) for branch in branches]
            missed += sorted(ways, key=len)[0]
        return missed

    def num_stretched(self, sizes: _Sizes, dim: str) -> int:
        """The number of requirements about a dimension that sizes meet by stretching a size of 1 to another."""
        known: dict[Atom, int] = {}
        joined = [alike for alike in self._alike if alike[0].holds is _joined and dim in alike[0].dims]
        number = sum(len(alike) for alike in joined if not alike[0].is_equal(sizes, known))
        return number + sum(min(branch.num_stretched(sizes, dim) for branch in branches) for branches in self.choices)


def of_steps(steps: Sequence[Step]) -> Requirements:
    """The requirements of the nodes of a graph, in order, that was inferred with symbols for its dimensions."""
    always: list[Requirement] = []
    choices: list[tuple[Requirements, ...]] = []
    for step in steps:
        always += _of_node(step.node)
        branches = [body for body in step.bodies if body.is_branch and body.runs != 0]
        for body in step.bodies:
            if not body.is_branch:
                inner = of_steps(body.steps)
                always += inner.always
                choices += inner.choices
        if branches:
            choices.append(tuple(of_steps(body.steps) for body in branches))
    return Requirements(always=tuple(always), choices=tuple(choices))


def value_of(size: Size, sizes: _Sizes) -> int:
    """The number that a size is for sizes of its dimensions.

    Raises:
        ArithmeticError: a division by a size of 0.
        KeyError: a dimension has no size.
    """
    return _value_of(size, sizes, {})


def shape_of(shape: Shape, sizes: _Sizes) -> tuple[int, ...]:
    """The numbers that a shape has for sizes of its dimensions. Raises as `value_of`."""
    return tuple(value_of(size, sizes) for size in shape)


def _value_of(size: Size, sizes: _Sizes, known: dict[Atom, int]) -> int:
    if not isinstance(size, Dim):
        return size
    total = 0
    for monomial, factor in size.terms.items():
        for atom in monomial:
            if atom not in known:
                known[atom] = _atom(atom, sizes, known)
            factor *= known[atom]
        total += factor
    return total


def _atom(atom: Atom, sizes: _Sizes, known: dict[Atom, int]) -> int:
    if atom.is_symbol:
        return sizes[atom.arguments[0]]
    return OPERATIONS[atom.operation][0](*(_value_of(argument, sizes, known) for argument in atom.arguments))


def _of_node(node: Node) -> Iterator[Requirement]:
    rules: list[Callable[[Node], Found]] = (
        [_of_broadcasting] if node.op_type in _BROADCASTING and not node.domain else []
    )
    if not node.domain and node.op_type in RULES:
        rules.append(RULES[node.op_type])
    for rule in rules:
        try:
            for what, sizes, holds in rule(node):
                atoms = [atom for size in sizes for atom in dims.symbols(size)]
                if atoms and all(atom.is_free for atom in atoms):
                    names = frozenset(str(atom.arguments[0]) for atom in atoms)
                    yield Requirement(node=node.what, what=what, sizes=tuple(sizes), holds=holds, dims=names)
        except (
            UnknownError,
            LookupError,
            TypeError,
            ValueError,
            ArithmeticError,
        ):  # the shapes or the node say too little
            continue


def equal(*sizes: int) -> bool:
    return len(set(sizes)) == 1


def _joined(*sizes: int) -> bool:
    return len(set(sizes) - {1}) <= 1


def _is_one(size: int) -> bool:
    return size == 1


def _is_positive(size: int) -> bool:
    return size >= 1


def _of_broadcasting(node: Node) -> Found:
    shapes = [node.shape(index) for index in range(len(node.inputs)) if node.has(index)]
    rank = max(map(len, shapes), default=0)
    for axis in range(1, rank + 1):
        met = list(dict.fromkeys(shape[-axis] for shape in shapes if len(shape) >= axis))
        if len(met) > 1:
            yield "joins equal sizes or 1", met, _joined


def _of_product(node: Node) -> Found:
    first, second = matmul_operands(node)
    if node.op_type == "Gemm":
        first = first[::-1] if node.integer("transA") else first
        second = second[::-1] if node.integer("transB") else second
    yield "multiplies over equal sizes", [first[-1], second[0] if len(second) == 1 else second[-2]], equal
    for axis in range(3, min(len(first), len(second)) + 1):
        yield "joins equal sizes or 1", [first[-axis], second[-axis]], _joined


def _of_window(node: Node) -> Found:
    data = node.shape()
    if node.op_type == "Conv":
        weights = node.shape(1)
        yield "takes as many channels as its weights have", [data[1], weights[1] * node.integer("group", 1)], equal
    for size in node.out()[2:]:
        yield "needs room for a window, so that its output is 1 or more", [size], _is_positive


def _of_squeeze(node: Node) -> Found:
    shape = node.shape()
    for axis in node.static_integers("axes", 1, since=13) or ():
        yield "drops an axis of size 1", [shape[axis]], _is_one


def _of_reshape(node: Node) -> Found:
    data, sizes = node.shape(), list(node.static_integers("shape", 1, since=5))
    if not node.integer("allowzero"):
        sizes = [data[axis] if size == 0 else size for axis, size in enumerate(sizes)]
    if -1 in sizes:
        rest = math.prod(size for size in sizes if size != -1)
        yield "divides all elements into rows", [math.prod(data), rest], _divides
    else:
        yield "keeps the number of elements", [math.prod(data), math.prod(sizes)], equal


def _divides(total: int, rest: int) -> bool:
    return rest > 0 and total > 0 and total % rest == 0


def _of_concat(node: Node) -> Found:
    shapes = [node.shape(index) for index in range(len(node.inputs))]
    rank = len(shapes[0])
    axis = node.axis(rank, 0)
    for other in range(rank):
        sizes = list(dict.fromkeys(shape[other] for shape in shapes))
        if other != axis and len(sizes) > 1:
            yield "joins tensors of equal sizes", sizes, equal


def _of_recurrent(node: Node) -> Found:
    data, weights = node.shape(0), node.shape(1)
    yield "takes as many features as its weights have", [data[2], weights[2]], equal
    batch = data[0 if node.integer("layout") else 1]
    hidden = node.shape(2)[2]
    for index in (5, 6):
        if node.has(index):
            state = node.shape(index)
            yield "has a state for each sample", [state[0 if node.integer("layout") else 1], batch], equal
            yield "has states as wide as its weights", [state[2], hidden], equal


def _of_channels(node: Node) -> Found:
    yield "has a scale for each channel", [node.shape()[1], node.shape(1)[0]], equal


def _of_split(node: Node) -> Found:
    shape = node.shape()
    axis = node.axis(len(shape), 0)
    parts = node.static_integers("split", 1, since=13)
    if parts:
        yield "cuts an axis into parts of stated sizes", [shape[axis], sum(parts)], equal


RULES: Mapping[str, Callable[[Node], Found]] = {
    **dict.fromkeys(("MatMul", "Gemm"), _of_product),
    **dict.fromkeys(("Conv", "MaxPool", "AveragePool", "LpPool"), _of_window),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _of_recurrent),
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), _of_channels),
    "Squeeze": _of_squeeze,
    "Reshape": _of_reshape,
    "Concat": _of_concat,
    "Split": _of_split,
}
