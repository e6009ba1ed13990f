"""How often each operator is in a model, and in another made from it."""

from __future__ import annotations

import collections
import dataclasses

from bench.graphs.deferred import onnx
from bench.graphs.file.digest import operator_names
from bench.graphs.file.text import printable


@dataclasses.dataclass(frozen=True, kw_only=True)
class OperatorCount:
    """Nodes of one operator, those in subgraphs and functions included; `after` is None if there is one model only."""

    operator: str
    before: int
    after: int | None


def count_operators(before: onnx.ModelProto, after: onnx.ModelProto | None = None) -> list[OperatorCount]:
    """Operators by name, those of other domains with their domain before them."""
    old = collections.Counter(map(printable, operator_names(before)))
    new = None if after is None else collections.Counter(map(printable, operator_names(after)))
    names = sorted({*old, *(new or ())}, key=lambda name: (name.casefold(), name))
    return [OperatorCount(operator=name, before=old[name], after=None if new is None else new[name]) for name in names]
