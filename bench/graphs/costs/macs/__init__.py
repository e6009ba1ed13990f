"""Rules that give the work of an operator, one small function for each kind of operator.

A rule takes a `Node` whose shapes are numbers and returns its `Work`:

- **MACs** are multiplications whose products are summed: convolutions, matrix products, recurrent layers, attention.
- **Other operations** are counted one for each element and elementary operation: a bias, an activation, a comparison
  or an exponential counts one an element, a normalization as many as its formula has. They are not among the MACs.
- Moving, selecting and sorting elements counts nothing: it costs bytes, not arithmetic.

Where other tools give more MACs, they have added some of the other operations, as biases or activations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from bench.graphs.shapes.node import Node

MICROSOFT = "com.microsoft"
NCHWC = "com.microsoft.nchwc"
ML = "ai.onnx.ml"


class Work(NamedTuple):
    """What one run of a node computes.

    Attributes:
        macs: products that are summed.
        other_ops: elementary operations besides.
    """

    macs: int
    other_ops: int = 0


NOTHING = Work(0, 0)
Rule: TypeAlias = Callable[[Node], Work]
RULES: dict[tuple[str, str], Rule] = {}
INPUT_NAMES: dict[tuple[str, str], tuple[str, ...]] = {}
"""Names of the inputs of operators that are not in onnx's schemas."""


def rule(*names: str, domains: Sequence[str] = ("",), inputs: str = "") -> Callable[[Rule], Rule]:
    """Make a function the rule of these operators.

    Args:
        inputs: names of the inputs in order, of operators that are not ONNX's own: they tell weights from scales.
    """

    def register(function: Rule) -> Rule:
        for domain in domains:
            for name in " ".join(names).split():
                assert (domain, name) not in RULES, f"two rules for {name}"
                RULES[domain, name] = function
                if inputs:
                    INPUT_NAMES[domain, name] = tuple(inputs.split())
        return function

    return register


def numel(shape: Sequence[int]) -> int:
    """Elements of a shape."""
    return math.prod(shape)


from bench.graphs.costs.macs import attention, convolution, elementwise, matrix, movement, recurrent  # noqa: E402, F401
