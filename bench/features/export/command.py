"""`bench export`: stored figures in the formats of tools that keep a history of benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from bench.cli import options


def export(
    globs: options.Globs = None,
    *,
    format: Annotated[
        Literal["bmf", "gha", "otava"],
        typer.Option(help="Bencher Metric Format; github-action-benchmark's array; files for Apache Otava."),
    ],
    results: options.Results = options.RESULTS,
    output: Annotated[
        Path | None,
        typer.Option(help="File to write instead of printing; for `otava` a folder, whose files get one more line."),
    ] = None,
) -> None:
    """Stored latencies, ratios, memory, sizes and metrics with their intervals, for a history kept elsewhere."""
    from bench.api.errors import InputError
    from bench.features.export import bmf, gha, otava
    from bench.features.export.figures import benchmarks, left_out

    stored = options.read(results)
    rows = stored.chosen(globs)
    cells = benchmarks(rows, stored.measurements)
    missing = left_out(rows)
    if not cells:
        raise InputError(
            f"there is nothing to export: {missing or 'no cell'}; an export takes cells that were timed and are right",
            fix="`bench run` measures cells",
        )
    options.say_notes(filter(None, [missing]))
    if format != "otava":
        options.write({"bmf": bmf, "gha": gha}[format].render(cells), output)
        return
    if output is None or str(output) in options.STANDARD_OUTPUT:
        raise InputError("Otava reads a file for each cell, no text to print; name a folder with --output")
    for path, text in otava.written(cells, output).items():
        options.write(text, path)
    options.tell(str(output / otava.CONFIG))


COMMANDS = {"Share": {"export": export}}
"""The command, under its heading of `bench --help`."""
