"""`bench report`: stored results as one page that can be sent, published and printed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    globs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Cells, as globs over task/source/exporter/variant/runtime/provider/b1t1.", show_default=False
        ),
    ] = None,
    *,
    results: Annotated[Path, typer.Option("--results", help="Folder of the results.")] = Path("results"),
    output: Annotated[
        Path | None, typer.Option(help="File to write; report.html in the folder of the results by default.")
    ] = None,
) -> None:
    """One HTML file with tables, figures and raw samples, which needs nothing but itself and a browser."""
    from bench.measure.rounds import Goal
    from bench.records import folder, peaks
    from bench.records.store import write_atomically
    from bench.report.page.page import page

    rows = folder.rows(results, globs or ())
    known = peaks.read(folder.machine_folder(results))
    path = output or results / "report.html"
    write_atomically(path, page(folder.records(results), rows, margin=Goal.margin, peaks=known))
    typer.echo(path)
