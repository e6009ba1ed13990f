"""`bench run`: measure cells of a sweep, or of a model of one's own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated

import typer

from bench.cli import options, units

FIRST_TABLE_S = 30
"""Time for measuring a model of one's own, at each combination of sizes, unless `--budget` is given."""
INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT, as shells have it."""


def run(
    globs: options.Globs = None,
    *,
    sweep: Annotated[
        str | None, typer.Option(help="A named sweep: quick, full, scaling, threads, seed or everything.")
    ] = None,
    model: options.Own = None,
    dataset: options.Dataset = None,
    dim: Annotated[
        list[str] | None,
        typer.Option(
            "--dim", help="Sizes to measure of a dimension of any size, as height=224,448 or batch=1,4.", metavar="TEXT"
        ),
    ] = None,
    shape: options.Shapes = None,
    trust: options.Trust = False,
    budget: Annotated[
        str | None,
        typer.Option(help="Time for measuring, such as 10m; 30s a size by default with --model alone, else no limit."),
    ] = None,
    margin: Annotated[str, typer.Option(help="Half-width of the ratio's interval to aim at.")] = "2%",
    launches: Annotated[int, typer.Option(min=1, help="Most launches of a cell.")] = 12,
    timeout: Annotated[str | None, typer.Option(help="Time for each step of a cell, such as 5m.")] = None,
    memory: Annotated[
        str | None, typer.Option(help="Memory for each process, such as 4GiB; half of the machine's by default.")
    ] = None,
    results: options.Results = options.RESULTS,
    force: Annotated[bool, typer.Option("--force", help="Measure again what is measured already.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the cells and stop.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 when a row failed.")] = False,
) -> None:
    """Run a sweep, or measure one model; cells without an open question are not measured again.

    Exits with 1 when no cell could be timed.
    """
    from rich.console import Console

    from bench.api import loading
    from bench.api.sized import family_of
    from bench.cli import progress
    from bench.cli.interrupts import Heeding
    from bench.cli.show import print_table, sweep_tables
    from bench.decisions.sizes import families
    from bench.graphs.shapes.given import axes_from
    from bench.measure import machine
    from bench.measure.block import Method
    from bench.measure.limits import Limits
    from bench.measure.questions import Aims
    from bench.measure.rounds import Goal
    from bench.pipeline import sizing, sweeps
    from bench.pipeline.sweep import Options, Sweep
    from bench.plugins import catalog
    from bench.records import folder
    from bench.records.store import Store
    from bench.report import next_step
    from bench.report import sizes as by_size
    from bench.tasks import adopt

    axes = axes_from(dim or ())
    given = options.own_model(dataset, None, shape, trust, is_named=model is not None)
    sizes: Mapping[str, int] = {}
    if model is not None:
        adopted, axes = sizing.adopted(model, given, axes)
        options.say_notes(adopted.notes)
        sizes = getattr(catalog.task(adopted.name), "sizes", {})
        if not globs and sweep is None:
            sweep, budget = "full", budget or f"{FIRST_TABLE_S * math.prod(map(len, axes.values()))}s"
        globs = [f"{adopted.name}/{glob}" for glob in globs or ["*"]]
    for name in dict.fromkeys(family_of(glob.partition("/")[0]) for glob in globs or []):
        if name not in loading.find("models"):
            adopt.recall(name)  # a model of one's own, measured before
    cells = sizing.at_sizes(sweeps.select(globs or [], sweep), axes)
    if dry_run:
        typer.echo("\n".join(cell.path for cell in cells))
        return
    step_s, budget_s = (units.seconds(text) if text else None for text in (timeout, budget))
    goal = Goal(aims=Aims(margin=units.share(margin)), max_launches=launches, budget_s=budget_s)
    limits = Limits.of(step_s=step_s, memory_bytes=units.size_bytes(memory) if memory else None)
    across_threads = sweep == sweeps.threads.__name__
    settings = Options(method=Method(limits=limits), goal=goal, force=force, across_threads=across_threads)
    store = Store(results, machine.name())

    def stored() -> folder.Results:
        return folder.stored(store, margin=goal.aims.margin, tasks={cell.task for cell in cells})

    try:
        with (
            progress.observer(Console(stderr=True), None if model else lambda: stored().of(cells)) as observer,
            Heeding(observer) as watch,
        ):
            Sweep(store, settings, watch).run(cells)
            watch.heed()
    except KeyboardInterrupt:
        options.say("interrupted; everything finished is kept, and the same command goes on from there")
        raise typer.Exit(INTERRUPTED) from None
    found = stored()
    shown = found.of(cells)
    if across_threads:
        typer.echo(sweep_tables("threads", found, shown, "table"), nl=False)
    else:
        print_table(shown)
    if not across_threads:
        typer.echo(by_size.render(families(found.measurements, shown), format="table"), nl=False)
        options.say(next_step.after(shown, sizes=sizes, results=results))
        if not next_step.is_measured(shown):
            raise typer.Exit(1)
    if strict and any(row.status == "failed" or row.fidelity == "broken" for row in shown):
        raise typer.Exit(1)
