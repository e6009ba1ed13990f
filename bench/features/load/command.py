"""`bench load`: cells as services, under the arrivals of many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from bench.api.errors import InputError
from bench.cli import options, units

if TYPE_CHECKING:
    from pathlib import Path

    from bench.api.cell import Cell
    from bench.cli.keeping import KeepingStore
    from bench.features.load.sweep import Asked
    from bench.measure.limits import Limits
    from bench.tasks.adopt import Options as Own

_BOUNDS_IN_RUN = 4
"""Bounds on the latency that a run lasts at least: in a shorter run no request waits so long."""

_PLANNED = ("scenario", "rate", "instances", "sessions", "max_batch", "max_delay", "idle")
"""Options that a plan takes no notice of."""

Scenarios = Annotated[
    list[str] | None,
    typer.Option(help="single_stream, multi_stream, server, offline or sporadic; server by default.", metavar="TEXT"),
]
Rate = Annotated[
    float | None,
    typer.Option(min=0.001, help="Requests a second; 0.7 times what the baseline can answer by default."),
]
Latency = Annotated[
    str | None, typer.Option(help="Bound on the latency, such as 20ms: the highest rate that keeps it is found.")
]
_Instances = Annotated[int, typer.Option(min=1, help="Worker processes of each service.")]
_Sessions = Annotated[
    int, typer.Option(min=1, help="Sessions of each worker; of a runtime that is not made for that, as many workers.")
]
_MaxBatch = Annotated[int, typer.Option(min=1, max=128, help="Most requests of an inference.")]
_MaxDelay = Annotated[
    str | None, typer.Option(help="Time that a request waits for others to share its inference, such as 2ms.")
]
_Baseline = Annotated[
    str | None, typer.Option(help="Path of the cell that the others are compared with; the task's by default.")
]
_Plan = Annotated[
    bool, typer.Option("--plan", help="Find the best split of the cores into workers, threads and batch.")
]
_Mlperf = Annotated[bool, typer.Option("--mlperf", help="Run each scenario as long as a submission to MLPerf.")]
_Idle = Annotated[str, typer.Option(help="Longest idleness of the sporadic scenario.")]
_Budget = Annotated[
    str, typer.Option(help="Time for comparing the cells of one request; a launch that has begun comes to its end.")
]
_Launches = Annotated[int, typer.Option(min=1, help="Launches of a service to compare.")]


def load(
    ctx: typer.Context,
    globs: options.Globs = None,
    *,
    model: options.Own = None,
    dataset: options.Dataset = None,
    metric: options.Metric = None,
    judged: options.Judged = None,
    dim: options.Dims = None,
    shape: options.Shapes = None,
    trust: options.Trust = False,
    scenario: Scenarios = None,
    rate: Rate = None,
    latency: Latency = None,
    instances: _Instances = 1,
    sessions: _Sessions = 1,
    max_batch: _MaxBatch = 1,
    max_delay: _MaxDelay = None,
    baseline: _Baseline = None,
    plan: _Plan = False,
    mlperf: _Mlperf = False,
    idle: _Idle = "10s",
    budget: _Budget = "5m",
    launches: _Launches = 4,
    browser: options.Browser = None,
    timeout: options.Timeout = None,
    memory: options.Memory = None,
    results: options.Results = options.RESULTS,
    format: options.Tables = "table",
) -> None:
    """Measure cells as services: MLPerf's scenarios one by one, then all in turns under the same arrivals.

    Exits with 1 where no service could be measured.
    """
    from bench.features.load.service import Setup
    from bench.features.load.serving import Batching
    from bench.features.load.sweep import Asked

    if ctx.obj is not None:
        ctx.obj.keeps = True
    scenarios, sporadic_s = _scenarios(scenario, idle)
    if plan:
        _check_plan(ctx, latency, baseline)
    bound_s, duration_s = _bound(latency, mlperf)
    wanted = Asked(
        scenarios=scenarios,
        sporadic=sporadic_s,
        rate=rate,
        latency_ns=None if bound_s is None else 1e9 * bound_s,
        duration_s=duration_s,
        setup=Setup(instances=instances, sessions=sessions, batching=Batching(most=max_batch, delay_ns=_ns(max_delay))),
        most_launches=launches,
        budget_s=units.seconds(budget),
    )
    limits = units.limits(timeout, memory)
    description = options.own_model(dataset, None, shape, trust, metric, judged, is_named=model is not None)
    cells = _cells(globs, dim, model if model is None else options.here(model, trust), description, limits, results)
    store = _measure(ctx, cells, wanted, limits, results, baseline=baseline, plan=plan)
    if not _print(store, cells, format, plan=plan):
        raise typer.Exit(1)


def _ns(duration: str | None) -> int:
    """A duration of an option in nanoseconds; 0 without it."""
    return int(1e9 * units.seconds(duration)) if duration else 0


def _scenarios(scenario: Sequence[str] | None, idle: str) -> tuple[list[str], float | None]:
    """The scenarios of MLPerf, and the longest idleness of the sporadic scenario in seconds; None without it.

    Raises:
        InputError: there is no such scenario, or MLPerf's load generator is not installed.
    """
    from bench.features.load import loadgen, sporadic

    loadgen.require()
    names = list(dict.fromkeys(scenario or [loadgen.SERVER]))
    known = (*loadgen.SCENARIOS, sporadic.SCENARIO)
    if unknown := [name for name in names if name not in known]:
        raise InputError(f"no scenario {unknown[0]!r}; there are {', '.join(known)}")
    others = [name for name in names if name != sporadic.SCENARIO]
    return others, units.seconds(idle) if sporadic.SCENARIO in names else None


def _check_plan(ctx: typer.Context, latency: str | None, baseline: str | None) -> None:
    """Refuse options that a plan chooses for itself, and a plan without a bound on the latency."""
    if baseline is not None:
        raise InputError(
            f"--plan compares with the way that answers most requests a second, not with {baseline}",
            fix="leave out --baseline",
        )
    if ignored := [name for name in _PLANNED if options.is_typed(ctx, name)]:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in ignored)
        raise InputError(f"--plan chooses {named} for itself, and takes none", fix=f"leave out {named}")
    if latency is None:
        raise InputError("--plan needs a bound on the latency, such as --latency 20ms")


def _bound(latency: str | None, mlperf: bool) -> tuple[float | None, float]:
    """The bound on the latency, None without one, and how long each run lasts, both in seconds.

    Raises:
        InputError: the bound is too long for the runs.
    """
    from bench.features.load import scenarios

    duration_s = scenarios.SUBMISSION_S if mlperf else scenarios.USUAL_S
    bound_s = units.seconds_of(latency)
    if bound_s is not None and _BOUNDS_IN_RUN * bound_s > duration_s:
        raise InputError(
            f"--latency {latency} is too long for runs of {duration_s:g} s: at most a quarter of them",
            fix="a time without a unit is in seconds; write 20ms for milliseconds",
        )
    return bound_s, duration_s


def _cells(
    globs: Sequence[str] | None,
    dim: list[str] | None,
    model: Path | None,
    description: Own,
    limits: Limits,
    results: Path,
) -> list[Cell]:
    """The cells that globs name, or those of a model of one's own at batch 1 and one thread."""
    from bench.cli import own
    from bench.features.load.sweep import servable
    from bench.onnxfile.shapes.size_options import axes_from
    from bench.pipeline import selection

    axes = axes_from(dim or ())
    if model is not None:
        adopted, axes = own.adopted(model, description, axes, limits, results)
        globs = [adopted.glob(pattern) for pattern in globs or ["*/b1t1"]]
    return servable(selection.select(globs or [], None, axes=axes, say=options.say), say=options.say)


