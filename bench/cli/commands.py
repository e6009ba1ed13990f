"""The app of all commands; `main` runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer
import typer.core

from bench.api import features
from bench.cli import (
    best,
    check,
    clean,
    install,
    options,
    pick,
    plot,
    roofline,
    show,
)
from bench.cli import list as list_command
from bench.cli import run as run_command

_OWN: dict[str, dict[str, Callable[..., Any] | typer.Typer]] = {
    "Measure": {"run": run_command.run},
    "Decide": {"pick": pick.pick, "best": best.best},
    "Inspect": {
        "show": show.show,
        "roofline": roofline.roofline,
        "list": list_command.list_,
    },
    "Share": {"plot": plot.plot},
    "Maintain": {"check": check.check, "install": install.install, "clean": clean.clean},
}
"""The commands of the core by their names, under the headings of `bench --help` and in its order."""


def _commands() -> dict[str, dict[str, Callable[..., Any] | typer.Typer]]:
    """The commands of the core, and below each heading those of features."""
    commands = {panel: dict(own) for panel, own in _OWN.items()}
    for module in features.modules("command"):
        for panel, own in module.COMMANDS.items():
            commands.setdefault(panel, {}).update(own)
    return commands


COMMANDS = _commands()
_HELP = """bench run --model model.onnx, then bench pick model

Which deployment of a trained model to ship on this machine, what it costs in accuracy, and how sure we are.
"""


class InOrder(typer.core.TyperGroup):
    """The commands in the order of `COMMANDS`; Typer itself puts those that have commands of their own last."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of the commands."""
        return [name for commands in COMMANDS.values() for name in commands]


app = typer.Typer(
    cls=InOrder,
    help=_HELP,
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


for panel, commands in COMMANDS.items():
    for name, command in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=panel)
        else:
            kind = options.TellsFormats if command is run_command.run else None
            app.command(name, cls=kind, rich_help_panel=panel)(command)
