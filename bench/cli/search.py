"""`bench search`: the deployment that is fastest or smallest and keeps the metric, proposed rather than listed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from bench.cli import options, units

NOTHING_BETTER = 1
"""Exit code where nothing that was found is better than the fixed matrix."""


def search(
    ctx: typer.Context,
    task: Annotated[str | None, typer.Argument(help="A task.", show_default=False)] = None,
    *,
    model: options.Own = None,
    dataset: options.Dataset = None,
    metric: options.Metric = None,
    dim: options.Dims = None,
    shape: options.Shapes = None,
    trust: options.Trust = False,
    max_metric_drop: Annotated[
        str, typer.Option(help="The most that may be lost of the metric: a share, or dB of a metric in dB.")
    ] = options.MAX_METRIC_DROP,
    objective: Annotated[Literal["latency", "size", "memory"], typer.Option(help="What to make small.")] = "latency",
    batch: Annotated[int, typer.Option(min=1, help="Batch of the request.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Threads of the request.")] = 1,
    budget: Annotated[
        str, typer.Option(help="Time for the search, such as 20m; a step that has begun comes to its end.")
    ] = "20m",
    timeout: Annotated[str | None, typer.Option(help="Time for each step of a cell, such as 5m.")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory for each process, such as 4GiB.")] = None,
    results: options.Results = options.RESULTS,
    output: Annotated[
        Path | None, typer.Option(help="Folder to save the winner in, instead of one below picks/ of the results.")
    ] = None,
) -> None:
    """Search for the deployment that is fastest, or smallest, and keeps the metric.

    Each node's precision is chosen by what it was measured to save here and to cost in noise; the best proposals are
    confirmed beside the fixed matrix on held-out samples, which the search does not see. Exits with 1 where nothing
    beats the fixed matrix.
    """
    from bench.api.errors import InputError
    from bench.api.names import Role, TaskName
    from bench.cli import progress
    from bench.cli.keeping import KeepingStore
    from bench.cli.stopping import Stopping
    from bench.decisions import deployment
    from bench.decisions.constraints import METRIC, Constraints
    from bench.decisions.search import kept, whole
    from bench.graphs.shapes.given import axes_from
    from bench.measure import machine
    from bench.measure.block import Method
    from bench.measure.limits import Limits
    from bench.pipeline import sizing
    from bench.pipeline.sweep import Options
    from bench.records.warnings import warnings
    from bench.report import search as report
    from bench.report.figures import search_plots
    from bench.report.terminal import Console
    from bench.tasks import names
    from bench.tasks.probe import BATCH

    ends_s = time.monotonic() + units.seconds(budget)
    step_s = units.seconds(timeout) if timeout else None
    limits = Limits.of(step_s=step_s, memory_bytes=units.size_bytes(memory) if memory else None)
    given = options.own_model(dataset, None, shape, trust, metric, is_named=model is not None)
    axes = axes_from(dim or ())
    if (model is None) == (task is None):
        both = ", not both" if model is not None else ""
        raise InputError(f"name a task, or a model of your own with --model{both}")
    if task is not None and (name := TaskName.parse(task)).role in (Role.GENERATION, Role.DECODING_STEP):
        raise InputError(
            f"a search judges texts that are given: search for {name.model}, and run what it finds as {task}"
        )
    if axes and model is None:
        raise InputError("--dim is for a model of your own, named with --model")
    if several := [name for name, sizes in axes.items() if len(sizes) > 1 or name == BATCH]:
        raise InputError(f"--dim {several[0]}: a search is for one request; name one size, and the batch with --batch")
    if threads > machine.num_cores():
        raise InputError(f"--threads {threads} is more than the {machine.num_cores()} cores here")
    if model is not None:
        adopted, _ = sizing.adopted(options.here(model, trust), given, axes, limits, results=results)
        if adopted.chosen is not None:
            names.keep(results, adopted.chosen)
        options.say_notes(adopted.notes)
        task = adopted.name
    assert task is not None
    allowed = units.allowed_loss(max_metric_drop)
    constraints = Constraints(max_metric_loss=allowed)
    store = KeepingStore(results, machine.name(), ctx.obj or Stopping())
    settings = Options(method=Method(limits=limits), max_metric_loss=allowed)
    with progress.observer(Console(stderr=True)) as observer:
        request = (task, batch, threads)
        searched = whole.run(request, constraints, objective, ends_s, store, settings, observer, options.say)
    found, stored = searched.confirmed, searched.stored
    pictures = search_plots.draw(searched.outcomes, request, objective, stored.folder / "plots")
    tables = [report.front_table(one.proposals, objective) for one in searched.outcomes]
    options.write(report.render(found, tables), None)
    options.say_notes([*warnings(stored.rows), *options.unnamed_limits(max_metric_drop, stored.rows)])
    options.tell(*map(str, pictures))
    if searched.is_cut:
        options.say("the time was up while there was more to try; the same command goes on where this one ended")
    if found.winner is None or not found.is_searched:
        raise typer.Exit(NOTHING_BETTER)
    target = output or results / "picks" / kept.name_of(request, objective)
    unit = found.winner.metric_loss_unit
    asked = deployment.with_units({METRIC: allowed.of(unit)}, unit) | {"--objective": objective}
    saved = deployment.save(target, found.winner, stored.records[found.winner.cell], request=asked, limits=limits)
    options.tell("", f"saved in {target}: {', '.join(path.name for path in saved)}")
    if found.fixed is not None:
        options.tell(f"  bench explain '{found.winner.cell}' --vs '{found.fixed.cell}'   shows where they differ")
