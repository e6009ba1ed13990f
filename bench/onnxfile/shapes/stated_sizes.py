"""Sizes that a file states as text: `past + new`, `2*n` and `ceil(n/4)` hang together with other dimensions.

A file may name a dimension by any text, and exporters write sizes that follow from others as arithmetic: tools for
transformers the sum of cached and new tokens, `torch.onnx` and `torch.export` what SymPy prints, and the shape
inference of ONNX Runtime `floor(height/2)`. Each such text is read as an exact expression here, so that `past + new`
and `new+past` are one size. A text that is no arithmetic, such as `batch-size`, is the name of a dimension of its own.

Sources: the model configurations of Optimum (`optimum/exporters/onnx/base.py`); `torch/utils/_sympy/functions.py` of
PyTorch; `symbolic_shape_infer.py` of ONNX Runtime.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from bench.onnxfile.shapes.dims import Dim, Size, ceil_div, maximum, minimum, symbol, symbols

LONGEST = 200
"""Characters of a text that is read as an expression."""
_MOST_POWERS = 2
"""Powers in it: a power of powers of powers has more digits than fit into memory."""
_SIGNS = "+-*/%("
_Quotient: TypeAlias = "tuple[Size, Size]"
"""The numerator and the denominator of an expression that need not be whole."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stated:
    """The dimensions that the texts in the shapes of a model's inputs stand for.

    Attributes:
        sizes: by text, its size: a dimension of its own, or an expression of dimensions.
        remainders: by text, what a division leaves that must be 0, as for `n/2`.
    """

    sizes: Mapping[str, Size]
    remainders: Mapping[str, Size]

    @functools.cached_property
    def dims(self) -> tuple[str, ...]:
        """The dimensions that do not follow from others, those with a text of their own first."""
        return tuple(dict.fromkeys((*self._bare, *(dim for text in self.sizes for dim in self.of(text)))))

    @functools.cached_property
    def _bare(self) -> tuple[str, ...]:
        return tuple(text for text in self.sizes if self.of(text) == (text,))

    @functools.cached_property
    def following(self) -> tuple[str, ...]:
        """The texts that are expressions of dimensions."""
        return tuple(text for text in self.sizes if text not in self._bare)

    def of(self, text: str) -> tuple[str, ...]:
        """The dimensions that a text is about, sorted."""
        sizes = (self.sizes[text], self.remainders.get(text, 0))
        return tuple(sorted({str(atom.arguments[0]) for size in sizes for atom in symbols(size)}))


def stated(texts: Iterable[str], known: Mapping[str, int] = {}) -> Stated:
    """Read the texts in the shapes of a model's inputs.

    `batch-size` and `encoder/length` may be names: such texts are expressions only of dimensions that there are.

    Args:
        texts: the texts, in any order.
        known: sizes of dimensions, which are numbers then.
    """
    texts = tuple(dict.fromkeys(texts))
    read = {text: formula for text in texts if (formula := _expression(text)) is not None}
    dims = {text for text in texts if text not in read}.union(*(each.names for each in read.values() if each.is_meant))
    sizes: dict[str, Size] = {}
    remainders: dict[str, Size] = {}
    for text in texts:
        expression = read.get(text)
        size = (
            expression.size(known)
            if expression is not None and (expression.is_meant or expression.names <= dims)
            else None
        )
        sizes[text], rest = (known.get(text, symbol(text)), 0) if size is None else size
        if rest != 0:
            remainders[text] = rest
    return Stated(sizes=sizes, remainders=remainders)


