"""`bench search`: the deployment that is fastest or smallest and keeps the metric, proposed rather than listed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bench.api.errors import InputError
from bench.cli import options, units

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.api.loss_units import AllowedLoss
    from bench.features.search.run import Searched
    from bench.measure.limits import Limits

_NOTHING_BETTER = 1
"""Exit code where nothing that was found is better than the fixed matrix."""

_MaxMetricDrop = Annotated[
    str, typer.Option(help="The most that may be lost of the metric: a share, or dB of a metric in dB.")
]
_Objective = Annotated[Literal["latency", "size", "memory"], typer.Option(help="What to make small.")]
_Batch = Annotated[int, typer.Option(min=1, help="Batch of the request.")]
_Threads = Annotated[int, typer.Option(min=1, help="Threads of the request.")]
_Budget = Annotated[str, typer.Option(help="Time for the search, such as 20m; a step that has begun comes to its end.")]
Target = Annotated[
    Path | None, typer.Option(help="Folder to save the winner in, instead of one below picks/ of the results.")
]


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
    max_metric_drop: _MaxMetricDrop = options.MAX_METRIC_DROP,
    objective: _Objective = "latency",
    batch: _Batch = 1,
    threads: _Threads = 1,
    budget: _Budget = "20m",
    browser: options.Browser = None,
    timeout: options.Timeout = None,
    memory: options.Memory = None,
    results: options.Results = options.RESULTS,
    output: Target = None,
) -> None:
    """Search for the deployment that is fastest, or smallest, and keeps the metric.

    Each node's precision is chosen by what it was measured to save here and to cost in noise; the best proposals are
    confirmed beside the fixed matrix on held-out samples, which the search does not see. Exits with 1 where nothing
    beats the fixed matrix.
    """
    from bench.cli import own, progress
    from bench.cli.keeping import KeepingStore
    from bench.cli.stopping import Stopping
    from bench.decisions.constraints import Constraints
    from bench.features.search import run, saved
    from bench.measure import machine
    from bench.measure.block import Method
    from bench.onnxfile.shapes.size_options import axes_from
    from bench.pipeline.sweep_options import Options
    from bench.report.terminal import Console

    if ctx.obj is not None:
        ctx.obj.keeps = True
    ends_s = time.monotonic() + units.seconds(budget)
    limits = units.limits(timeout, memory)
    description = options.own_model(dataset, None, shape, trust, metric, is_named=model is not None)
    axes = axes_from(dim or ())
    _check(task, model, axes, threads)
    if model is not None:
        task = own.adopted(options.here(model, trust), description, axes, limits, results)[0].name
    assert task is not None
    request = (task, batch, threads)
    allowed = units.allowed_loss(max_metric_drop)
    settings = Options(method=Method(limits=limits), max_metric_loss=allowed)
    store = KeepingStore(results, machine.name(), ctx.obj or Stopping())
    with progress.observer(Console(stderr=True)) as observer:
        searched = run.run(
            request, Constraints(max_metric_loss=allowed), objective, ends_s, store, settings, observer, options.say
        )
    _print(searched, request, objective, max_metric_drop)
    if searched.confirmed.winner is None or not searched.confirmed.is_searched:
        raise typer.Exit(_NOTHING_BETTER)
    _save(searched, output or results / "picks" / saved.name_of(request, objective), objective, allowed, limits)


def _check(task: str | None, model: Path | None, axes: Mapping[str, Sequence[int]], threads: int) -> None:
    """Refuse what is not one request that a search can answer.

    Raises:
        InputError: it is none; the message says why.
    """
    from bench.api.names import Role, TaskName
    from bench.measure import machine
    from bench.tasks.probe import BATCH

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
        raise InputError(
            f"--threads {threads} is more than the {machine.num_cores()} cores here",
            fix=f"name 1 to {machine.num_cores()}",
        )


def _print(searched: Searched, request: tuple[str, int, int], objective: str, max_metric_drop: str) -> None:
    """Print the tables of a search and the paths of its pictures."""
    from bench.features.search import figures
    from bench.features.search import render as report
    from bench.records.warnings import warnings

    stored = searched.stored
    pictures = figures.draw(searched.outcomes, request, objective, stored.folder / "plots")
    tables = [report.front_table(outcome.proposals, objective) for outcome in searched.outcomes]
    options.write(report.render(searched.confirmed, tables), None)
    options.say_notes([*warnings(stored.rows), *options.unnamed_limits(max_metric_drop, stored.rows)])
    options.tell(*map(str, pictures))
    if searched.is_cut:
        options.say("the time was up while there was more to try; the same command goes on where this one ended")


def _save(searched: Searched, target: Path, objective: str, allowed: AllowedLoss, limits: Limits) -> None:
    """Save the winner as a deployment, and say where."""
    from bench.decisions import deployment
    from bench.decisions.constraints import METRIC

    winner, fixed = searched.confirmed.winner, searched.confirmed.fixed
    assert winner is not None
    unit = winner.metric_loss_unit
    request = deployment.with_units({METRIC: allowed.of(unit)}, unit) | {"--objective": objective}
    record = searched.stored.records[winner.cell]
    saved = deployment.save(target, winner, record, request=request, limits=limits)
    options.tell("", f"saved in {target}: {', '.join(path.name for path in saved)}")
    if fixed is not None:
        options.tell(f"  bench explain '{winner.cell}' --vs '{fixed.cell}'   shows where they differ")


COMMANDS = {"Decide": {"search": search}}
"""The command, under its heading of `bench --help`."""
