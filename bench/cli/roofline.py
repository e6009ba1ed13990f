"""`bench roofline`: the machine's peaks, and how near each cell comes to them."""

from __future__ import annotations

from typing import Annotated

import typer

from bench.cli import options


def roofline(
    globs: options.Globs = None,
    *,
    results: options.Results = options.RESULTS,
    format: options.Rows = "table",
    force: Annotated[bool, typer.Option("--force", help="Measure again; the higher rate counts.")] = False,
    output: options.Output = None,
) -> None:
    """This machine's peaks, measured once in half a minute, and how near each cell comes to them."""
    from bench.measure import machine, peaks
    from bench.records import peaks as stored_peaks
    from bench.report import roofline as report
    from bench.report.terminal import Console

    stored = options.read(results)
    threads = sorted({row.threads for row in stored.chosen(globs)})
    unknown = [number for number in threads if force or number not in stored.peaks]
    if unknown and stored.folder.name == machine.name():
        with Console().status("measuring this machine's peaks"):
            for number in unknown:
                stored = stored.under(stored_peaks.keep(stored.folder, number, peaks.ask(number)))
    options.write(report.render(stored.chosen(globs), stored.peaks, format=format), output)
