"""Sizes as exact expressions of dimensions that are not fixed yet; expressions that mean the same compare equal.

A `Size` is a plain int wherever it can be one, and a `Dim` otherwise. A Dim is a polynomial with whole coefficients
over atoms; an atom is a named dimension or an operation that is no polynomial, such as a division that rounds down.
So `T * N - N * T` is 0 and `N * T * 64 // (N * T)` is 64, without a computer algebra package to import.

The functions that compare or select sizes take plain floats, too, so a rule can apply them to the elements of any
tensor.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from bench.onnxfile.deferred import np

Size: TypeAlias = "int | Dim"
Shape: TypeAlias = "tuple[Size, ...]"
_Monomial: TypeAlias = "tuple[Atom, ...]"

OPERATIONS: dict[str, tuple[Callable[..., int], str]] = {
    "floordiv": (lambda a, b: a // b, "{0} // {1}"),
    "mod": (lambda a, b: a % b, "{0} % {1}"),
    "truncdiv": (lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1), ""),
    "min": (min, "min({0}, {1})"),
    "max": (max, "max({0}, {1})"),
    "broadcast": (lambda a, b: b if a == 1 else a, "({1} if {0} == 1 else {0})"),
    "equal": (lambda a, b: int(a == b), "int({0} == {1})"),
    "less": (lambda a, b: int(a < b), "int({0} < {1})"),
    "select": (lambda c, a, b: a if c else b, "({1} if {0} else {2})"),
    "scaled": (lambda a, numerator, denominator: _scaled_down(a, numerator, denominator), ""),
}
"""For each operation of an atom, the function that computes it, and a short form of writing it (empty for none)."""
_LONGEST_TEXT = 80
_MOST_TERMS = 1000  # of a polynomial: products of sums multiply them, so n nodes could ask for 2**n
_MOST_LEVELS = 100  # of operations within one another, which are written and compared by functions that call themselves


class Atom:
    """A named dimension, or an operation on sizes.

    Attributes:
        operation: a key of `OPERATIONS`; empty for a named dimension.
        arguments: sizes; for a named dimension its name alone.
        is_free: whether a named dimension is a dimension of an input, and does not depend on data.
        key: a hash, equal for equal atoms, so that deeply nested atoms are compared fast.
        levels: operations within one another, this one included; an OverflowError is raised where there are too many.
    """

    def __init__(self, operation: str, arguments: tuple[Any, ...], *, is_free: bool = False) -> None:
        self.operation = operation
        self.arguments = arguments
        self.is_free = is_free
        terms = (monomial for size in arguments if isinstance(size, Dim) for monomial in size.terms)
        self.levels: int = 1 + max((atom.levels for monomial in terms for atom in monomial), default=0)
        _check_number(self.levels, _MOST_LEVELS, "levels of operations")
        content = (operation, *(a.key if isinstance(a, Dim) else a for a in arguments))
        self.key = hashlib.blake2b(repr(content).encode(), digest_size=16).digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def is_symbol(self) -> bool:
        return not self.operation

    @functools.cached_property
    def never_negative(self) -> bool:
        """Whether the atom is known to be 0 or more, as every dimension is."""
        if self.is_symbol or self.operation in ("equal", "less", "scaled"):
            return True
        sizes = self.arguments[1:] if self.operation == "select" else self.arguments
        if self.operation == "max":
            return any(never_negative(size) for size in sizes)
        if self.operation == "mod":  # Python's modulo takes the sign of the divisor
            return never_negative(sizes[1])
        return all(never_negative(size) for size in sizes)

    @functools.cached_property
    def text(self) -> str:
        """The atom as text; a long text is cut, because nested operations can be longer than anyone would read."""
        if self.is_symbol:
            return str(self.arguments[0])
        pattern = OPERATIONS[self.operation][1]
        is_call = self.operation in ("min", "max")
        arguments = [f"({text})" if " " in text and not is_call else text for text in map(str, self.arguments)]
        text = pattern.format(*arguments) if pattern else f"{self.operation}({', '.join(arguments)})"
        return text if len(text) <= _LONGEST_TEXT else f"{self.operation}(...{self.key.hex()[:6]})"


class Dim:
    """A polynomial over atoms that is no constant; only arithmetic makes instances.

    The other operand of an arithmetic operator may be a whole float. A TypeError is raised for any other float, and an
    OverflowError for a polynomial of more than `_MOST_TERMS` terms or factors.
    """

    def __init__(self, terms: dict[_Monomial, int]) -> None:
        self.terms = terms

    @functools.cached_property
    def key(self) -> bytes:
        content = sorted(([atom.key for atom in monomial], factor) for monomial, factor in self.terms.items())
        return hashlib.blake2b(repr(content).encode(), digest_size=16).digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.key)

    def __add__(self, other: Size) -> Size:
        terms = dict(self.terms)
        for monomial, factor in _terms(other).items():
            terms[monomial] = terms.get(monomial, 0) + factor
        return _size(terms)

    __radd__ = __add__

    def __mul__(self, other: Size) -> Size:
        terms: dict[_Monomial, int] = {}
        others = _terms(other)
        _check_number(len(self.terms) * len(others), _MOST_TERMS, "terms")
        for first, factor in self.terms.items():
            for second, two in others.items():
                monomial = tuple(sorted((*first, *second), key=lambda atom: atom.key))
                terms[monomial] = terms.get(monomial, 0) + factor * two
        return _size(terms)

    __rmul__ = __mul__

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: Size) -> Size:
        return self + -other

    def __rsub__(self, other: int) -> Size:
        return other + -self

    def __floordiv__(self, other: Size) -> Size:
        return _floordiv(self, other)

    def __rfloordiv__(self, other: int) -> Size:
        return _floordiv(other, self)

    def __mod__(self, other: Size) -> Size:
        return 0 if _divided(self, other) is not None else _atom("mod", self, other)

    def __rmod__(self, other: int) -> Size:
        return _atom("mod", other, self)

    def __pow__(self, other: float) -> Size:
        if not 0 <= other <= 8:
            raise TypeError(f"{other} is no small whole number")
        return math.prod([self] * _whole_number(other))

    def __floor__(self) -> Dim:
        return self

    __ceil__ = __round__ = __trunc__ = __floor__

    def __str__(self) -> str:
        if [*self.terms.values()] == [1]:
            ((monomial, _),) = self.terms.items()
            if len(monomial) == 1 and monomial[0].is_symbol:
                return monomial[0].text  # its name as the file has it, whatever characters that has
        return " + ".join(_written(monomial, factor) for monomial, factor in self._sorted()).replace("+ -", "- ")

    __repr__ = __str__

    def _sorted(self) -> list[tuple[_Monomial, int]]:
        """Terms in the order in which they are written: the longest first, and the constant last."""
        return sorted(self.terms.items(), key=lambda term: (-len(term[0]), [atom.text for atom in term[0]]))


def _written(monomial: _Monomial, factor: int) -> str:
    texts = [f"({atom.text})" if " " in atom.text and atom.text[0] != "(" else atom.text for atom in monomial]
    if not texts:
        return str(factor)
    product = "*".join(sorted(texts))
    return product if factor == 1 else f"-{product}" if factor == -1 else f"{factor}*{product}"


def symbol(name: str, *, is_free: bool = True) -> Dim:
    """A dimension of a name; data decide a dimension that is not free."""
    return Dim({(Atom("", (name,), is_free=is_free),): 1})


def _terms(size: Size) -> dict[_Monomial, int]:
    return size.terms if isinstance(size, Dim) else {(): _whole_number(size)}


def _check_number(number: int, limit: int, of: str) -> None:
    if number > limit:
        raise OverflowError(f"an expression has more than {limit} {of}")


def _size(terms: Mapping[_Monomial, int]) -> Size:
    monomials = {monomial: factor for monomial, factor in terms.items() if factor}
    _check_number(max(len(monomials), *map(len, monomials), 0), _MOST_TERMS, "terms or factors")
    if not monomials:
        return 0
    return monomials[()] if len(monomials) == 1 and () in monomials else Dim(monomials)


def _atom(operation: str, *arguments: Size) -> Size:
    if not any(isinstance(argument, Dim) for argument in arguments):
        return OPERATIONS[operation][0](*arguments)
    return Dim({(Atom(operation, tuple(map(_whole_number, arguments))),): 1})


def _whole_number(number: Any) -> Any:
    """Convert a whole number of any type to an int; an expression is returned unchanged.

    Raises:
        TypeError: the number is not whole.
    """
    if isinstance(number, Dim):
        return number
    if isinstance(number, float) and not number.is_integer():
        raise TypeError(f"{number} is no whole number")
    return int(number)


def never_negative(size: Size) -> bool:
    """Whether a size or another number is known to be 0 or more for all dimensions that are 0 or more."""
    if not isinstance(size, Dim):
        return size >= 0
    if all(factor > 0 and all(atom.never_negative for atom in monomial) for monomial, factor in size.terms.items()):
        return True
    for monomial, factor in size.terms.items():  # a subtracted minimum is at most either of its two arguments
        if factor < 0 and len(monomial) == 1 and monomial[0].operation == "min":
            rest = size - Dim({monomial: factor})
            return any(never_negative(rest + factor * argument) for argument in monomial[0].arguments)
    return False


def minimum(size: Size, other: Size) -> Size:
    """The smaller of two sizes."""
    if never_negative(other - size):
        return size
    return other if never_negative(size - other) else _atom("min", size, other)


def maximum(size: Size, other: Size) -> Size:
    """The larger of two sizes."""
    if never_negative(size - other):
        return size
    return other if never_negative(other - size) else _atom("max", size, other)


def broadcast(size: Size, other: Size) -> Size | None:
    """The size that two sizes broadcast to; None if they differ and neither is 1."""
    if size == other or other == 1:
        return size
    if size == 1:
        return other
    if isinstance(size, int):
        return size if isinstance(other, Dim) else None
    return other if isinstance(other, int) else _atom("broadcast", size, other)


def equal(size: Size, other: Size) -> Size:
    """1 if two sizes are equal, else 0."""
    if size == other:
        return 1
    apart = size - other
    return 0 if never_negative(apart - 1) or never_negative(-apart - 1) else _atom("equal", size, other)


def less(size: Size, other: Size) -> Size:
    """1 if the first size is smaller than the second, else 0."""
    if never_negative(other - size - 1):
        return 1
    return 0 if never_negative(size - other) else _atom("less", size, other)


def select(condition: Size, size: Size, other: Size) -> Size:
    """`size` if the condition is not 0, else the size `other`."""
    if not isinstance(condition, Dim):
        return size if condition else other
    return size if size == other else _atom("select", condition, size, other)


def true_quotient(dividend: Any, other: Any) -> Any:
    """The exact quotient of two numbers or expressions.

    Raises:
        TypeError: the quotient of two expressions is not known to be whole.
    """
    if not isinstance(dividend, Dim) and not isinstance(other, Dim):
        return dividend / other
    exact = _divided(dividend, other)
    if exact is None:
        raise TypeError(f"{dividend} / {other} is no whole number")
    return exact


def truncated_quotient(dividend: Size, other: Size) -> Size:
    """Integer division that rounds toward 0, as in ONNX and C."""
    if never_negative(dividend) and never_negative(other):
        return _floordiv(dividend, other)
    return _atom("truncdiv", dividend, other)


def ceil_div(dividend: Size, other: Size) -> Size:
    """Division that rounds up."""
    return -_floordiv(-dividend, other)


def scaled(size: Size, scale: float) -> Size:
    """A size times a float32 factor, rounded down as in float32 arithmetic."""
    numerator, denominator = float(scale).as_integer_ratio()
    if denominator == 1:
        return size * numerator
    return _atom("scaled", size, numerator, denominator)


def _scaled_down(size: int, numerator: int, denominator: int) -> int:
    """A number times a fraction in float32 arithmetic, rounded down."""
    return math.floor(np.float32(size) * np.float32(numerator / denominator))


def _floordiv(dividend: Size, other: Size) -> Size:
    exact = _divided(dividend, other)
    if exact is not None:
        return exact
    if isinstance(dividend, int) and isinstance(other, int):
        return dividend // other
    if isinstance(other, int) and other > 0:
        whole = {
            monomial: factor // other
            for monomial, factor in _terms(dividend).items()
            if factor % other == 0 or not monomial
        }
        rest = dividend - other * _size(whole)
        if not isinstance(rest, Dim):
            return _size(whole) + rest // other
        if len(rest.terms) == 1:  # rounding down twice is rounding down once
            ((monomial, factor),) = rest.terms.items()
            inner = monomial[0] if len(monomial) == 1 and factor == 1 else None
            if inner and inner.operation == "floordiv":
                size, divisor = inner.arguments
                if isinstance(divisor, int) and divisor > 0:
                    return _size(whole) + _floordiv(size, divisor * other)
        return _size(whole) + _atom("floordiv", rest, other)
    return _atom("floordiv", dividend, other)


def _divided(dividend: Size, other: Size) -> Size | None:
    """The quotient of two polynomials if the division leaves no remainder, and None otherwise."""
    divisor = _terms(other)
    if not divisor or other == 0:
        return None
    lead, lead_factor = max(divisor.items(), key=_rank)
    rest: Size = dividend
    quotient: Size = 0
    while rest != 0:
        monomial, factor = max(_terms(rest).items(), key=_rank)
        left = _without(monomial, lead)
        if left is None or factor % lead_factor:
            return None
        part = _size({left: factor // lead_factor})
        quotient = part + quotient
        rest = rest - part * other
    return quotient


def _rank(term: tuple[_Monomial, int]) -> tuple[int, list[bytes]]:  # in an order that multiplication preserves
    return len(term[0]), sorted((atom.key for atom in term[0]), reverse=True)


def _without(monomial: _Monomial, part: _Monomial) -> _Monomial | None:
    rest = list(monomial)
    for atom in part:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def shape_text(shape: Iterable[object]) -> str:
    """A shape as messages write it, such as `(N, 3)`."""
    return f"({', '.join(map(str, shape))})"


def symbols(size: Size) -> Iterator[Atom]:
    """The named dimensions that a size depends on, some of them more than once."""
    pending, seen = [size], set()
    while pending:
        for monomial in _terms(pending.pop()):
            for atom in monomial:
                if atom.is_symbol:
                    yield atom
                elif atom.key not in seen:
                    seen.add(atom.key)
                    pending.extend(argument for argument in atom.arguments if isinstance(argument, Dim))
