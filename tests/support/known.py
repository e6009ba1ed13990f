"""Levels of cells with known errors, in place of a fit: for tests of what is concluded from them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bench.measure.comparison import Fitted, Group, Series
from bench.measure.stats import Effect

NORMAL = 1e12
"""Degrees of freedom of a normal interval."""


@dataclasses.dataclass(frozen=True)
class Levels:
    """Stands in for `bench.measure.model.Request`: the errors of two cells are independent."""

    values: Mapping[str, float]
    errors: Mapping[str, float]
    freedom: float

    def difference(self, cell: str, other: str) -> Effect:
        error = math.hypot(self.errors[cell], self.errors[other]) if cell != other else 0.0
        return Effect(value=self.values[cell] - self.values[other], error=error, freedom=self.freedom)

    def covariance(self, cells: Sequence[str]) -> np.ndarray:
        return np.diag([self.errors[cell] ** 2 for cell in cells])

    def control(self, cell: str) -> None:
        return None


def fitted(
    ratios: Mapping[str, float],
    error: float | Mapping[str, float],
    *,
    launches: Mapping[str, int] | None = None,
    freedom: float = NORMAL,
) -> Fitted:
    """A group of cells.

    Args:
        ratios: latency over the baseline's, by cell.
        error: standard error on the log scale of each cell, or of those that have one; the baseline has none unless it
            is named.
        launches: number of launches of each cell; 3 where none is given.
        freedom: degrees of freedom of all errors.
    """
    values = {"baseline": 0.0, **{name: math.log(ratio) for name, ratio in ratios.items()}}
    each = error if isinstance(error, Mapping) else {**dict.fromkeys(ratios, error), "baseline": 0.0}
    errors = {name: each.get(name, 0.0) for name in values}
    group = Group(baseline=Series(name="baseline", program="program", launches=()), cells=())
    request: Any = Levels(values, errors, freedom)
    return Fitted(group, request, {name: (launches or {}).get(name, 3) for name in values})
