"""`bench run`: measure cells of a sweep, or of a model of one's own."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from bench.cli import options, units, waiting

if TYPE_CHECKING:
    from pathlib import Path

    from bench.api.cell import Cell
    from bench.cli.keeping import KeepingStore
    from bench.measure.goal import Goal
    from bench.pipeline.fleet.place import Machine
    from bench.pipeline.sweep import Options, Sweep
    from bench.records.folder import Results
    from bench.records.rows import Row

FIRST_TABLE_S = 15
"""Time for measuring a model of one's own, at each combination of sizes, unless `--budget` is given."""
FIRST_RUN_S = 27
"""Time for all steps together to end by then: on a slow machine, measuring gets less, see `Options.ends_s`."""
FIRST_CELLS = "*/b1t1"
"""The cells of the full sweep that are measured then: so short a time answers one request, not two."""


FLEET = "bench.fleet"
"""Where `bench fleet run` notes in the context the address of a fleet's head, and the fleet's machines."""


def run(
    ctx: typer.Context,
    globs: options.Globs = None,
    *,
    sweep: Annotated[
        str | None, typer.Option(help="A named sweep: quick, full, scaling, threads, generation, seed or everything.")
    ] = None,
    model: options.Own = None,
    dataset: options.Dataset = None,
    metric: options.Metric = None,
    judged: options.Judged = None,
    dim: Annotated[
        list[str] | None,
        typer.Option(
            "--dim", help="Sizes to measure of a dimension of any size, as height=224,448 or batch=1,4.", metavar="TEXT"
        ),
    ] = None,
    shape: options.Shapes = None,
    trust: options.Trust = False,
    versions: options.With = None,
    python: options.Pythons = None,
    yes: options.Yes = False,
    offline: options.Offline = False,
    budget: Annotated[
        str | None,
        typer.Option(help="Time for measuring, such as 10m; 15s a size by default with --model alone, else no limit."),
    ] = None,
    margin: Annotated[str, typer.Option(help="Half-width of the ratio's interval to aim at.")] = "2%",
    launches: Annotated[int, typer.Option(min=1, help="Most launches of a cell.")] = 16,
    timeout: Annotated[str | None, typer.Option(help="Time for each step of a cell, such as 5m.")] = None,
    memory: Annotated[
        str | None, typer.Option(help="Memory for each process, such as 4GiB; half of the machine's by default.")
    ] = None,
    results: options.Results = options.RESULTS,
    force: Annotated[bool, typer.Option("--force", help="Measure again what is measured already.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the cells and stop.")] = False,
    whole_split: Annotated[
        bool, typer.Option("--whole-split", help="Verify every cell with the whole held-out split, before timing any.")
    ] = False,
    total: Annotated[
        str | None, typer.Option(help="Time for the whole run, of which measuring gets what the other steps leave.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 when a row failed.")] = False,
) -> None:
    """Run a sweep, or measure one model; cells without an open question are not measured again.

    Exits with 1 when no cell could be timed.
    """
    from bench.api import loading
    from bench.api.names import TaskName
    from bench.cli import progress
    from bench.cli.keeping import KeepingStore
    from bench.cli.stopping import Stopped, Stopping
    from bench.graphs.shapes.given import axes_from
    from bench.measure import machine
    from bench.measure.block import Method
    from bench.measure.goal import Goal
    from bench.measure.limits import Limits
    from bench.measure.questions import Aims
    from bench.pipeline import replaced, sizing, sweeps
    from bench.pipeline.sweep import Options, Sweep
    from bench.plugins import catalog
    from bench.records import folder
    from bench.records.reading import told
    from bench.report.terminal import Console
    from bench.tasks import adopt, names

    axes = axes_from(dim or ())
    whole_s: float | None = None
    began_s = time.monotonic()
    step_s, budget_s, total_s = (units.seconds(text) if text else None for text in (timeout, budget, total))
    limits = Limits.of(step_s=step_s, memory_bytes=units.size_bytes(memory) if memory else None)
    given = options.own_model(dataset, None, shape, trust, metric, judged, is_named=model is not None)
    sizes: Mapping[str, int] = {}
    adopted: adopt.Adopted | None = None
    own: list[Cell] = []
    """The cells of a decoder of one's own, which is measured as it generates."""
    if model is not None:
        model = options.here(model, trust, may_be_large=yes, is_offline=offline)
        began_s = time.monotonic()  # the time of a download is not that of the run
        adopted, axes = sizing.adopted(model, given, axes, limits, results=results)
        options.say_notes(adopted.notes)
        sizes = getattr(catalog.task(adopted.name), "sizes", {})
        if not globs and sweep is None:
            sweep, globs = "full", [FIRST_CELLS]
            # Samples and sizes are those of a pass over all tokens.
            if not (axes or dataset or shape) and catalog.task(adopted.name).decoder is not None:
                own = sweeps.generating_cells(adopted.name)
            if budget_s is None:
                num_sizes = len({cell.task for cell in own}) if own else math.prod(map(len, axes.values()))
                budget_s = FIRST_TABLE_S * num_sizes
                whole_s = None if own else FIRST_RUN_S * num_sizes  # to verify texts takes minutes anyway
        globs = [adopted.glob(pattern) for pattern in globs or ["*"]]
    for name in dict.fromkeys(TaskName.parse(glob.partition("/")[0]).model for glob in globs or []):
        if name not in loading.find("models"):
            adopt.recall(name)  # a model of one's own, measured before
    cells = own or sizing.at_sizes(sweeps.select(globs or [], sweep), axes)
    cells = options.with_versions(cells, versions, python, may_be_large=yes)
    if dry_run:
        options.tell(*(cell.path for cell in cells))
        return
    if adopted is not None and adopted.chosen is not None:
        names.keep(results, adopted.chosen)
    if total_s is not None:
        budget_s, whole_s = min(budget_s or total_s, total_s), total_s
    goal = Goal(aims=Aims(margin=units.share(margin)), max_launches=launches, budget_s=budget_s)
    across_threads = sweep == sweeps.threads.__name__
    settings = Options(
        method=Method(limits=limits),
        goal=goal,
        force=force,
        across_threads=across_threads,
        ends_s=None if whole_s is None else began_s + whole_s,
        whole_split=whole_split or across_threads,
    )
    stopping = ctx.obj or Stopping()
    tell = _tell_threads if across_threads else functools.partial(_tell, results=results, goal=goal)

    def stored(store: KeepingStore) -> folder.Results:
        return folder.stored(store, margin=goal.aims.margin, tasks={str(cell.task) for cell in cells})

    def everything(store: KeepingStore) -> folder.Results:
        """All results, as `bench pick` reads them: what a run advises is what that command accepts."""
        with waiting.reporting("reading all results of this machine", options.say):
            return folder.stored(store, margin=goal.aims.margin)

    def told_of(store: KeepingStore, ran: Sweep) -> bool:
        """Print what is stored of the cells; returns whether that is what was asked for."""
        found = everything(store)
        options.say_notes(filter(None, [told(found.damages)]))
        shown = found.of([ran.exports.replaced.get(cell, cell) for cell in cells])
        if versions or python:  # whose cells are beside a baseline that nobody named
            shown = [*found.of(found.baselines_of(shown)), *shown]
        late = [*replaced.told(ran.exports.replaced), *_late(ran.left_out, shown, len(cells))]
        is_measured = tell(found, shown, sizes, late=late)
        return is_measured and not (strict and any(row.status == "failed" or row.fidelity == "broken" for row in shown))

    if FLEET in ctx.meta:
        stores = _on_fleet(ctx.meta[FLEET], cells, settings, lambda kind: KeepingStore(results, kind, stopping))
    else:
        store = KeepingStore(results, machine.name(), stopping)
        rows = None if model else lambda: stored(store).of(cells)
        try:
            with progress.observer(Console(stderr=True), rows, busy=machine.busy) as observer:
                sweep_here = Sweep(store, settings, observer)
                sweep_here.run(cells)
        except Stopped:
            with stopping.last_words():
                _tell_standing(stored(store).of(cells), len(cells))
            raise
        stores = [(store, sweep_here)]
    if sum(told_of(*each) for each in stores) < len(stores):
        raise typer.Exit(1)


