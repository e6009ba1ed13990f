"""Which cells a page or a figure shows of very many: a page of 100,000 cells has 300 MB, and no browser shows it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bench.records import ranking
from bench.records.rows import Row

MOST = 2000
"""Cells of a page, at most: they take a few seconds, 7 MB and 100 MiB of memory."""
MOST_DRAWN = 500
"""Cells of all figures of `bench plot`, at most: a figure has a line for each."""


def of(rows: Sequence[Row], best: Collection[str], most: int) -> list[Row]:
    """The rows that a page shows.

    Args:
        rows: all rows.
        best: paths of the cells to ship.
        most: how many rows, at most.

    Returns:
        All rows; where they are too many, those of the cells to ship, then the baselines, and then of each request in
        turn the next in the order of its table.
    """
    if len(rows) <= most:
        return list(rows)
    placed = [
        ((row.cell not in best, not ranking.is_baseline(row), place), number, row)
        for number, group in enumerate(ranking.select(rows).groups)
        for place, row in enumerate(group.rows)
    ]
    return [row for _, _, row in sorted(placed, key=lambda item: item[:2])[:most]]


def sentence(first: str, num_shown: int, num_cells: int) -> str:
    """What is said of a page, or of figures, of a part of the cells.

    Args:
        first: which cells come first, before the baselines.
        num_shown: how many are shown.
        num_cells: how many there are.
    """
    return (
        f"{num_shown:,} of {num_cells:,} cells are shown: {first}the baselines, and of each request the first of its "
        "table, whose ranks count these alone; globs choose others, such as 'TASK/*/b1t1' or '*/RUNTIME/*'"
    )