class _NoArithmeticError(Exception):
    """A text is no arithmetic of sizes."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Expression:
    """A text that reads as arithmetic.

    Attributes:
        names: what it is about.
        is_meant: whether it can hardly be a name.
    """

    tree: ast.expr
    names: frozenset[str]
    is_meant: bool

    def size(self, known: Mapping[str, int]) -> tuple[Size, Size] | None:
        """The size, and the remainder that must be 0; None where the text is no size after all."""
        try:
            above, below = _value(self.tree, {name: known.get(name, symbol(name)) for name in self.names})
            return (above, 0) if below == 1 else (above // below, above % below)
        except (_NoArithmeticError, ArithmeticError, TypeError):  # an unknown function, too long, a division by 0
            return None


def _expression(text: str) -> _Expression | None:
    if len(text) > LONGEST or not any(sign in text for sign in _SIGNS):
        return None
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    nodes = list(ast.walk(tree))
    if sum(isinstance(node, ast.Pow) for node in nodes) > _MOST_POWERS:
        return None
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    names = frozenset(node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in called)
    is_meant = any(isinstance(node, (ast.Add, ast.Mult, ast.Call)) for node in nodes)
    expression = _Expression(tree=tree, names=names, is_meant=is_meant)
    return expression if names and expression.size({}) is not None else None


def _value(node: ast.expr, sizes: Mapping[str, Size]) -> _Quotient:
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value, 1
        case ast.Name(id=name):
            return sizes[name], 1
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            above, below = _value(operand, sizes)
            return -above, below
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _SIGNED:
            return _SIGNED[type(sign)](_value(left, sizes), _value(right, sizes))
        case ast.Call(func=ast.Name(id=name), args=[*arguments], keywords=[]) if name.lower() in _CALLED:
            is_rounding, function = _CALLED[name.lower()]
            values = [_value(argument, sizes) for argument in arguments]
            if is_rounding and len(values) == 1:
                return function(values[0], (1, 1))
            if not is_rounding and len(values) > 1:
                return functools.reduce(function, values)
    raise _NoArithmeticError


def _sum(quotient: _Quotient, other: _Quotient) -> _Quotient:
    return quotient[0] * other[1] + other[0] * quotient[1], quotient[1] * other[1]


def _difference(quotient: _Quotient, other: _Quotient) -> _Quotient:
    return quotient[0] * other[1] - other[0] * quotient[1], quotient[1] * other[1]


def _product(quotient: _Quotient, other: _Quotient) -> _Quotient:
    return quotient[0] * other[0], quotient[1] * other[1]


def _quotient(quotient: _Quotient, other: _Quotient) -> _Quotient:
    if other[0] == 0:
        raise ZeroDivisionError
    return quotient[0] * other[1], quotient[1] * other[0]


def _floor(quotient: _Quotient, other: _Quotient) -> _Quotient:
    above, below = _quotient(quotient, other)
    return (above if below == 1 else above // below), 1


def _ceil(quotient: _Quotient, other: _Quotient) -> _Quotient:
    above, below = _quotient(quotient, other)
    return (above if below == 1 else ceil_div(above, below)), 1


def _remainder(quotient: _Quotient, other: _Quotient) -> _Quotient:
    return _whole(quotient) % _whole(other), 1


def _power(quotient: _Quotient, other: _Quotient) -> _Quotient:
    power = _whole(other)
    if isinstance(power, Dim) or not 0 <= power <= 8:
        raise _NoArithmeticError
    return quotient[0] ** power, quotient[1] ** power


def _minimum(quotient: _Quotient, other: _Quotient) -> _Quotient:
    return minimum(_whole(quotient), _whole(other)), 1


def _maximum(quotient: _Quotient, other: _Quotient) -> _Quotient:
    return maximum(_whole(quotient), _whole(other)), 1


def _whole(quotient: _Quotient) -> Size:
    if quotient[1] != 1:
        raise _NoArithmeticError
    return quotient[0]


_SIGNED: dict[type[ast.operator], Callable[[_Quotient, _Quotient], _Quotient]] = {
    ast.Add: _sum,
    ast.Sub: _difference,
    ast.Mult: _product,
    ast.Div: _quotient,
    ast.FloorDiv: _floor,
    ast.Mod: _remainder,
    ast.Pow: _power,
}
_CALLED: dict[str, tuple[bool, Callable[[_Quotient, _Quotient], _Quotient]]] = {
    **dict.fromkeys(("floor", "floortoint"), (True, _floor)),
    **dict.fromkeys(("ceil", "ceiling", "ceiltoint"), (True, _ceil)),
    "min": (False, _minimum),
    "max": (False, _maximum),
    **dict.fromkeys(("mod", "pythonmod"), (False, _remainder)),
    "floordiv": (False, _floor),
    "cleandiv": (False, _quotient),
}
"""By name in small letters, whether a function rounds one number, and the function, of two numbers otherwise."""
