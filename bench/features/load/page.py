"""What the page shows of services below the rows of their task."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from bench.api.cell import Cell
from bench.features.load import plots, turns
from bench.records.folder import Results
from bench.report.section import Section

_ALT = "latency and waiting of services under load"


def sections(stored: Results, cells: Collection[Cell]) -> Iterator[tuple[str, Section]]:
    """The figures of services that took turns last, with the names of their tasks.

    Args:
        stored: the results of one machine.
        cells: the cells that the page shows.
    """
    records = stored.records
    last = turns.last(records, cells)
    for task in dict.fromkeys(str(each.baseline.cell.task) for each in last):
        of_task = [each for each in last if str(each.baseline.cell.task) == task]
        served = dict.fromkeys(way.cell.path for each in of_task for way in each.launches)
        drawings = plots.drawings([records[path] for path in served], of_task)
        if drawings:
            yield task, Section(title="Under load", figures=[(_ALT, drawing) for drawing in drawings])
