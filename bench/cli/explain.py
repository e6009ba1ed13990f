"""`bench explain`: where a measured cell's time goes, what its steps changed, what runs where, and where it drifts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bench.cli import options, units

if TYPE_CHECKING:
    from bench.records.folder import Results


def explain(
    cell: Annotated[str, typer.Argument(help="A measured cell: its path, or a glob over it.", show_default=False)],
    *,
    vs: Annotated[
        str | None,
        typer.Option("--vs", help="Measured cell to compare with; the same without its variants by default."),
    ] = None,
    tolerance: Annotated[
        str | None,
        typer.Option(help="Error that is no drift, as a share of a tensor's magnitude; the task's own by default."),
    ] = None,
    results: options.Results = options.RESULTS,
    format: options.Tables = "table",
) -> None:
    """Why a cell is as fast and as right as it is: time by operator, steps, providers, and where drift first appears.

    Beside another cell. Its artifact is profiled anew, on this machine.
    """
    from rich.console import Console

    from bench.decisions.explain import explain as find
    from bench.measure.limits import Limits
    from bench.records import folder
    from bench.report import explain as report

    stored = folder.read(results)
    chosen, other = _one(stored, cell), _one(stored, vs) if vs else None
    most = units.share(tolerance, zero=True) if tolerance else None
    with Console(stderr=True).status(f"explaining {chosen}"):
        found = find(stored, chosen, other, tolerance=most, limits=Limits.of(step_s=None, memory_bytes=None))
    typer.echo(report.render(found, format=format), nl=False)


def _one(stored: Results, glob: str) -> str:
    """The path of the one cell that a glob names.

    Raises:
        InputError: the glob names no cell, or several.
    """
    from bench.api.errors import InputError

    found = [row.cell for row in stored.chosen([glob])]
    if len(found) > 1:
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise InputError(f"one cell at a time; {glob!r} names {', '.join(found[:3])}{more}")
    return found[0]
