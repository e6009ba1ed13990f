"""`bench doctor`: the machine, its runtimes and its noise."""

from __future__ import annotations

import typer


def doctor() -> None:
    """What this machine can run, and how noisy it is just now."""
    from rich.console import Console

    from bench.pipeline.doctor import examine
    from bench.report.doctor import render

    with Console().status("measuring this machine's noise"):
        found = examine()
    typer.echo(render(found), nl=False)
