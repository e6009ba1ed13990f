"""Whole sizes that meet equations exactly, found by cutting ranges; where there are none, that is proven.

Each dimension has a range, and the range of an expression follows from those of its dimensions. Ranges in which an
equation cannot hold are dropped, and others are cut in two, of which the part nearer to the likely sizes comes first.

Source: R. E. Moore, R. B. Kearfott and M. J. Cloud, "Introduction to Interval Analysis", SIAM 2009.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from bench.onnxfile.shapes.constraints import Requirement, equal
from bench.onnxfile.shapes.dims import Atom, Dim, Size

Range: TypeAlias = "tuple[int, int]"
"""The least and the largest number, both included."""
LARGEST = 2**63 - 1
"""The largest size: ONNX keeps sizes as int64."""
_MOST_CUT = 3000


class UndecidedError(Exception):
    """Neither are sizes found nor is it proven that there are none."""


def solution(
    required: Iterable[Requirement], ranges: Mapping[str, Range], near: Mapping[str, int]
) -> dict[str, int] | None:
    """Sizes within ranges that meet all requirements; None where it is proven that there are none.

    Args:
        required: what texts and given sizes require: expressions of `stated` that are equal, or 0 or more.
        ranges: of every dimension.
        near: the likely size of every dimension; nearer solutions are looked for first.

    Raises:
        UndecidedError: the search took more than `_MOST_CUT` steps.
    """
    sizes = {dim: min(max(near[dim], low), high) for dim, (low, high) in ranges.items()}
    undecided = False
    for together in _components(required):
        dims = sorted(frozenset().union(*(requirement.dims for requirement in together)))
        try:
            component_sizes = _search(together, {dim: ranges[dim] for dim in dims}, near)
        except UndecidedError:  # what has no solution may come after it
            undecided = True
            continue
        if component_sizes is None:
            return None
        sizes.update(component_sizes)
    if undecided:
        raise UndecidedError
    return sizes


def _components(required: Iterable[Requirement]) -> list[list[Requirement]]:
    """The requirements, those together that are linked by dimensions."""
    components: list[list[Requirement]] = []
    for requirement in required:
        linked = [group for group in components if any(other.dims & requirement.dims for other in group)]
        components = [group for group in components if group not in linked]
        components.append([*itertools.chain.from_iterable(linked), requirement])
    return components


def _search(
    required: Sequence[Requirement], ranges: Mapping[str, Range], near: Mapping[str, int]
) -> dict[str, int] | None:
    if any(_is_indivisible(requirement) for requirement in required):
        return None
    pending = [dict(ranges)]
    for _ in range(_MOST_CUT):
        if not pending:
            return None
        box = pending.pop()
        if not all(_may_hold(requirement, box) for requirement in required):
            continue
        sizes = {dim: min(max(near[dim], low), high) for dim, (low, high) in box.items()}
        known: dict[Atom, int] = {}
        if all(requirement.is_met(sizes, known) for requirement in required):
            return sizes
        dim = max(box, key=lambda dim: (box[dim][1] + 1) / (box[dim][0] + 1))
        low, high = box[dim]
        if low < high:
            middle = math.isqrt((low + 1) * (high + 1)) - 1  # the geometric mean: sizes differ by factors
            lower, upper = {**box, dim: (low, middle)}, {**box, dim: (middle + 1, high)}
            pending += (upper, lower) if near[dim] <= middle else (lower, upper)
    raise UndecidedError


def _is_indivisible(requirement: Requirement) -> bool:
    """Whether two sizes cannot be equal because a number divides all terms of their difference but the last."""
    if requirement.holds is not equal:
        return False
    for left, right in itertools.combinations(requirement.sizes, 2):
        apart = left - right
        terms = apart.terms if isinstance(apart, Dim) else {(): apart}
        divisor = math.gcd(*(factor for atoms, factor in terms.items() if atoms))
        rest = terms.get((), 0)
        if rest % divisor if divisor else rest:
            return True
    return False


def _may_hold(requirement: Requirement, box: Mapping[str, Range]) -> bool:
    """Whether numbers within the ranges of its sizes meet a requirement."""
    try:
        ranges = [_range(size, box) for size in requirement.sizes]
    except ZeroDivisionError:
        return False
    if requirement.holds is equal:
        return max(low for low, _ in ranges) <= min(high for _, high in ranges)
    return all(high >= 0 for _, high in ranges)


def _range(size: Size, box: Mapping[str, Range]) -> Range:
    """The range of an expression, or one that holds it. Raises ZeroDivisionError where a divisor can only be 0."""
    if not isinstance(size, Dim):
        return size, size
    low = high = 0
    for monomial, factor in size.terms.items():
        part = (factor, factor)
        for atom in monomial:
            part = _corners(part, _of_atom(atom, box), int.__mul__)
        low, high = low + part[0], high + part[1]
    return low, high


def _of_atom(atom: Atom, box: Mapping[str, Range]) -> Range:
    if atom.is_symbol:
        return box[atom.arguments[0]]
    bounds, other = (_range(argument, box) for argument in atom.arguments)
    match atom.operation:
        case "min":
            return min(bounds[0], other[0]), min(bounds[1], other[1])
        case "max":
            return max(bounds[0], other[0]), max(bounds[1], other[1])
        case "floordiv":
            return _quotient(bounds, _divisor(other))
        case "mod":
            return _remainder(bounds, _divisor(other))
    raise AssertionError(f"no text states {atom.operation}")


def _divisor(bounds: Range) -> Range:
    if bounds == (0, 0):
        raise ZeroDivisionError
    return bounds[0] or 1, bounds[1] or -1


def _quotient(bounds: Range, other: Range) -> Range:
    if other[0] > 0 or other[1] < 0:
        return _corners(bounds, other, int.__floordiv__)
    largest = max(abs(bounds[0]), abs(bounds[1]))
    return -largest, largest


def _remainder(bounds: Range, other: Range) -> Range:
    if other[0] < 0:
        largest = max(abs(other[0]), abs(other[1]))
        return -largest, largest
    if other[0] == other[1] and bounds[0] // other[0] == bounds[1] // other[0]:
        return bounds[0] % other[0], bounds[1] % other[0]
    return 0, min(other[1] - 1, bounds[1]) if bounds[0] >= 0 else other[1] - 1


def _corners(bounds: Range, other: Range, operation: object) -> Range:
    """The range of an operation that grows or falls along each of its sides."""
    corners = [operation(left, right) for left in bounds for right in other]  # type: ignore[operator]
    return min(corners), max(corners)
