"""`bench run`: measure cells of a sweep, or of a model of one's own."""

from __future__ import annotations

from typing import Annotated

import typer

from bench.cli import options, units

FIRST_TABLE = "30s"
"""Time for measuring a model of one's own, unless `--budget` is given."""
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
    dim: options.Dims = None,
    shape: options.Shapes = None,
    trust: options.Trust = False,
    budget: Annotated[
        str | None,
        typer.Option(help="Time for measuring, such as 10m; 30s by default with --model alone, else no limit."),
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
    from bench.cli import progress
    from bench.cli.interrupts import Heeding
    from bench.cli.show import print_table, sweep_tables
    from bench.measure import machine
    from bench.measure.block import Method
    from bench.measure.limits import Limits
    from bench.measure.questions import Aims
    from bench.measure.rounds import Goal
    from bench.pipeline import sweeps
    from bench.pipeline.sweep import Options, Sweep
    from bench.records import folder
    from bench.records.ranking import is_timed
    from bench.records.store import Store
    from bench.tasks import adopt

    given = options.own_model(dataset, dim, shape, trust, is_named=model is not None)
    if model is not None:
        adopted = adopt.adopt(model, given)
        options.say_notes(adopted.notes)
        if not globs and sweep is None:
            sweep, budget = "full", budget or FIRST_TABLE
        globs = [f"{adopted.name}/{glob}" for glob in globs or ["*"]]
    for name in dict.fromkeys(glob.partition("/")[0] for glob in globs or []):
        if name not in loading.find("models"):
            adopt.recall(name)  # a model of one's own, measured before
    cells = sweeps.select(globs or [], sweep)
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
    if not across_threads and not any(is_timed(row) or row.same_as for row in shown):
        options.say("no cell could be timed; the table says why")
        raise typer.Exit(1)
    if strict and any(row.status == "failed" or row.fidelity == "broken" for row in shown):
        raise typer.Exit(1)
