"""The command line: the app of all commands, and how each ends."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from bench.api.errors import BenchError
from bench.cli import best, check, compare, doctor, explain, graph, options, pick, plot, profile, report, roofline, show
from bench.cli import list as list_command
from bench.cli import run as run_command
from bench.cli.run import INTERRUPTED

app = typer.Typer(
    help="Which deployment of a trained model to ship on this machine, what it costs in accuracy, and how sure we are.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"bench {version('inferometer')}")
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
    *(show.show, best.best, plot.plot, roofline.roofline, compare.compare, pick.pick),
    *(explain.explain, check.check, report.report, profile.profile, doctor.doctor),
):
    app.command()(command)
app.add_typer(graph.app, name="graph")


def main() -> None:
    """Run a command; a known error becomes one line and exit code 2."""
    # What Typer raises at wrong usage. It exports the one class only, and has the others from click or from itself.
    usage_error: type[Exception] = typer.BadParameter.__mro__[2]
    try:
        code = app(standalone_mode=False)
    except BenchError as error:
        options.say(str(error))
        code = 2
    except usage_error as error:
        options.say(error.format_message() or "no command given; `bench --help` lists them")  # type: ignore[attr-defined]
        code = 2
    except typer.Abort:
        code = INTERRUPTED
    except BrokenPipeError:
        code = 0
    except OSError as error:  # a cache or a pipe that cannot be written, or a model that cannot be read
        options.say(_os_line(error))
        code = 2
    sys.exit(code)


def _os_line(error: OSError) -> str:
    from bench.api import cache

    if not error.filename:
        return str(error)
    fix = " (BENCH_CACHE can name another folder)" if str(error.filename).startswith(str(cache.folder())) else ""
    return f"cannot use {error.filename}: {error.strerror}{fix}"
