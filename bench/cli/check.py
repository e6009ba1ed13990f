"""`bench check`: a pinned artifact and the one of now, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.cli import units

REGRESSION = 1
"""Exit code when the new artifact is slower by more than the tolerance, or wrong."""


def check(
    pinned: Annotated[
        Path, typer.Argument(help="A folder that `bench pick` saved, or a model file.", show_default=False)
    ],
    new: Annotated[
        Path | None,
        typer.Argument(help="Model file to check; of a folder, the same cell is made anew.", show_default=False),
    ] = None,
    *,
    tolerance: Annotated[str, typer.Option(help="How much slower it may be.")] = "2%",
    max_metric_drop: Annotated[
        str,
        typer.Option(help="Largest share of the metric that may be lost; without a metric, of error in the outputs."),
    ] = "1%",
    dataset: Annotated[Path | None, typer.Option(help="Samples, as `bench run --model` takes them.")] = None,
    dim: Annotated[list[str] | None, typer.Option(help="Size of a dimension left open, as height=224.")] = None,
    shape: Annotated[list[str] | None, typer.Option(help="Shape of an input, as image=1x3x224x224.")] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Let code that the files hold run.")] = False,
    runtime: Annotated[str | None, typer.Option(help="Runtime for model files; the usual one by default.")] = None,
    provider: Annotated[str | None, typer.Option(help="Provider of the runtime.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Samples in one inference.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Threads of the runtime.")] = 1,
    launches: Annotated[int, typer.Option(min=1, help="Most launches of each.")] = 12,
    budget: Annotated[str, typer.Option(help="Time after which no further launch is begun.")] = "2m",
) -> None:
    """Is the new artifact slower than the pinned one, or wrong? Both are measured now, side by side.

    Exits with 1 when it is slower by more than the tolerance, with 95 % confidence, or its outputs are wrong.
    """
    from bench.api.errors import InputError
    from bench.decisions import check as guard
    from bench.graphs.file.text import printable
    from bench.measure.limits import Limits
    from bench.report.check import line
    from bench.tasks import adopt

    limits = Limits.of(step_s=None, memory_bytes=None)
    said = adopt.Options(dataset=dataset, dims=tuple(dim or ()), shapes=tuple(shape or ()), trust=trust)
    if (pinned / "deployment.json").is_file():
        if new is not None:
            raise InputError(f"{pinned} says itself what to make anew; to compare with {new}, name its model file")
        if said != adopt.Options() or (runtime, provider, batch, threads) != (None, None, 1, 1):
            raise InputError(f"{pinned} says itself how it is run; its cell is fixed")
        pair = guard.pair_of_pick(pinned, limits=limits)
    elif new is None:
        raise InputError(f"{pinned} is no folder that `bench pick` saved; name the new model file, too")
    else:
        pair = guard.pair_of_files(
            pinned,
            new,
            options=said,
            runtime=runtime,
            provider=provider,
            batch=batch,
            threads=threads,
            limits=limits,
        )
    goal = guard.goal(tolerance=units.share(tolerance), max_launches=launches, budget_s=units.seconds(budget))
    max_metric_loss = units.share(max_metric_drop, zero=True)
    for note in pair.notes:
        typer.echo(f"bench: {printable(note)}", err=True)
    outcome = guard.measure(pair, goal, guard.method(limits), max_metric_loss=max_metric_loss)
    typer.echo(f"{pair.new.cell}: {line(outcome)}")
    if not outcome.passed:
        raise typer.Exit(REGRESSION)
