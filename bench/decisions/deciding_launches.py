"""The launches that would decide between cells which the data cannot tell apart."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from bench.measure import selection
from bench.measure.comparison import Comparison
from bench.measure.selection import Selection
from bench.records.measurements import Measurements
from bench.records.ranking import is_baseline
from bench.records.rows import Row

_FIRST_LAUNCHES = 6
"""Launches to ask for where there are too few launches to estimate how many would decide."""
MOST_LAUNCHES = 60
"""Largest number of launches that a choice asks for."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Further:
    """The launches that would decide a choice.

    Attributes:
        cells: paths of the cells to launch, any of which may be the fastest.
        launches: number of launches of each cell, with its present ones; None where `MOST_LAUNCHES` are not enough.
    """

    cells: tuple[str, ...]
    launches: int | None


def further(measurements: Measurements, contenders: Sequence[Row], race: Selection, tolerance: float) -> Further:
    """The launches that would show that the fastest is no slower than any other by more than the tolerance.

    Args:
        measurements: the model of the measurement, fitted to the records that the rows were made of.
        contenders: the rows that may be the fastest, the first of which looks fastest.
        race: the selection that found them.
        tolerance: largest share by which a deployment that is shipped may be slower than the fastest.
    """
    fastest, *others = contenders
    fitted = measurements.of(fastest.cell)
    open_to, more = [fastest], 0

    def launches(row: Row) -> int:
        """Those that count: a baseline's row counts both of its launches in each block of any other cell."""
        return fitted.num_launches.get(row.cell, row.num_launches) if fitted else row.num_launches

    for row in others:
        comparison = measurements.between(fastest.cell, row.cell)
        is_sure = comparison is not None and comparison.effect and _is_within(comparison, race.alpha, tolerance)
        if is_sure and launches(row) >= selection.LEAST_LAUNCHES:
            continue
        open_to.append(row)
        fewest = max(1, min(launches(fastest), launches(row)))  # their error weighs most
        needed = _needed(comparison, fewest, race.alpha, tolerance)
        if needed is None:
            return Further(cells=tuple(row.cell for row in contenders), launches=None)
        more = max(more, needed - fewest)
    # A cell that has them already is not launched again, and what counts is what they run side by side.
    # A baseline is in most blocks of the others, so it has more launches than they are to have.
    most = max(launches(row) for row in [row for row in open_to if not is_baseline(row)] or open_to)
    return Further(cells=tuple(row.cell for row in open_to), launches=max(most + more, selection.LEAST_LAUNCHES))


def _needed(comparison: Comparison | None, number: int, alpha: float, tolerance: float) -> int | None:
    """Launches after which a comparison would show that the fastest cell is within the tolerance of the other cell.

    The estimate assumes that further launches vary as the present ones do; None where `MOST_LAUNCHES` are not enough.

    Args:
        comparison: of the fastest over the other; None where they were not compared.
        number: launches of that of the two which has fewer.
        alpha: probability of error.
        tolerance: share by which the fastest may be slower.
    """
    if comparison is None or comparison.effect is None:
        return _FIRST_LAUNCHES
    towards = dataclasses.replace(comparison.effect, value=min(0.0, comparison.effect.value))
    for launches in range(number + 1, max(number, MOST_LAUNCHES) + 2):
        if selection.highest(towards.after(launches / number), alpha) <= math.log1p(tolerance):
            return launches
    return None


def _is_within(comparison: Comparison, alpha: float, tolerance: float) -> bool:
    assert comparison.effect is not None
    return selection.highest(comparison.effect, alpha) <= math.log1p(tolerance)
