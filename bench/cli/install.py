"""`bench install`: what plugins need that pip cannot install here: environments of their own, and packages of npm."""

from __future__ import annotations

from typing import Annotated

import typer

from bench.cli import options

_NPM = "npm"


def install(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Exporters, variants and runtimes, or npm for all packages of npm; all of these if none."),
    ] = None,
    *,
    yes: options.Yes = False,
) -> None:
    """Install what plugins need beside this environment, as `bench list` names them: environments, packages of npm."""
    from bench.api.errors import ArtifactError, BenchError, InputError, suggest
    from bench.measure import lease
    from bench.pipeline import environments, isolated, npm_packages

    plugins = [plugin for _, plugin in isolated.plugins()]
    known = {plugin.name for plugin in plugins} | {_NPM}
    if unknown := next((name for name in names or () if name not in known), None):
        raise InputError(
            f"{unknown!r} is no plugin that needs an environment of its own; {suggest(unknown, known)}",
            fix="`bench list` lists all plugins",
        )
    failed = []
    with lease.hold():  # it would take time from what is measured
        if not names or _NPM in names:
            try:
                options.say(f"npm: {npm_packages.install()}")
            except (BenchError, OSError) as error:
                failed.append(str(error))
        for plugin in plugins:
            if names and plugin.name not in names:
                continue
            try:
                size_bytes = environments.make_isolated(plugin, may_be_large=yes)
                options.say(f"{plugin.name}: {size_bytes / 1e6:,.0f} MB")
            except (BenchError, OSError) as error:
                failed.append(f"{plugin.name}: {error}")
    if failed:
        raise ArtifactError("; ".join(failed))
