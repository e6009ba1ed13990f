"""`bench report`: stored results as one page that can be sent, published and printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.cli import options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.records.folder import Results
    from bench.records.rows import Row
    from bench.report.page.page import Shown


def report(
    globs: options.Globs = None,
    *,
    results: options.Results = options.RESULTS,
    output: Annotated[
        Path | None, typer.Option(help="File to write; report.html in the folder of the results by default.")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Leave out what names the user, the host and folders, to send the page.")
    ] = False,
) -> None:
    """One HTML file with tables, figures and raw samples, which needs nothing but itself and a browser.

    Where the folder has results of several machines, the page shows any of them, and which deployment is for all.
    """
    from bench.decisions import everywhere
    from bench.report.page.page import page

    every = options.read_all(results)
    rows = {name: stored.chosen(globs) for name, stored in _having(every, globs).items()}
    shown = [_shown(name, every[name], own, public=public) for name, own in rows.items()]
    path = output or results / "report.html"
    margin = next(iter(every.values())).margin
    options.write(page(shown, margin=margin, everywhere=everywhere.of_all_requests(every, rows)), path)
    options.tell(str(path))


def _having(every: Mapping[str, Results], globs: Sequence[str] | None) -> dict[str, Results]:
    """The results of the machines that have such cells; all of them where no machine has, for the error to say so."""
    from bench.api.cell import Cell, matches

    def has_all(stored: Results) -> bool:
        cells = [Cell.from_path(row.cell) for row in stored.rows]
        return all(any(matches(cell, [glob]) for cell in cells) for glob in globs or ())

    return {name: stored for name, stored in every.items() if has_all(stored)} or dict(every)


def _shown(name: str, stored: Results, rows: Sequence[Row], *, public: bool) -> Shown:
    """The results of one machine as the page takes them."""
    from bench.decisions import load
    from bench.decisions.best import MAX_METRIC_LOSS, best
    from bench.decisions.search import kept
    from bench.records.sending import record_to_send, row_to_send
    from bench.report.page.page import Shown

    records = stored.records
    if public:
        rows = [*map(row_to_send, rows)]
        records = {path: record_to_send(record) for path, record in records.items()}
    cells = [records[row.cell].cell for row in rows if row.cell in records]
    turns = load.turns(records)
    return Shown(
        name=name,
        records=records,
        rows=rows,
        best=best(stored.measurements, rows, max_metric_loss=MAX_METRIC_LOSS),
        peaks=stored.peaks,
        searches=kept.read(stored.folder),
        places=stored.measurements.places,
        turns=[one for plan in (False, True) for one in load.newest(turns, cells, plan=plan)],
    )