def _measure(
    ctx: typer.Context,
    cells: Sequence[Cell],
    wanted: Asked,
    limits: Limits,
    results: Path,
    *,
    baseline: str | None,
    plan: bool,
) -> KeepingStore:
    """Measure the cells as services; returns the store of the results.

    Raises:
        InputError: the baseline answers another request than the cells.
    """
    from bench.api.cell import Cell
    from bench.cli import progress
    from bench.cli.keeping import KeepingStore
    from bench.cli.stopping import Stopping
    from bench.features.load.plan import Plan
    from bench.features.load.sweep import Services, notes_on_several, servable
    from bench.measure import machine
    from bench.measure.block import Method
    from bench.pipeline.sweep import Sweep
    from bench.pipeline.sweep_options import Options
    from bench.report.terminal import Console

    chosen = Cell.from_path(baseline) if baseline else None
    if chosen is not None:
        servable([chosen], say=options.say)
    if chosen is not None and all(cell.group != chosen.group for cell in cells):
        raise InputError(f"--baseline {chosen} answers another request than the cells")
    if plan or wanted.setup.at_once > 1:
        options.say_notes(notes_on_several(cells))
    store = KeepingStore(results, machine.name(), ctx.obj or Stopping())
    settings = Options(method=Method(limits=limits), baseline=chosen)
    with progress.observer(Console(stderr=True)) as observer:
        services = (Plan if plan else Services)(store, limits, observer, wanted)
        Sweep(store, settings, observer, measure=services.measure).run(cells)
    return store


def _print(store: KeepingStore, cells: Sequence[Cell], format: str, *, plan: bool) -> bool:
    """Print the table of the services, and draw them; returns whether one was measured."""
    from bench.features.load import plots, render
    from bench.features.load import turns as decisions
    from bench.features.load.lines import runs_of, sporadic_of
    from bench.records import folder
    from bench.records.warnings import warnings

    stored = folder.stored(store, tasks={str(cell.task) for cell in cells})
    turns = decisions.newest(decisions.turns(stored.records), cells, plan=plan)
    shown = dict.fromkeys((*(turn.baseline.cell for turn in turns), *cells))
    records = [stored.records[cell.path] for cell in shown if cell.path in stored.records]
    options.write(render.render(records, turns, format=format, margin=stored.margin), None)
    options.say_notes(warnings(stored.of(cells)))
    if not turns and not any(sporadic_of(record) or any(run.figures for run in runs_of(record)) for record in records):
        options.say("no service could be measured; the table and `bench show` say why")
        return False
    pictures = plots.draw(records, turns, stored.folder / "plots")
    if format == "table":  # in the other formats the table alone is a whole document
        options.tell(*map(str, pictures))
    return True


COMMANDS = {"Measure": {"load": load}}
"""The command, under its heading of `bench --help`."""
