"""`bench run`: measure cells of a sweep, or of a model of one's own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from bench.cli import options, units

if TYPE_CHECKING:
    from bench.api.cell import Cell
    from bench.cli.keeping import KeepingStore
    from bench.cli.run_output import Output
    from bench.pipeline.sweep import Sweep
    from bench.pipeline.sweep_options import Options

Elsewhere: TypeAlias = (
    "Callable[[Sequence[Cell], Options, Callable[[str], KeepingStore]], list[tuple[KeepingStore, Sweep]]]"
)
"""Runs a sweep of cells on other machines: from the settings, and what opens the store of a kind of machine, to the
store of each kind and its sweep."""
ELSEWHERE = "bench.elsewhere"
"""Where a feature's command that calls `run` puts an `Elsewhere` in the context."""

_Named = Annotated[
    str | None, typer.Option(help="A named sweep: quick, full, scaling, threads, generation, web, seed or everything.")
]
_Sizes = Annotated[
    list[str] | None,
    typer.Option(
        "--dim", help="Sizes to measure of a dimension of any size, as height=224,448 or batch=1,4.", metavar="TEXT"
    ),
]
_Budget = Annotated[
    str | None,
    typer.Option(help="Time for measuring, such as 10m; 15s a size by default with --model alone, else no limit."),
]
Margin = Annotated[str, typer.Option(help="Half-width of the ratio's interval to aim at.")]
_Launches = Annotated[int, typer.Option(min=1, help="Most launches of a cell.")]
_Force = Annotated[bool, typer.Option("--force", help="Measure again what is measured already.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the cells and stop.")]
_WholeSplit = Annotated[
    bool, typer.Option("--whole-split", help="Verify every cell with the whole held-out split, before timing any.")
]
_Total = Annotated[
    str | None, typer.Option(help="Time for the whole run, of which measuring gets what the other steps leave.")
]
_Strict = Annotated[bool, typer.Option("--strict", help="Exit with 1 when a row failed.")]


def run(
    ctx: typer.Context,
    globs: options.Globs = None,
    *,
    sweep: _Named = None,
    model: options.Own = None,
    dataset: options.Dataset = None,
    metric: options.Metric = None,
    judged: options.Judged = None,
    dim: _Sizes = None,
    shape: options.Shapes = None,
    trust: options.Trust = False,
    versions: options.With = None,
    python: options.Pythons = None,
    yes: options.Yes = False,
    browser: options.Browser = None,
    offline: options.Offline = False,
    budget: _Budget = None,
    margin: Margin = "2%",
    launches: _Launches = 16,
    timeout: options.Timeout = None,
    memory: options.Memory = None,
    results: options.Results = options.RESULTS,
    force: _Force = False,
    dry_run: _DryRun = False,
    whole_split: _WholeSplit = False,
    total: _Total = None,
    strict: _Strict = False,
) -> None:
    """Run a sweep, or measure one model; cells without an open question are not measured again.

    Exits with 1 when no cell could be timed, unless all are verified and are not to be timed.
    """
    from bench.cli import run_cells, run_output
    from bench.measure.block import Method
    from bench.measure.goal import Goal
    from bench.measure.questions import Aims
    from bench.onnxfile.shapes.size_options import axes_from
    from bench.pipeline.sweep_options import Options

    limits, total_s = units.limits(timeout, memory), units.seconds_of(total)
    axes, budget_s, is_elsewhere = axes_from(dim or ()), units.seconds_of(budget), bool(versions or python)
    request = run_cells.Request(globs=globs, sweep=sweep, axes=axes, budget_s=budget_s, runs_elsewhere=is_elsewhere)
    description = options.own_model(dataset, None, shape, trust, metric, judged, is_named=model is not None)
    if model is not None:
        model = options.here(model, trust, may_be_large=yes, is_offline=offline)
        choice = run_cells.of_model(model, description, request, limits, results)
    else:
        choice = run_cells.of_globs(request)
    cells = run_cells.elsewhere(request, choice.cells, versions, python, may_be_large=yes)
    if dry_run:
        options.tell(*(cell.path for cell in cells))
        return
    choice.keep_name(results)
    goal, method = Goal(aims=Aims(margin=units.share(margin)), max_launches=launches), Method(limits=limits)
    settings = choice.timed(Options(method=method, goal=goal, force=force, whole_split=whole_split), sweep, total_s)
    output = run_output.Output(cells, choice.sizes, results, settings, with_baselines=is_elsewhere)
    ran = _measure(ctx, settings, output, is_own=model is not None, may_be_large=yes)
    if sum(output.show(*each, strict=strict) for each in ran) < len(ran):
        raise typer.Exit(1)


def _measure(
    ctx: typer.Context, settings: Options, output: Output, *, is_own: bool, may_be_large: bool
) -> list[tuple[KeepingStore, Sweep]]:
    """Run a sweep here or elsewhere; returns the store of each kind of machine, and its sweep."""
    from bench.cli import progress
    from bench.cli.keeping import KeepingStore
    from bench.cli.stopping import Stopped, Stopping
    from bench.measure import machine
    from bench.pipeline.sweep import Sweep
    from bench.report.terminal import Console

    stopping = ctx.obj or Stopping()
    stores: list[KeepingStore] = []

    def opened(kind: str) -> KeepingStore:
        stores.append(KeepingStore(output.folder, kind, stopping))
        return stores[-1]

    with stopping.last_words():  # from the start: what waits for a worker ends later than most commands
        try:
            elsewhere: Elsewhere | None = ctx.meta.get(ELSEWHERE)
            if elsewhere is not None:
                return elsewhere(output.cells, settings, opened)
            options.make_environments(output.cells, may_be_large=may_be_large)
            store = opened(machine.name())
            rows = None if is_own else functools.partial(output.rows, store)
            with progress.observer(Console(stderr=True), rows, busy=machine.busy) as observer:
                sweep = Sweep(store, settings, observer)
                sweep.run(output.cells)
        except Stopped:
            for store in stores:
                output.show_standing(store)
            raise
    return [(store, sweep)]
