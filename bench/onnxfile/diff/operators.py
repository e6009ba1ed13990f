"""The number of nodes of each operator in a model, and in another model made from it."""

from __future__ import annotations

import collections
import dataclasses

from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.digest import operator_names


@dataclasses.dataclass(frozen=True, kw_only=True)
class OperatorCount:
    """Number of nodes of an operator in two models, those of subgraphs and functions included."""

    operator: str
    before: int
    after: int


def count_operators(before: onnx.ModelProto, after: onnx.ModelProto) -> list[OperatorCount]:
    """Count the nodes of each operator, sorted by name; the domain comes before names that are not ONNX's own."""
    old, new = (collections.Counter(operator_names(model)) for model in (before, after))
    names = sorted(old | new, key=lambda name: (name.casefold(), name))
    return [OperatorCount(operator=name, before=old[name], after=new[name]) for name in names]
