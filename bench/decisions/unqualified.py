"""Why a pick has nothing to ship: how many cells meet each limit, and how many samples would tell more."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from bench.api import loss_units
from bench.decisions.constraints import (
    METRIC,
    METRIC_KEY,
    RATE,
    Constraints,
    Qualified,
    figure,
    human,
    losses,
    losses_of_lossy,
    unit_of,
)
from bench.records import metric_loss
from bench.records.measurements import Measurements
from bench.records.metric_loss import Lost
from bench.records.ranking import Group
from bench.records.rows import Row


def none_qualifies(measurements: Measurements, group: Group, qualification: Qualified, constraints: Constraints) -> str:
    """Why no row meets all constraints: how many rows meet each by itself, or else the nearest figure."""
    rows, unit = qualification.ranked, unit_of(qualification.ranked)
    lost = losses_of_lossy(measurements, rows) if constraints.max_metric_loss is not None else {}
    figures = _Figures(rows=rows, lost=lost, alpha=qualification.alpha, unit=unit, limits=constraints.limits(unit))
    text = f"no cell of {group.title} meets all of it; alone, {', '.join(map(figures.in_words, figures.limits))}"
    if qualification.of_guessed_sizes:
        text += f"; {_cells(qualification.of_guessed_sizes)} left out, for their files take guessed sizes alone"
    return text


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Figures:
    """The figures of rows that limits are held against.

    Attributes:
        rows: the rows.
        lost: by cell, what the samples lose of the lossy rows; their bound is at the level at which rows qualify.
        alpha: that level.
        unit: the unit of a loss of the metric.
        limits: by option, the key of a row and the most that its figure may be.
    """

    rows: Sequence[Row]
    lost: Mapping[str, Lost]
    alpha: float
    unit: str | None
    limits: Mapping[str, tuple[str, float]]

    def in_words(self, option: str) -> str:
        """How many rows keep to an option's limit alone, or else the nearest figure."""
        key, limit = self.limits[option]
        values = self._of_rows(key, self.rows)
        number = sum(value <= limit for value in values)
        text = f"{option} {number} of {len(self.rows)}"
        if not values:
            text += "; of none it was measured"
        elif not number:
            others = [self.limits[other] for other in self.limits if other != option]
            able = [row for row in self.rows if all(self._keeps(row, *other) for other in others)]
            of_all, of_able = self._nearest(option, self.rows), self._nearest(option, able)
            text += f"; the {'most' if option == RATE else 'least'} is {of_all}"
            if of_able and of_able != of_all:
                text += f", and {of_able} of those that keep to the others"
        if option == METRIC and self.alpha < metric_loss.ALPHA:
            text += ", with 95 % confidence for all such cells together"
        return text

    def _figure(self, row: Row, key: str) -> float | None:
        if key == METRIC_KEY and row.cell in self.lost:
            return self.lost[row.cell].high(alpha=self.alpha)
        return figure(row, key)

    def _keeps(self, row: Row, key: str, limit: float) -> bool:
        value = self._figure(row, key)
        return value is not None and value <= limit

    def _of_rows(self, key: str, rows: Sequence[Row]) -> list[float]:
        return [value for row in rows if (value := self._figure(row, key)) is not None]

    def _nearest(self, option: str, rows: Sequence[Row]) -> str:
        """The least figure of rows, as people read it; empty where none has it."""
        key, _ = self.limits[option]
        values = self._of_rows(key, rows)
        if not values:
            return ""
        return f"{1e9 / min(values):.4g} tokens/s" if option == RATE else human(key, min(values), self.unit)


def too_few_samples(measurements: Measurements, qualification: Qualified, constraints: Constraints) -> str | None:
    """How many samples would show that cells keep the metric which lose no more than they may on those that there are.

    Args:
        measurements: has the records that the rows were made of.
        qualification: the rows that qualify, and those that do not.
        constraints: the limits, of which only that of the metric counts.

    Returns:
        A sentence without its full stop; None where there is no such cell.
    """
    if constraints.max_metric_loss is None:
        return None
    unit = unit_of(qualification.ranked)
    limit = constraints.max_metric_loss.of(unit)
    rows = [row for row in qualification.lossy if row.metric_loss is not None and row.metric_loss <= limit]
    unsure = [lost for _, lost in losses(measurements, rows)]
    if not unsure:
        return None
    drop = loss_units.text(limit, unit)
    part = [lost for lost in unsure if lost.is_part]
    if part and len(part) == len(unsure):
        return (
            f"{min(lost.num_samples for lost in part):,} samples of the held-out split are too few to say that "
            f"{_cells(part)} would lose at most {drop} of the metric; `bench run --whole-split` runs all of them"
        )
    unsure = [lost for lost in unsure if not lost.is_part]
    enough = [number for lost in unsure if (number := lost.enough(limit, alpha=qualification.alpha)) is not None]
    best = " for the best of them" if len(unsure) > 1 else ""
    would = f"; about {_round_up(min(enough)):,} would do{best}" if enough else ""
    return (
        f"{unsure[0].num_samples:,} held-out samples are too few to say that {_cells(unsure)} would lose at most "
        f"{drop} of the metric{would}"
    )


def _cells(cells: Sequence[object]) -> str:
    return f"{len(cells)} cell{'s' if len(cells) > 1 else ''}"


def _round_up(number: int) -> int:
    """The number with two significant digits, not below it."""
    unit = 10 ** max(0, len(str(number)) - 2)
    return -(-number // unit) * unit
