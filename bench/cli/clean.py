"""`bench clean`: remove what can be made again."""

from __future__ import annotations

import contextlib
from typing import Annotated

import typer

from bench.cli import options


def clean(
    *,
    environments: Annotated[
        bool,
        typer.Option(
            "--environments",
            help="Environments of other versions and of plugins; packages of npm.",
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how much would be removed, and stop.")] = False,
) -> None:
    """Remove what commands made for later ones, and what they make again where it is needed."""
    from bench.api.errors import InputError
    from bench.measure import lease
    from bench.pipeline import environments as environment_cache
    from bench.pipeline import npm_packages

    if not environments:
        raise InputError("say what to remove: --environments; the rest of the cache is a folder, see $BENCH_CACHE")
    with contextlib.nullcontext() if dry_run else lease.hold():  # a sweep under way needs them
        freed = environment_cache.remove_all(dry_run=dry_run) + npm_packages.remove_all(dry_run=dry_run)
    options.say(f"{'would remove' if dry_run else 'removed'} {freed / 1e6:.0f} MB of environments and packages")
