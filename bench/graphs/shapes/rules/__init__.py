"""Rules that give the shapes of what an operator makes, one small function for each kind of operator.

A rule takes a `Node` and returns its outputs, one `Value` or a list. Sizes may be expressions (`dims.Size`), so a rule
calculates and asks, but does not compare. Where a rule needs what is not known it raises `UnknownError`, and onnx's own
inference for that operator is asked; it is also for operators that have no rule here, for which it loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from bench.graphs.shapes.node import Node, Value

Rule: TypeAlias = Callable[[Node], Value | Sequence[Value | None]]
RULES: dict[tuple[str, str], Rule] = {}
MICROSOFT = "com.microsoft"
NCHWC = "com.microsoft.nchwc"


def rule(*names: str, domains: Sequence[str] = ("",)) -> Callable[[Rule], Rule]:
    """Make a function the rule of these operators."""

    def register(function: Rule) -> Rule:
        for domain in domains:
            for name in " ".join(names).split():
                assert (domain, name) not in RULES, f"two rules for {name}"
                RULES[domain, name] = function
        return function

    return register


from bench.graphs.shapes.rules import arithmetic, fused, layout, products, reductions, windows  # noqa: E402, F401
