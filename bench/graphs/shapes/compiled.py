"""Shapes that are expressions of dimensions, compiled to one Python function that gives them all at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.graphs.shapes.dims import OPERATIONS, Atom, Shape, Size, scaled_down


def compile_shapes(shapes: Mapping[str, Shape], names: Sequence[str]) -> Callable[..., dict[str, tuple[int, ...]]]:
    """A Python function of the dimensions `names`, in that order, that gives every shape at once.

    Every expression is computed once, however many shapes it is in. Names never become code.

    Args:
        shapes: over no dimensions but `names`.
    """
    lines: list[str] = []
    local: dict[bytes, str] = {Atom("", (name,)).key: f"d{index}" for index, name in enumerate(names)}

    def written(size: Size) -> str:
        if isinstance(size, int):
            return repr(size)
        if size.key not in local:
            terms = [
                "*".join([repr(factor)] * (factor != 1 or not monomial) + [written_atom(atom) for atom in monomial])
                for monomial, factor in size.terms.items()
            ]
            lines.append(f"v{len(lines)} = {' + '.join(terms)}")
            local[size.key] = f"v{len(lines) - 1}"
        return local[size.key]

    def written_atom(atom: Atom) -> str:
        if atom.key not in local:
            arguments = [written(argument) for argument in atom.arguments]
            pattern = OPERATIONS[atom.operation][1]
            code = pattern.format(*arguments) if pattern else f"{atom.operation}({', '.join(arguments)})"
            lines.append(f"v{len(lines)} = {code}")
            local[atom.key] = f"v{len(lines) - 1}"
        return local[atom.key]

    tuples = {shape: f"s{index}" for index, shape in enumerate(dict.fromkeys(shapes.values()))}
    for shape, name in tuples.items():
        sizes = [written(size) for size in shape]
        lines.append(f"{name} = ({''.join(size + ', ' for size in sizes)})")
    entries = ", ".join(f"{name!r}: {tuples[shape]}" for name, shape in shapes.items())
    body = "\n    ".join([*lines, f"return {{{entries}}}"])
    scope: dict[str, Any] = {"truncdiv": OPERATIONS["truncdiv"][0], "scaled": scaled_down}
    exec(f"def shapes({', '.join(local[Atom('', (name,)).key] for name in names)}):\n    {body}", scope)
    compiled: Callable[..., dict[str, tuple[int, ...]]] = scope["shapes"]
    return compiled
