"""Which rows are compared with one another, and in which order: the ranking that tables and plots share."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping

from bench.api.errors import InputError, suggest
from bench.api.names import TaskName
from bench.records.rows import COLUMNS, Row

Request = tuple[str, int, int]
"""Task, batch and threads."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Group:
    """Rows that answer the same request and may be compared.

    Attributes:
        rows: rows in printing order: ranked, untimed, broken, failed, skipped; a row that is the same as another row
            follows that row.
        numbers: ranks of the ranked rows, from 1, by cell.
    """

    task: str
    batch: int
    threads: int
    rows: tuple[Row, ...]
    numbers: Mapping[str, int]

    @property
    def task_name(self) -> TaskName:
        """The task as a typed value."""
        return TaskName.parse(self.task)

    @property
    def title(self) -> str:
        """`crnn, batch 1, 2 threads`."""
        return f"{self.task}, batch {self.batch}, {self.threads} thread{'s' if self.threads > 1 else ''}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Selection:
    """The groups of rows to print, and the chosen columns; None for the usual columns of the format."""

    columns: tuple[str, ...] | None
    groups: tuple[Group, ...]

    @property
    def rows(self) -> list[Row]:
        """All rows in printing order."""
        return [row for group in self.groups for row in group.rows]


def short_name(row: Row) -> str:
    """The part of a cell's path that varies within a group."""
    return "/".join((row.source, row.exporter, row.variant, row.runtime, row.provider))


def is_timed(row: Row) -> bool:
    """Whether a row has a latency, even if its outputs are wrong."""
    return row.status == "ok" and row.latency_p50_ns is not None and math.isfinite(row.latency_p50_ns)


def is_ranked(row: Row) -> bool:
    """Whether a row has a place in a ranking: it was timed and its outputs are right."""
    return is_timed(row) and row.fidelity != "broken" and row.same_as is None


def lacks_time(row: Row) -> bool:
    """Whether a cell was prepared and verified, and lacks nothing but the time to be measured in."""
    is_to_be = row.status == "ok" and row.fidelity not in (None, "broken") and row.untimed is None
    return is_to_be and not (is_timed(row) or row.same_as)


def is_baseline(row: Row) -> bool:
    """Whether the ratios of a group are over this row; only a baseline has a ratio and no verdict."""
    return row.status == "ok" and row.same_as is None and row.ratio is not None and row.verdict is None


def select(rows: Iterable[Row], *, columns: tuple[str, ...] | None = None, sort: str | None = None) -> Selection:
    """Group rows by request and put each group in order, fastest first.

    Args:
        rows: rows in any order.
        columns: keys of `Row`; None for the usual columns.
        sort: a key of `Row`, smallest first; with a `-` before it, largest first. A row that has no place in a ranking
            stays below the rows that have one.

    Raises:
        InputError: no row has such a key.
    """
    for name in (*(columns or ()), *([sort.removeprefix("-")] if sort else [])):
        if name not in COLUMNS:
            raise InputError(f"no column named {name!r}; {suggest(name, COLUMNS)}")
    ordered = sorted(rows, key=_place)
    groups = tuple(_group(key, members, sort) for key, members in _by_request(ordered).items())
    return Selection(columns=tuple(dict.fromkeys(columns)) if columns else None, groups=groups)


def _place(row: Row) -> tuple[object, ...]:
    """The request of a row, for an order by the numbers of its sizes, and the cell."""
    return (row.task_name.model, row.task_name.sizes, row.batch, row.threads, row.cell)


def listed(rows: Iterable[Row], *, columns: tuple[str, ...]) -> Selection:
    """Group rows by request for a table that keeps the order of the rows."""
    groups = (_numbered(key, members, members) for key, members in _by_request(rows).items())
    return Selection(columns=columns, groups=tuple(groups))


def _by_request(rows: Iterable[Row]) -> dict[Request, list[Row]]:
    groups: dict[Request, list[Row]] = {}
    for row in rows:
        groups.setdefault((row.task, row.batch, row.threads), []).append(row)
    return groups


def _numbered(key: Request, rows: Iterable[Row], ranked: Iterable[Row]) -> Group:
    numbers = {row.cell: number for number, row in enumerate(ranked, start=1)}
    return Group(task=key[0], batch=key[1], threads=key[2], rows=tuple(rows), numbers=numbers)


def _group(key: Request, rows: list[Row], sort: str | None) -> Group:
    # Over two baselines (one a framework) ratios have no common meaning, and latency ranks.
    ratio_ranks = sum(map(is_baseline, rows)) < 2 and all(row.ratio is not None for row in rows if is_ranked(row))
    by = (sort or ("ratio" if ratio_ranks else "latency_p50_ns")).removeprefix("-")
    values = {row.cell: getattr(row, by) for row in rows}
    missing = [row for row in rows if _is_missing(values[row.cell])]
    present = [row for row in rows if not _is_missing(values[row.cell])]
    present.sort(key=lambda row: values[row.cell], reverse=bool(sort and sort.startswith("-")))
    ordered = sorted(present + missing, key=lambda row: _standing(row, values))
    twins: dict[str | None, list[Row]] = {}
    for row in ordered:
        twins.setdefault(row.same_as if row.same_as in values else None, []).append(row)
    placed: list[Row] = []
    waiting = twins.pop(None, [])[::-1]
    while waiting:
        placed.append(row := waiting.pop())
        waiting += twins.pop(row.cell, [])[::-1]
    placed += [row for rows in twins.values() for row in rows]  # which are only the same as one another
    return _numbered(key, placed, filter(is_ranked, placed))


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _standing(row: Row, here: Mapping[str, object]) -> int:
    if row.status != "ok":
        return 5 if row.status == "skipped" else 4
    if row.same_as is not None and row.same_as not in here:
        return 3
    return 2 if row.fidelity == "broken" else int(not is_ranked(row))
