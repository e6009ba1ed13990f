"""Axes of the page's figures: where a value stands, in per cent of its panel, so that any width can draw it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from bench.records.rows import Row
from bench.report.columns import unit_of
from bench.report.figures.plots import LOG_RANGE
from bench.report.figures.whiskers import drawn_latencies

LOWER, HIGHER = "lower is better", "higher is better"
_FEWEST_TICKS, _MOST_TICKS = 2, 6
NARROW_STEPS = 3
"""Steps on the axis of a track of bars, which is as wide as four numbers."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Axis:
    """An axis of a figure, from its lowest to its highest value.

    Attributes:
        title: name of the quantity on the axis, with its unit.
        low: value at the beginning of the axis, in the base unit.
        high: value at the end of the axis, in the base unit.
        better: which values are better: `LOWER`, `HIGHER`, or an empty text for neither.
        factor: size of the unit in which the ticks are written, in base units.
        is_log: whether the axis is logarithmic.
        most_steps: most steps between the ticks of an axis that is not logarithmic.
    """

    title: str
    low: float
    high: float
    better: str = LOWER
    factor: float = 1.0
    is_log: bool = False
    most_steps: int = 5

    def at(self, value: float) -> float:
        """The place of a value along the axis, in per cent; at the end of the axis where the value lies beyond."""
        low, high = self.low, self.high
        if self.is_log:
            low, high, value = math.log(low), math.log(high), math.log(max(value, low))
        share = (value - low) / (high - low) if high > low else 0.5
        return round(100 * min(1.0, max(0.0, share)), 2)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Places of round numbers along the axis, in per cent, each with its text."""
        from matplotlib.ticker import MaxNLocator

        low, high = self.low / self.factor, self.high / self.factor
        values: list[float] = []
        if self.is_log:
            decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
            values = [step * 10.0**decade for decade in decades for step in (1, 2, 5)]
            values = [value for value in values if low <= value <= high]
            if len(values) > _MOST_TICKS:
                values = [value for value in values if f"{value:e}".startswith("1.0")]
        if len(values) < _FEWEST_TICKS:
            numbers = MaxNLocator(self.most_steps, steps=[1, 2, 5, 10]).tick_values(low, high)
            values = [float(value) for value in numbers if low <= value <= high]
        return [(self.at(value * self.factor), f"{value:.6g}") for value in values]


def axis_of(title: str, values: Sequence[float], unit: tuple[float, str], *, from_zero: bool = False) -> Axis:
    """An axis with zero, or a logarithmic one where the range is wide, which its title says.

    Args:
        title: title of the axis, without a unit.
        values: the values that are drawn, in the base unit; zeros do not count.
        unit: size of the unit in base units, and its name.
        from_zero: whether the axis is never logarithmic, because lengths are compared.
    """
    factor, name = unit
    drawn = list(filter(None, values))
    least, most = (min(drawn), max(drawn)) if drawn else (1.0, 1.0)
    if most > LOG_RANGE * least > 0 and not from_zero:
        return Axis(
            title=f"{title} ({name}, log scale)", low=least / 1.25, high=most * 1.25, factor=factor, is_log=True
        )
    low, high = min(0.0, least * 1.04), max(0.0, most * 1.04)
    steps = NARROW_STEPS if from_zero else Axis.most_steps
    return Axis(title=f"{title} ({name})", low=low, high=high, factor=factor, most_steps=steps)


def latency_axis(rows: Sequence[Row], task: Sequence[Row]) -> Axis:
    """An axis of latencies and their whiskers, in the unit that suits all rows of the task."""
    return axis_of("latency p50", drawn_latencies(rows), unit_of("latency_p50_ns", task))
