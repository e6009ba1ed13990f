"""What is exported of a cell: the same few figures with their intervals in every format."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping

from bench.api.loss_units import SHARE
from bench.measure.machine import name_of
from bench.records.columns import Unit
from bench.records.measurements import Measurements
from bench.records.ranking import is_ranked
from bench.records.rows import COLUMNS, Row
from bench.report.columns import outcome_of

EXPORTED = {key: column for key, column in COLUMNS.items() if column.export}
"""The columns that are exported, by key."""
_UNITS = {Unit.TIME: "ns", Unit.RATIO: "times the baseline", Unit.BYTES: "bytes"}
"""Units of figures; that of a metric is the metric's name, and that of its loss stands in the row."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure of a cell; all of its numbers are finite.

    Attributes:
        key: key of a row, see `EXPORTED`.
        name: what the figure is called elsewhere, such as `latency`.
        unit: unit of the figure; text of other people for a metric.
        low, high: ends of its interval, each None where the interval has no such end.
        higher_is_better: whether a higher figure is better.
    """

    key: str
    name: str
    unit: str
    value: float
    low: float | None = None
    high: float | None = None
    higher_is_better: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A cell as other tools know it: a name with figures.

    Attributes:
        cell: path of the cell, which is the benchmark's name.
        figures: its figures; those that were not measured are left out.
        num_launches: launches that the figures are computed from.
        baseline: path of the cell that the ratio is over; None where there is no ratio.
        machine: name of the machine that measured it, see `bench.measure.machine`.
        time: when the last of the launches was stored (ISO 8601); empty where the records do not tell.
        versions: versions of the packages that ran the cell, by distribution.
    """

    cell: str
    figures: tuple[Figure, ...]
    num_launches: int
    baseline: str | None
    machine: str
    time: str
    versions: Mapping[str, str]


def benchmarks(rows: Iterable[Row], measurements: Measurements) -> list[Benchmark]:
    """The rows that have a place in a ranking: the figures of the others are wrong, or are those of another cell.

    Args:
        rows: rows over each task's own baseline.
        measurements: the records that the rows were made of.
    """
    entries = []
    for row in filter(is_ranked, rows):
        record, fitted = measurements.records[row.cell], measurements.of(row.cell)
        entries.append(
            Benchmark(
                cell=row.cell,
                figures=_figures_of(row, higher_is_better=record.quality is None or record.quality.higher_is_better),
                num_launches=row.num_launches,
                baseline=fitted.baseline if fitted is not None and row.ratio is not None else None,
                machine=name_of(record.header.machine),
                time=max((launch.time for launch in record.launches if launch.time), default=record.header.time),
                versions={name: version for name, version in record.header.versions.items() if version is not None},
            )
        )
    return entries


def _figures_of(row: Row, *, higher_is_better: bool) -> tuple[Figure, ...]:
    """The figures of a row that are exported and known.

    Args:
        row: a row.
        higher_is_better: whether a higher metric is better.
    """
    figures = []
    for key, column in EXPORTED.items():
        value = known(getattr(row, key))
        low, high = (known(getattr(row, end)) if end else None for end in column.ends)
        if value is None:
            continue
        name, unit, is_metric = column.export, _UNITS.get(column.unit, ""), key == "metric"
        if column.unit is Unit.LOSS:
            unit = row.metric_loss_unit or SHARE
            name += "" if unit == SHARE else f" {unit}"  # other tools know a measure by its name alone
        figures.append(
            Figure(
                key=key,
                name=name,
                unit=(row.metric_name or "") if is_metric else unit,
                value=value,
                low=low,
                high=high,
                higher_is_better=is_metric and higher_is_better,
            )
        )
    return tuple(figures)


def known(value: float | None) -> float | None:
    """A number, or None where it is none that JSON can hold."""
    return value if value is not None and math.isfinite(value) else None


def left_out(rows: Iterable[Row]) -> str | None:
    """A sentence about the rows that are not exported; None where all of them are."""
    counts = Counter(outcome_of(row) or "not timed" for row in rows if not is_ranked(row))
    if not counts:
        return None
    kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
    cells = "1 cell is" if counts.total() == 1 else f"{counts.total()} cells are"
    return f"{cells} left out: {kinds}; `bench show` says why"
