"""`bench roofline`: the machine's peaks, and how near each cell comes to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bench.cli import options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.records.folder import Results
    from bench.records.rows import Row


def roofline(
    globs: options.Globs = None,
    *,
    results: options.Results = options.RESULTS,
    format: options.Rows = "table",
    force: Annotated[bool, typer.Option("--force", help="Measure again; the higher rate counts.")] = False,
    output: options.Output = None,
) -> None:
    """This machine's peaks, measured once in half a minute, and how near each cell comes to them.

    Peaks that were disturbed when they were measured, and that a cell is above, are measured again.
    """
    from bench.measure import machine, peaks
    from bench.records import peaks as stored_peaks
    from bench.report import roofline as report
    from bench.report.terminal import Console

    stored = options.read(results)
    rows = stored.chosen(globs)
    threads = sorted({row.threads for row in rows})
    unknown = [number for number in threads if force or number not in stored.peaks or _is_too_low(stored, rows, number)]
    if unknown and stored.folder.name == machine.name():
        with Console().status("measuring this machine's peaks"):
            for number in unknown:
                stored = stored.under(stored_peaks.keep(stored.folder, number, peaks.ask(number)))
    options.write(report.render(stored.chosen(globs), stored.peaks, format=format), output)


def _is_too_low(stored: Results, rows: Sequence[Row], threads: int) -> bool:
    """Whether a row is above a peak that something disturbed when it was measured."""
    peaks = stored.peaks[threads]
    above = {row.precision for row in rows if row.threads == threads and (row.peak_share or 0) > 1}
    return bool(above - {*peaks.undisturbed})
