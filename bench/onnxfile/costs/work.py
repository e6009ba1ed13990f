"""The work of a node, and the table of the rules that tell it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from bench.onnxfile.operators import Rules
from bench.onnxfile.shapes.node import Node


class Work(NamedTuple):
    """The arithmetic of one run of a node.

    Attributes:
        macs: multiplications whose products are summed.
        other_ops: all other elementary operations.
    """

    macs: int
    other_ops: int = 0


NOTHING = Work(0, 0)
_WorkRule: TypeAlias = Callable[[Node], Work]
RULES: Rules[_WorkRule] = Rules()
rule = RULES.rule


def numel(shape: Sequence[int]) -> int:
    """Number of elements of a shape."""
    return math.prod(shape)
