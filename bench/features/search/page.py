"""What the page shows of searches below the rows of their task."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from bench.api.cell import Cell
from bench.features.search import figures, saved
from bench.records.folder import Results
from bench.report.section import Section

_PROPOSALS, _LETTERS = "the proposals in latency and fidelity", "what each letter saves and costs"


def sections(stored: Results, cells: Collection[Cell]) -> Iterator[tuple[str, Section]]:
    """The figures of searches, with the names of their tasks.

    Args:
        stored: the results of one machine.
        cells: the cells that the page shows.
    """
    tasks = {str(cell.task) for cell in cells}
    for search in saved.read(stored.folder):
        task, batch, threads = search.request
        if task in tasks:
            title = f"Search, batch {batch}, {threads} thread{'s' if threads != 1 else ''}: less {search.objective}"
            drawings = figures.drawings(search.outcomes, task, search.objective)
            alts = [_PROPOSALS, *[_LETTERS] * (len(drawings) - 1)]
            yield task, Section(title=title, figures=tuple(zip(alts, drawings, strict=False)))
