"""What `bench show --sweep load` prints."""

from __future__ import annotations

from collections.abc import Sequence

from bench.api.errors import InputError
from bench.features.load import render, turns
from bench.features.load.lines import launches_of
from bench.records.folder import Results
from bench.records.rows import Row


def of_turns(stored: Results, rows: Sequence[Row], format: str) -> str:
    """The tables of the services that took turns last, each task's on their own as `bench load` has them.

    Args:
        stored: all results.
        rows: rows of cells; the tables have all that took turns with them.
        format: `table` or `md`.

    Raises:
        InputError: another format, or the cells took no turns.
    """
    if format not in ("md", "table"):
        raise InputError(f"the tables of services are printed as md or table, not {format}")
    texts = []
    for task in dict.fromkeys(row.task for row in rows):
        records = {path: record for path, record in stored.records.items() if str(record.cell.task) == task}
        cells = {records[row.cell].cell for row in rows if row.task == task}
        if last := turns.last(records, cells):
            served = [record for record in records.values() if launches_of(record)]
            texts.append(render.render(served, last, format=format, margin=stored.margin, turns_alone=True))
    if not texts:
        raise InputError("these cells took no turns as services", fix="`bench load` measures them")
    return "\n".join(texts)


TABLES = {"load": of_turns}
