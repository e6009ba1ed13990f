"""The table of shape rules, and the decorator that puts a function into it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from bench.onnxfile.operators import Rules
from bench.onnxfile.shapes.node import Node, Value

_ShapeRule: TypeAlias = Callable[[Node], Value | Sequence[Value | None]]
RULES: Rules[_ShapeRule] = Rules()
rule = RULES.rule