def _on_fleet(
    fleet: tuple[str, Sequence[Machine]],
    cells: Sequence[Cell],
    settings: Options,
    store: Callable[[str], KeepingStore],
) -> list[tuple[KeepingStore, Sweep]]:
    """Run a sweep on each kind of machine of a fleet; returns the store of each kind, and its sweep."""
    from bench.cli import progress
    from bench.pipeline.fleet import driver
    from bench.report.terminal import Console

    address, machines = fleet
    stores = {kind: store(kind) for kind in driver.by_kind(machines)}
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


def _tell_standing(shown: Sequence[Row], total: int) -> None:
    """Print the table of the cells that were timed before a run was stopped, and how many are not in it."""
    from bench.cli.show import print_table

    timed = [row for row in shown if row.num_launches or row.same_as]
    if not timed:
        return
    print_table(timed)
    known = {row.cell for row in shown if row.status != "ok" or row.fidelity == "broken"}
    missing = total - len(known.union(row.cell for row in timed))
    if missing > 0:
        options.say(f"{missing} of {total} cells are not in this table: they were not timed yet")


def _late(left_out: Sequence[Cell], shown: Sequence[Row], total: int) -> list[str]:
    """What to say of cells for which there was no time, and which no earlier run timed, before a run's last lines."""
    from bench.pipeline import sweeps

    timed = {row.cell for row in shown if row.num_launches or row.same_as}
    missing = [cell for cell in left_out if cell.path not in timed]
    num_compiling = sum(map(sweeps.compiles, missing))
    gains = "no time was left, and by earlier or published results none of them is likely to be the fastest"
    reasons = {
        f"{gains}; a longer --total adds them": len(missing) - num_compiling,
        "each compiles for half a minute, and no time was left; a longer --total adds them": num_compiling,
    }
    return [f"{number} of {total} cells are not in the table: {why}" for why, number in reasons.items() if number]


