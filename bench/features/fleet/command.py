"""`bench fleet`: one sweep on several machines."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.cli import options, waiting

if TYPE_CHECKING:
    from bench.api.cell import Cell
    from bench.cli.keeping import KeepingStore
    from bench.features.fleet.place import Machine
    from bench.pipeline.sweep import Sweep
    from bench.pipeline.sweep_options import Options

app = typer.Typer(help="Run a sweep on several machines, with Ray as the engine.", no_args_is_help=True)
_At = Annotated[str, typer.Option("--at", help="Address of the head, as HOST:PORT.", metavar="HOST:PORT")]
_Token = Annotated[
    Path | None,
    typer.Option(help="File of the token; inferometer/fleet-token in the user's settings by default."),
]
Name = Annotated[str | None, typer.Option(help="Name of this machine in the fleet.")]
_Listen = Annotated[str, typer.Option(help="This machine's address that the others reach; by default, none do.")]


_FIRST = "2.55"
"""The first version of Ray that gives each machine a folder of its own; before 2.52, none asks for a token."""


def _needs_ray() -> None:
    """See that Ray is installed, in a version whose machines can be kept private.

    Raises:
        InputError: it is not.
    """
    import importlib.metadata
    import importlib.util

    from packaging.version import Version

    from bench.api.errors import InputError

    fix = "pip install 'inferometer[fleet]'"
    if importlib.util.find_spec("ray") is None:
        raise InputError("a fleet needs Ray, which is not installed", fix=fix)
    if Version(version := importlib.metadata.version("ray")) < Version(_FIRST):
        raise InputError(
            f"a fleet needs Ray {_FIRST} or later: {version} gives machines no folder of their own", fix=fix
        )


@app.command()
def up(
    listen: _Listen = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the head.")] = 6399,
    token_file: _Token = None,
    name: Name = None,
    browser: options.Browser = None,
) -> None:
    """Start a fleet on this machine, alone for now; whoever has its token may run code on all its machines."""
    from bench.features.fleet import cluster
    from bench.features.fleet import token as tokens

    _needs_ray()
    token = tokens.place(token_file)
    tokens.make(token)
    cluster.up(listen, port, token, name or cluster.default_name())
    options.tell(f"{listen}:{port}")
    option = f" --token-file {token_file}" if token_file else ""
    options.say(f"next: bench fleet run --at {listen}:{port}{option} ...")
    if listen == cluster.LOOPBACK:
        options.say("other machines can join where the head was started with --listen ADDRESS")
    else:
        options.say(f"on other machines, with a copy of {token}:")
        options.say(f"      bench fleet join {listen}:{port} --token-file FILE --listen ADDRESS")


@app.command()
def join(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Address of the head.")],
    token_file: _Token = None,
    name: Name = None,
    listen: _Listen = "127.0.0.1",
    browser: options.Browser = None,
) -> None:
    """Offer this machine to a fleet, until `bench fleet leave`."""
    from bench.features.fleet import cluster, token

    _needs_ray()
    cluster.join(address, token.place(token_file), name or cluster.default_name(), listen)
    options.say(f"joined {address}")


@app.command()
def leave(
    at: Annotated[
        str | None, typer.Option(help="Address of the head; all fleets by default.", metavar="HOST:PORT")
    ] = None,
) -> None:
    """End all of your processes of a fleet on this machine, of a head, too."""
    from bench.features.fleet import cluster

    _needs_ray()
    if not cluster.leave(at) and at is not None:
        options.say(f"no process of yours on this machine is of a fleet at {at}")


@app.command()
def status(ctx: typer.Context, at: _At, token_file: _Token = None) -> None:
    """List the machines of a fleet, and those that take no part, with the reason."""
    from bench.features.fleet import cluster, render

    _needs_ray()
    ctx.obj.at_once = True
    _connect(at, token_file)
    with waiting.reporting("waiting for the machines to answer", options.say):
        machines, refused = cluster.machines()
    options.write(render.render(machines, refused, cluster.leased(machines)), None)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(ctx: typer.Context, at: _At, token_file: _Token = None) -> None:
    """Run a sweep on all machines of a fleet: takes all arguments of `bench run`, too."""
    from bench.cli import run as run_command

    if ctx.obj is not None:
        ctx.obj.keeps = True
    _needs_ray()
    alone = typer.Typer()
    alone.command()(run_command.run)
    command = typer.main.get_command(alone)
    ctx.obj.at_once = True
    _connect(at, token_file)
    ctx.meta[run_command.ELSEWHERE] = functools.partial(_run_sweeps, at, _machines())
    with command.make_context("run", ctx.args, parent=ctx) as inner:
        command.invoke(inner)


def _run_sweeps(
    address: str,
    machines: Sequence[Machine],
    cells: Sequence[Cell],
    settings: Options,
    opened: Callable[[str], KeepingStore],
) -> list[tuple[KeepingStore, Sweep]]:
    """Run a sweep on each kind of machine of a fleet; see `bench.cli.run.Elsewhere`."""
    from bench.cli import progress
    from bench.features.fleet import driver
    from bench.report.terminal import Console

    stores = {kind: opened(kind) for kind in driver.by_kind(machines)}
    console = Console(stderr=True)
    ran = driver.run(
        address,
        machines,
        cells,
        settings,
        stores.__getitem__,
        lambda kind: progress.Watch(console, name=kind if len(stores) > 1 else None),
        options.say,
    )
    return [(stores[kind], ran[kind]) for kind in stores]


def _connect(at: str, token_file: Path | None) -> None:
    """Be a driver of the fleet at an address; what is unsafe about it is said."""
    from bench.features.fleet import cluster, token

    options.say_notes(filter(None, [cluster.connect(at, token.place(token_file))]))


def _machines() -> list[Machine]:
    """The machines that take part; the others are told of.

    Raises:
        FleetError: there are none.
    """
    from bench.features.fleet import cluster
    from bench.features.fleet.place import FleetError

    with waiting.reporting("waiting for the machines to answer", options.say):
        machines, refused = cluster.machines()
    for machine in refused:
        options.say(f"{machine.name} takes no part: {machine.reason}")
    if not machines:
        raise FleetError("no machine takes part", fix="`bench fleet join` offers one")
    return machines


COMMANDS = {"Measure": {"fleet": app}}
"""The commands, under their heading of `bench --help`."""
