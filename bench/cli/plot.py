"""`bench plot`: figures of stored results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.api.errors import InputError
from bench.cli import options


def plot(
    globs: options.Globs = None,
    *,
    results: options.Results = options.RESULTS,
    output: Annotated[Path | None, typer.Option(help="Folder for the pictures; beside the results by default.")] = None,
) -> None:
    """Figures as PNG and SVG: latency, accuracy against latency, memory and size, and latency by size."""
    from bench.decisions.sizes import families
    from bench.records import assemble
    from bench.report import part
    from bench.report.figures import plots, size_plots

    stored = options.read(results)
    higher = assemble.higher_is_better(stored.records)
    rows, place = stored.chosen(globs), output or stored.folder / "plots"
    drawn = part.of(rows, (), part.MOST_DRAWN)
    if len(drawn) < len(rows):
        options.say(part.sentence("", len(drawn), len(rows)))
    paths = plots.draw(drawn, place, higher_is_better=higher)
    paths += size_plots.draw(families(stored.measurements, drawn), place)
    if not paths:
        raise InputError("nothing to draw: no cell has been timed; `bench run` measures")
    options.tell(*map(str, paths))
