"""The number of nodes of each operator in a model, and in another model made from it."""

from __future__ import annotations

import collections
import dataclasses

from bench.graphs.deferred import onnx
from bench.graphs.file.digest import operator_names
from bench.graphs.file.text import printable


@dataclasses.dataclass(frozen=True, kw_only=True)
class OperatorCount:
    """Number of nodes of an operator, in subgraphs and functions, too; `after` is None if there is only one model."""

    operator: str
    before: int
    after: int | None


def count_operators(before: onnx.ModelProto, after: onnx.ModelProto | None = None) -> list[OperatorCount]:
    """Count the nodes of each operator, sorted by name; the domain comes before names that are not ONNX's own."""
    old = collections.Counter(map(printable, operator_names(before)))
    new = None if after is None else collections.Counter(map(printable, operator_names(after)))
    names = sorted({*old, *(new or ())}, key=lambda name: (name.casefold(), name))
    return [OperatorCount(operator=name, before=old[name], after=None if new is None else new[name]) for name in names]
