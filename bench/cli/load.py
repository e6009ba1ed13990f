"""`bench load`: cells as services, under the arrivals of many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from bench.cli import options, units

BOUNDS_IN_RUN = 4
"""Bounds on the latency that a run lasts at least: in a shorter run no request waits so long."""

PLANNED = ("scenario", "rate", "instances", "sessions", "max_batch", "max_delay", "idle")
"""Options that a plan takes no notice of."""


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
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            help="single_stream, multi_stream, server, offline or sporadic; server by default.", metavar="TEXT"
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(min=0.001, help="Requests a second; 0.7 times what the baseline can answer by default."),
    ] = None,
    latency: Annotated[
        str | None, typer.Option(help="Bound on the latency, such as 20ms: the highest rate that keeps it is found.")
    ] = None,
    instances: Annotated[int, typer.Option(min=1, help="Worker processes of each service.")] = 1,
    sessions: Annotated[
        int,
        typer.Option(min=1, help="Sessions of each worker; of a runtime that is not made for that, as many workers."),
    ] = 1,
    max_batch: Annotated[int, typer.Option(min=1, max=128, help="Most requests of an inference.")] = 1,
    max_delay: Annotated[
        str | None, typer.Option(help="Time that a request waits for others to share its inference, such as 2ms.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Path of the cell that the others are compared with; the task's by default.")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Find the best split of the cores into workers, threads and batch.")
    ] = False,
    mlperf: Annotated[
        bool, typer.Option("--mlperf", help="Run each scenario as long as a submission to MLPerf.")
    ] = False,
    idle: Annotated[str, typer.Option(help="Longest idleness of the sporadic scenario.")] = "10s",
    budget: Annotated[
        str, typer.Option(help="Time for comparing the cells of one request; a launch that has begun comes to its end.")
    ] = "5m",
    launches: Annotated[int, typer.Option(min=1, help="Launches of a service to compare.")] = 4,
    timeout: Annotated[str | None, typer.Option(help="Time for each step of a cell, such as 5m.")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory for each process, such as 4GiB.")] = None,
    results: options.Results = options.RESULTS,
    format: options.Tables = "table",
) -> None:
    """Measure cells as services: MLPerf's scenarios one by one, then all in turns under the same arrivals.

    Exits with 1 where no service could be measured.
    """
    from bench.api.cell import Cell
    from bench.api.errors import InputError
    from bench.cli import progress
    from bench.cli.keeping import KeepingStore
    from bench.cli.stopping import Stopping
    from bench.decisions import load as decisions
    from bench.graphs.shapes.given import axes_from
    from bench.measure import machine
    from bench.measure.block import Method
    from bench.measure.limits import Limits
    from bench.measure.load import loadgen, scenarios, sporadic
    from bench.measure.load.service import Setup
    from bench.measure.load.serving import Batching
    from bench.pipeline import sizing, sweeps
    from bench.pipeline.load import Asked, LoadSweep, notes_on_several
    from bench.pipeline.plan import PlanSweep
    from bench.pipeline.sweep import Options
    from bench.records import folder
    from bench.records.warnings import warnings
    from bench.report import load as report
    from bench.report.figures import load_plots
    from bench.report.terminal import Console
    from bench.tasks import names

    loadgen.require()
    wanted = list(dict.fromkeys(scenario or [loadgen.SERVER]))
    known = (*loadgen.SCENARIOS, sporadic.SCENARIO)
    if unknown := [name for name in wanted if name not in known]:
        raise InputError(f"no scenario {unknown[0]!r}; there are {', '.join(known)}")
    if plan and baseline is not None:
        raise InputError("--plan compares with the way that answers most requests a second: leave out --baseline")
    if plan and (ignored := _chosen(ctx, PLANNED)):
        raise InputError(f"--plan chooses for itself: leave out {ignored}")
    if plan and latency is None:
        raise InputError("--plan needs a bound on the latency, such as --latency 20ms")
    step_s = units.seconds(timeout) if timeout else None
    limits = Limits.of(step_s=step_s, memory_bytes=units.size_bytes(memory) if memory else None)
    given = options.own_model(dataset, None, shape, trust, metric, judged, is_named=model is not None)
    axes = axes_from(dim or ())
    if model is not None:
        adopted, axes = sizing.adopted(options.here(model, trust), given, axes, limits, results=results)
        if adopted.chosen is not None:
            names.keep(results, adopted.chosen)
        options.say_notes(adopted.notes)
        globs = [adopted.glob(pattern) for pattern in globs or ["*/b1t1"]]
    cells = sizing.at_sizes(sweeps.select(globs or [], None), axes)
    chosen = Cell.from_path(baseline) if baseline else None
    if chosen is not None and all(cell.group != chosen.group for cell in cells):
        raise InputError(f"--baseline {chosen} answers another request than the cells")
    duration_s = scenarios.SUBMISSION_S if mlperf else scenarios.USUAL_S
    bound_s = units.seconds(latency) if latency else None
    if bound_s is not None and BOUNDS_IN_RUN * bound_s > duration_s:
        raise InputError(
            f"--latency {latency} is too long for runs of {duration_s:g} s: at most a quarter of them",
            fix="a time without a unit is in seconds; write 20ms for milliseconds",
        )
    delay_ns = int(1e9 * units.seconds(max_delay)) if max_delay else 0
    asked = Asked(
        scenarios=[name for name in wanted if name != sporadic.SCENARIO],
        sporadic=units.seconds(idle) if sporadic.SCENARIO in wanted else None,
        rate=rate,
        latency_ns=1e9 * bound_s if bound_s is not None else None,
        duration_s=duration_s,
        setup=Setup(instances=instances, sessions=sessions, batching=Batching(most=max_batch, delay_ns=delay_ns)),
        most_launches=launches,
        budget_s=units.seconds(budget),
    )
    if plan or asked.setup.at_once > 1:
        options.say_notes(notes_on_several(cells))
    store = KeepingStore(results, machine.name(), ctx.obj or Stopping())
    settings = Options(method=Method(limits=limits), baseline=chosen)
    with progress.observer(Console(stderr=True)) as observer:
        (PlanSweep if plan else LoadSweep)(store, settings, observer, asked).run(cells)
    stored = folder.stored(store, tasks={str(cell.task) for cell in cells})
    turns = decisions.newest(decisions.turns(stored.records), cells, plan=plan)
    shown = dict.fromkeys((*(one.baseline.cell for one in turns), *cells))
    records = [stored.records[cell.path] for cell in shown if cell.path in stored.records]
    options.write(report.render(records, turns, format=format, margin=stored.margin), None)
    options.say_notes(warnings(stored.of(cells)))
    if not turns and not any(record.sporadic or any(run.figures for run in record.load_runs) for record in records):
        options.say("no service could be measured; the table and `bench show` say why")
        raise typer.Exit(1)
    pictures = load_plots.draw(records, turns, stored.folder / "plots")
    if format == "table":  # in the other formats the table alone is a whole document
        options.tell(*map(str, pictures))


def _chosen(ctx: typer.Context, names: Sequence[str]) -> str:
    """Those of some options that were given on the command line."""
    given = [name for name in names if (source := ctx.get_parameter_source(name)) and source.name == "COMMANDLINE"]
    return ", ".join(f"--{name.replace('_', '-')}" for name in given)
