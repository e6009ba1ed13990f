"""`bench fleet`: one sweep on several machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.cli import options

if TYPE_CHECKING:
    from bench.pipeline.fleet.place import Machine

app = typer.Typer(help="Run a sweep on several machines, with Ray as the engine.", no_args_is_help=True)
At = Annotated[str, typer.Option("--at", help="Address of the head, as HOST:PORT.", metavar="HOST:PORT")]
Token = Annotated[
    Path | None,
    typer.Option(help="File of the token; inferometer/fleet-token in the user's settings by default."),
]
Name = Annotated[str | None, typer.Option(help="Name of this machine in the fleet.")]
Listen = Annotated[str, typer.Option(help="This machine's address that the others reach; by default, none do.")]


FIRST_WITH_TOKENS = "2.52"
"""The first version of Ray that asks for a token: earlier ones let anybody in, whatever they are told."""


def _needs_ray() -> None:
    """See that Ray is installed, in a version that asks for tokens.

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
    if Version(found := importlib.metadata.version("ray")) < Version(FIRST_WITH_TOKENS):
        raise InputError(f"a fleet needs Ray {FIRST_WITH_TOKENS} or later: {found} asks for no token", fix=fix)


@app.command()
def up(
    listen: Listen = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the head.")] = 6399,
    token_file: Token = None,
    name: Name = None,
) -> None:
    """Start a fleet on this machine, alone for now; whoever has its token may run code on all its machines."""
    from bench.pipeline.fleet import cluster

    _needs_ray()
    token = cluster.token_file(token_file)
    cluster.make_token(token)
    cluster.up(listen, port, token, name or cluster.default_name())
    options.tell(f"{listen}:{port}")
    given = f" --token-file {token_file}" if token_file else ""
    options.say(f"next: bench fleet run --at {listen}:{port}{given} ...")
    if listen == cluster.LOOPBACK:
        options.say("other machines can join where the head was started with --listen ADDRESS")
    else:
        options.say(f"on other machines, with a copy of {token}:")
        options.say(f"      bench fleet join {listen}:{port} --token-file FILE --listen ADDRESS")


@app.command()
def join(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Address of the head.")],
    token_file: Token = None,
    name: Name = None,
    listen: Listen = "127.0.0.1",
) -> None:
    """Offer this machine to a fleet, until `bench fleet leave`."""
    from bench.pipeline.fleet import cluster

    _needs_ray()
    cluster.join(address, cluster.token_file(token_file), name or cluster.default_name(), listen)
    options.say(f"joined {address}")


@app.command()
def leave() -> None:
    """End all processes of fleets on this machine, of a head, too."""
    from bench.pipeline.fleet import cluster

    _needs_ray()
    cluster.leave()


@app.command()
def status(ctx: typer.Context, at: At, token_file: Token = None) -> None:
    """List the machines of a fleet, and those that take no part, with the reason."""
    from bench.pipeline.fleet import cluster
    from bench.report import fleet

    _needs_ray()
    ctx.obj.at_once = True
    cluster.connect(at, cluster.token_file(token_file))
    machines, refused = cluster.machines()
    options.write(fleet.render(machines, refused, cluster.leased(machines)), None)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(ctx: typer.Context, at: At, token_file: Token = None) -> None:
    """Run a sweep on all machines of a fleet: takes all arguments of `bench run`, too."""
    from bench.cli import run as run_command
    from bench.pipeline.fleet import cluster

    _needs_ray()
    alone = typer.Typer()
    alone.command()(run_command.run)
    command = typer.main.get_command(alone)
    ctx.obj.at_once = True
    cluster.connect(at, cluster.token_file(token_file))
    ctx.meta[run_command.FLEET] = (at, _machines())
    with command.make_context("run", ctx.args, parent=ctx) as inner:
        command.invoke(inner)


def _machines() -> list[Machine]:
    """The machines that take part; the others are told of.

    Raises:
        FleetError: there are none.
    """
    from bench.pipeline.fleet import cluster
    from bench.pipeline.fleet.place import FleetError

    machines, refused = cluster.machines()
    for one in refused:
        options.say(f"{one.name} takes no part: {one.reason}")
    if not machines:
        raise FleetError("no machine takes part", fix="`bench fleet join` offers one")
    return machines
