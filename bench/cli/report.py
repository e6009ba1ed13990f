"""`bench report`: stored results as one page that can be sent, published and printed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.cli import options


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
    """One HTML file with tables, figures and raw samples, which needs nothing but itself and a browser."""
    from bench.decisions import load
    from bench.decisions.best import MAX_METRIC_LOSS, best
    from bench.decisions.search import kept
    from bench.records.sending import record_to_send, row_to_send
    from bench.report.page.page import page

    stored = options.read(results)
    path = output or results / "report.html"
    rows = stored.chosen(globs)
    records = stored.records
    if public:
        rows = [*map(row_to_send, rows)]
        records = {path: record_to_send(record) for path, record in records.items()}
    chosen = best(stored.measurements, rows, max_metric_loss=MAX_METRIC_LOSS)
    searches = kept.read(stored.folder)
    shown = [records[row.cell].cell for row in rows if row.cell in records]
    every = load.turns(records)
    turns = [one for plan in (False, True) for one in load.newest(every, shown, plan=plan)]
    peaks, margin = stored.peaks, stored.margin
    options.write(page(records, rows, chosen, margin=margin, peaks=peaks, searches=searches, turns=turns), path)
    options.tell(str(path))
