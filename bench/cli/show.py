"""`bench show`: the table of stored results, and the tables of the sweeps that have their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bench.api.errors import InputError
from bench.cli import options, units
from bench.cli.stopping import Stopping

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.records.folder import Results
    from bench.records.rows import Row

MANY = 10_000
"""Rows that take a tenth of a second to free."""


def show(
    ctx: typer.Context,
    globs: options.Globs = None,
    *,
    format: options.Rows = "table",
    baseline: Annotated[str | None, typer.Option(help="Cell to compare with, instead of each task's own.")] = None,
    columns: Annotated[str | None, typer.Option(help="Keys of a row, joined by commas.")] = None,
    sort: Annotated[str | None, typer.Option(help="Key of a row to sort by; fastest first by default.")] = None,
    sweep: Annotated[
        str | None, typer.Option(help="`generation`, `load`, `seed` or `threads`: tables of their own.")
    ] = None,
    margin: options.Margin = "2%",
    results: options.Results = options.RESULTS,
    output: options.Output = None,
) -> None:
    """The table, from stored results."""
    from bench.decisions.sizes import families
    from bench.records import noise, ranking
    from bench.records.rows import COLUMNS
    from bench.records.warnings import warnings
    from bench.report import frame, sizes, tables, writing

    stored = options.read(results, margin=units.share(margin), baseline=baseline)
    if len(stored.rows) >= MANY:
        (ctx.obj or Stopping()).leave_unfreed(stored)
    rows = stored.chosen(globs)
    if sweep is not None:
        if columns or sort:
            raise InputError("the tables of --sweep have their own order and columns: leave out --columns and --sort")
        options.write(sweep_tables(sweep, stored, rows, format), output)
        return
    chosen = tuple(columns.split(",")) if columns else None
    if format not in ("table", "md"):  # which say it themselves
        options.say_notes(warnings(rows))
    if format == "parquet":
        if output is None:
            raise InputError("Parquet is no text to print; name a file with --output")
        selection = ranking.select(rows, columns=chosen, sort=sort)
        options.write(frame.parquet(selection.rows, selection.columns or COLUMNS), output)
        return
    by_size = families(stored.measurements, rows) if format in ("table", "md") and chosen is None else []
    if format == "table" and output is None:
        print_table(rows, chosen, sort)
        options.write(writing.paragraph([noise.said(stored.measurements, rows)], format), None)
        options.write(sizes.render(by_size, format=format), None)
    else:
        table = tables.render(rows, format=format, columns=chosen, sort=sort)
        sentence = noise.said(stored.measurements, rows) if format in ("table", "md") else ""
        texts = (table, writing.paragraph([sentence], format), sizes.render(by_size, format=format))
        options.write("\n".join(text.rstrip("\n") + "\n" for text in texts if text) + "\n", output)


def print_table(rows: Sequence[Row], columns: tuple[str, ...] | None = None, sort: str | None = None) -> None:
    """Print the table of rows, in the width and the colours of the terminal."""
    from bench.records.ranking import select
    from bench.report.tables import TerminalTable
    from bench.report.terminal import Console

    Console().print(TerminalTable(select(rows, columns=columns, sort=sort)))


def sweep_tables(sweep: str, stored: Results, rows: Sequence[Row], format: str) -> str:
    """The tables of a sweep that has its own.

    Args:
        sweep: `seed`, `threads`, or a name of a feature's `TABLES`, such as `load`.
        stored: all results.
        rows: but for `seed`, rows of the cells to show: for `threads` each at any number of threads.
        format: `table` or `md`.

    Raises:
        InputError: another sweep or format, or there is nothing to show.
    """
    from bench.api import features
    from bench.decisions.threads import scalings, sound
    from bench.report import experiments, threads

    if sweep == "seed":
        return experiments.render(stored.rows, stored.records, format=format)
    of_features = {name: render for module in features.modules("tables") for name, render in module.TABLES.items()}
    if sweep in of_features:
        table: str = of_features[sweep](stored, rows, format)
        return table
    if sweep != "threads":
        *others, last = sorted(("seed", "threads", *of_features))
        named = f"{', '.join(map(repr, others))} and {last!r}"
        raise InputError(f"{named} have tables of their own, not {sweep!r}")
    records = sound(stored, rows)
    own = [row for row in stored.rows if row.cell in records]
    return threads.render(scalings(records, margin=stored.margin), own, format=format)