def _tell(
    found: Results,
    shown: Sequence[Row],
    sizes: Mapping[str, int],
    *,
    results: Path,
    goal: Goal,
    late: Sequence[str] = (),
) -> bool:
    """Print the tables of a run, what is to be said besides and its last lines; return whether a cell was measured."""
    from bench.api.names import Role
    from bench.cli.show import print_table
    from bench.decisions.answer import of_run
    from bench.decisions.generation import deployments
    from bench.decisions.sizes import families
    from bench.records import noise
    from bench.records.warnings import warnings
    from bench.report import generated, next_step, shared, writing
    from bench.report import sizes as by_size

    print_table(shown)
    options.write(writing.paragraph([noise.said(found.measurements, shown)], "table"), None)
    decoders = deployments(found, shown)
    others = [row for row in shown if row.task_name.role is not Role.GENERATION]
    options.write(by_size.render(families(found.measurements, others), format="table"), None)
    if decoders:
        options.write(generated.render(decoders, format="table"), None)
    options.write(shared.render(found.measurements.places), None)
    options.say_notes([*warnings(shown), *late])
    answers = [of_run(found, task) for task in dict.fromkeys(row.task for row in shown)]
    options.say(*next_step.after(shown, sizes=sizes, results=results, answers=answers, goal=goal))
    return next_step.is_measured(shown)


def _tell_threads(found: Results, shown: Sequence[Row], sizes: Mapping[str, int], *, late: Sequence[str] = ()) -> bool:
    """Print the table of numbers of threads, or why there is none, and what to do next.

    Returns:
        Whether a cell was timed at some number of threads, or no cell has several to compare.
    """
    from bench.cli.show import print_table
    from bench.decisions.threads import scalings, sound
    from bench.report import next_step, threads

    records = sound(found, shown)
    has_launches = any(row.cell in records and records[row.cell].thread_launches for row in shown)
    if scaled := scalings(records, margin=found.margin):
        own = [row for row in found.rows if row.cell in records]
        options.write(threads.render(scaled, own, format="table"), None)
    else:
        print_table(shown)
    options.say_notes(late)
    if scaled:
        options.say(*next_step.of_threads(scaled))
    else:
        options.say(next_step.unscaled(shown, sizes, has_launches=has_launches))
    return bool(scaled) or has_launches or next_step.is_at_one_thread(shown)
