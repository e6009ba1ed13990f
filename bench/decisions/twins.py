"""Cells that run the same program, and twins: cells whose outputs have the same errors by the same packages.

Cells that run the same canonical graph, weights included, on the same packages are one deployment. Each number about
one of them is about all of them, however differently they were measured.

Twins are not known to be one: a model as it is and after a graph optimizer, or with another way of feeding the same
runtime, may give the same outputs in different times. So every claim about the fastest is about each of them. But it
does not matter which of them is shipped where their times are as good, so the simplest of these is named, and the
others are listed as its twins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bench.api.cell import Cell
from bench.api.errors import BenchError
from bench.api.names import PluginName
from bench.plugins import catalog
from bench.records.measured_cell import Measured, what_runs
from bench.records.rows import Row


def program(record: Measured) -> object | None:
    """A value that is equal for cells that are one deployment; None where the graph is unknown."""
    graph = what_runs(record.cell, record.artifact)
    return None if graph is None else (graph, _packages(record))


def family(record: Measured) -> object | None:
    """A value that is equal for twins; None where the errors of the outputs or the packages are unknown.

    Runtimes of the same packages, such as one that loads a file from memory, have twins among one another.

    The outputs of a split are off the reference's by the same errors to the last digit.
    """
    cell, quality = record.cell, record.quality
    if quality is None or not record.header.versions or quality.loss is None:
        return None
    errors = (quality.loss, quality.max_abs_error, quality.relative_error, *sorted((quality.metrics or {}).items()))
    ran_on = (cell.group, cell.provider, _packages(record))
    lossy = tuple(filter(_may_change_numbers, cell.chain))  # a model may give the same outputs for all inputs
    return (ran_on, quality.precision, quality.num_samples, errors, lossy)


def _may_change_numbers(name: PluginName) -> bool:
    """Whether a variant is lossy, or is not here."""
    try:
        return catalog.variant(name).variant.lossy
    except BenchError:
        return True


def different(records: Mapping[str, Measured], rows: Sequence[Row]) -> list[Row]:
    """The rows without those that are one deployment with another of them, in their order.

    Of one deployment, the simplest row stays of those that have at least half as many launches as the one with most.
    """
    cells = set()
    for members in _sets(records, rows, program):
        most = max(row.num_launches for row in members)
        known = [row for row in members if 2 * row.num_launches >= most]
        cells.add(min(known, key=lambda row: simplicity(row.cell)).cell)
    return [row for row in rows if row.cell in cells]


def simplest(records: Mapping[str, Measured], rows: Sequence[Row]) -> list[Row]:
    """The simplest row of each family, in the order of the rows."""
    cells = {min(own, key=lambda row: simplicity(row.cell)).cell for own in _sets(records, rows, family)}
    return [row for row in rows if row.cell in cells]


def same_program(records: Mapping[str, Measured], path: str, rows: Sequence[Row]) -> list[Row]:
    """Those of the rows that are one deployment with a cell; not the cell itself."""
    return _alike(records, path, rows, program)


def of(records: Mapping[str, Measured], path: str, rows: Sequence[Row]) -> list[Row]:
    """Those of the rows that are twins of a cell; not the cell itself."""
    return _alike(records, path, rows, family)


def simplicity(path: str) -> tuple[int, bool, int, str]:
    """The order in which equal deployments are preferred: fewest variants, the usual runtime, no option of it."""
    cell = Cell.from_path(path)
    return (len(cell.chain), not _is_usual(cell), len(str(cell.runtime)), path)


def _sets(
    records: Mapping[str, Measured], rows: Sequence[Row], value: Callable[[Measured], object | None]
) -> list[list[Row]]:
    """The rows by a value of their records; a row without one is alone."""
    by_value: dict[object, list[Row]] = {}
    for row in rows:
        by_value.setdefault(value(records[row.cell]) or row.cell, []).append(row)
    return list(by_value.values())


def _alike(
    records: Mapping[str, Measured], path: str, rows: Sequence[Row], value: Callable[[Measured], object | None]
) -> list[Row]:
    """Those of the rows whose records have the same value as that of a cell, if it has one; not the cell itself."""
    own = value(records[path])
    if own is None:
        return []
    return [row for row in rows if row.cell != path and value(records[row.cell]) == own]


def _packages(record: Measured) -> object:
    return tuple(sorted(record.header.versions.items()))


def _is_usual(cell: Cell) -> bool:
    try:
        return bool(catalog.runtime(cell.runtime).default_for)
    except BenchError:  # a runtime that is not here
        return False
