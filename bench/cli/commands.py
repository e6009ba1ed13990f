"""The app of all commands; `main` runs it."""

from __future__ import annotations

from typing import Annotated

import typer

from bench.cli import (
    best,
    bisect,
    check,
    clean,
    compare,
    doctor,
    explain,
    export,
    fleet,
    graph,
    load,
    options,
    pick,
    plot,
    profile,
    report,
    roofline,
    search,
    show,
)
from bench.cli import list as list_command
from bench.cli import run as run_command

app = typer.Typer(
    help="Which deployment of a trained model to ship on this machine, what it costs in accuracy, and how sure we are.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from bench.api.version import version

        typer.echo(f"bench {version() or '(not installed)'}")
        raise typer.Exit


@app.callback()
def options_of_all(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Take the options that belong to no command."""


app.command("list")(list_command.list_)
app.command(cls=options.TellsFormats)(run_command.run)
for command in (
    *(show.show, best.best, plot.plot, roofline.roofline, compare.compare, bisect.bisect, pick.pick, search.search),
    load.load,
    *(explain.explain, check.check, report.report, export.export, profile.profile, doctor.doctor, clean.clean),
):
    app.command()(command)
app.add_typer(graph.app, name="graph")
app.add_typer(fleet.app, name="fleet")
