"""Twins: cells that run the same arithmetic on the same packages, of which the simplest stands for all.

A model as it is, read from bytes, with bound inputs and outputs, or after a graph optimizer that changes nothing that
runs, takes as long each time: no number of launches tells these apart, and it does not matter which one is shipped.
They are known by their outputs: those of a split are off the reference's by the same errors to the last digit, and the
packages, the provider and the steps that may change numbers are the same, for a model may give the same outputs for all
inputs. A cell that was shown to be slower or faster than its twins by more than the
tolerance is none of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.api.cell import Cell
from bench.api.errors import BenchError
from bench.plugins import catalog
from bench.records.measured import Measured
from bench.records.measurements import Measurements
from bench.records.rows import Row


def runs_as(record: Measured) -> object | None:
    """A value that is equal for cells that run the same arithmetic; None where that is unknown."""
    cell, quality = record.cell, record.quality
    if quality is None or not record.header.versions or quality.loss is None:
        return None
    errors = (quality.loss, quality.max_abs_error, quality.relative_error, *sorted((quality.metrics or {}).items()))
    packages = tuple(sorted(record.header.versions.items()))
    lossy = tuple(filter(_may_change_numbers, cell.chain))
    return (cell.group, cell.provider, packages, quality.precision, quality.num_samples, errors, lossy)


def _may_change_numbers(name: str) -> bool:
    """Whether a variant is lossy, or is not here."""
    try:
        return catalog.variant(name).variant.lossy
    except BenchError:
        return True


def simplest(measurements: Measurements, rows: Sequence[Row], *, within: float) -> dict[str, tuple[str, ...]]:
    """By path of the cell that stands for its twins, the paths of the others; in the order of the rows.

    It is the simplest of those that have at least half as many launches as the one that has most.

    Args:
        measurements: the model of the measurement, fitted to the records that the rows were made of.
        rows: the rows of one request.
        within: a cell that was shown to differ by more than this share is no twin.
    """
    sets: dict[object, list[Row]] = {}
    for row in rows:
        sets.setdefault(runs_as(measurements.records[row.cell]) or row.cell, []).append(row)
    found: dict[str, tuple[str, ...]] = {}
    for members in sets.values():
        most = max(row.num_launches for row in members)
        one = min((row for row in members if 2 * row.num_launches >= most), key=lambda row: simplicity(row.cell))
        others = [row.cell for row in members if row is not one]
        alike = tuple(cell for cell in others if not _is_apart(measurements, one.cell, cell, within))
        found |= {one.cell: alike, **{cell: () for cell in others if cell not in alike}}
    return {row.cell: found[row.cell] for row in rows if row.cell in found}


def simplicity(path: str) -> tuple[int, bool, int, str]:
    """The order in which equal deployments are preferred: fewest variants, the usual runtime, no option of it."""
    cell = Cell.from_path(path)
    return (len(cell.chain), not _is_usual(cell), len(cell.runtime), path)


def _is_usual(cell: Cell) -> bool:
    try:
        return bool(catalog.runtime(cell.runtime).default_for)
    except BenchError:  # a runtime that is not here
        return False


def _is_apart(measurements: Measurements, one: str, other: str, within: float) -> bool:
    """Whether two cells were shown to differ by more than a share, with 95 % confidence."""
    compared = measurements.between(one, other)
    if compared is None or compared.effect is None:
        return True
    effect = compared.effect
    return abs(effect.value) - effect.half_width() > math.log1p(within)
