"""`bench pick`: the deployment to ship under constraints, saved with what it takes to run it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.api.errors import InputError
from bench.cli import options, units, waiting

UNDECIDED = 1
"""Exit code where the outcome is none."""
REPEATED = (
    *("max_metric_drop", "max_size", "max_memory", "max_latency", "max_ttft", "min_tokens_per_s", "batch", "threads"),
    "margin",
)
"""Options that a command which is advised repeats as they were given."""


def pick(
    ctx: typer.Context,
    globs: Annotated[
        list[str],
        typer.Argument(help="A task, or cells of one, as globs over their paths.", show_default=False, metavar="TASK"),
    ],
    *,
    max_metric_drop: Annotated[
        str,
        typer.Option(
            help="The most that may be lost of the metric, with 95 % confidence: a share, or dB of a metric in dB; any "
            "for no limit."
        ),
    ] = options.MAX_METRIC_DROP,
    max_size: Annotated[str | None, typer.Option(help="Largest file, such as 10MB.")] = None,
    max_memory: Annotated[
        str | None, typer.Option(help="Most memory that the process may take, its packages included, such as 300MiB.")
    ] = None,
    max_latency: Annotated[str | None, typer.Option(help="Largest median latency, such as 5ms.")] = None,
    max_ttft: Annotated[
        str | None, typer.Option(help="Of a decoder: largest median time to first token, such as 50ms.")
    ] = None,
    min_tokens_per_s: Annotated[
        float | None, typer.Option(min=1e-6, help="Of a decoder: least rate of output tokens, such as 300.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Batch of the request; the one with most results by default.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads of the request; by default the fewest, unless more are faster.")
    ] = None,
    tolerance: options.Tolerance = "5%",
    margin: options.Margin = "2%",
    format: options.Plain = "table",
    everywhere: Annotated[
        bool,
        typer.Option(
            "--everywhere", help="One deployment for all machines whose results are in the folder; saves nothing."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what to ship, and save nothing.")] = False,
    results: options.Results = options.RESULTS,
    output: Annotated[
        Path | None, typer.Option(help="Folder to save it in; picks/TASK in the folder of the results by default.")
    ] = None,
) -> None:
    """The deployment to ship under constraints: its artifact, how it was made and code that runs it.

    Of the cells that are fast enough for sure, the smallest (winner); or the model as it is, where nothing is shown to
    be faster (keep). Otherwise it exits with 1 and says what would decide (none).
    """
    from bench.decisions import answer as answering
    from bench.decisions import deployment, load, open_sizes, ports
    from bench.decisions.constraints import Constraints
    from bench.measure.limits import Limits
    from bench.records.warnings import warnings
    from bench.report import outcome, writing
    from bench.report import pick as report

    constraints = Constraints(
        max_metric_loss=None if max_metric_drop == options.NO_LIMIT else units.allowed_loss(max_metric_drop),
        max_size_bytes=units.size_bytes(max_size) if max_size else None,
        max_memory_bytes=units.size_bytes(max_memory) if max_memory else None,
        max_latency_ns=1e9 * units.seconds(max_latency) if max_latency else None,
        max_ttft_ns=1e9 * units.seconds(max_ttft) if max_ttft else None,
        min_tokens_per_s=min_tokens_per_s,
    )
    if everywhere and format == "json":
        raise InputError("--everywhere prints a table alone", fix="leave out --format json")
    if everywhere:
        from bench.decisions import everywhere as deciding_everywhere
        from bench.report import everywhere as everywhere_report

        every = options.read_all(results, margin=units.share(margin))
        of_each = {name: one.chosen(globs) for name, one in every.items()}
        of_each = deciding_everywhere.of_one_request(of_each, batch, threads)
        options.write(everywhere_report.render(deciding_everywhere.choose(every, of_each, constraints)), None)
        return
    most = units.share(tolerance)
    stored = options.read(results, margin=units.share(margin))
    rows = answering.of_one_batch(stored.chosen(globs), batch, threads)
    options.say_notes([*warnings(rows), *options.unnamed_limits(max_metric_drop, rows)])
    with waiting.reporting(f"comparing {len(rows)} cells", options.say):
        found = answering.answer(stored.measurements, rows, constraints, tolerance=most)
    choice, fields, saved = found.choice, outcome.fields(found), []
    plan = load.plan_of(stored.records, choice.group.task)
    record = stored.records[choice.shipped.cell] if choice.shipped else None
    if format == "table":
        is_fixed = record is not None and open_sizes.freezes(record.cell)
        sizes = ports.fixed_sizes(record, deployment.task_of(record)) if record and is_fixed else ""
        given = _given(ctx.command.params, ctx.params)
        command = shlex.join(["bench", "pick", *globs, *given])
        text = report.verdict(found, command, outcome.results_option(results), sizes)
        options.write("".join([report.front(found), report.services(choice, plan), text]), None)
    if choice.shipped is not None and record is not None and not dry_run:
        target = output or results / "picks" / choice.shipped.task
        limits = Limits.of(step_s=None, memory_bytes=None)
        unit = choice.shipped.metric_loss_unit
        asked = {option: limit for option, (_, limit) in constraints.limits(unit).items()}
        request = {**deployment.with_units(asked, unit), "--tolerance": most}
        served = None if plan is None else load.as_service(plan, record.cell)
        with waiting.reporting("making the artifact again", options.say):
            saved = deployment.save(
                target, choice.shipped, record, request=request, limits=limits, service=served, outcome=fields
            )
        if format == "table":
            options.tell("", f"saved in {target}: {', '.join(path.name for path in saved)}")
            options.tell(f"  python {saved[-1]}   runs it on the held-out samples")
    if format == "json":
        options.write(writing.as_json({**fields, "saved": [str(path) for path in saved]}), None)
    if choice.shipped is None:
        raise typer.Exit(UNDECIDED)


def _given(known: Iterable[Any], values: Mapping[str, Any]) -> list[str]:
    """The options of `REPEATED` that have another value than their default, as they stand on a command line."""
    found = [
        (one.opts[0], values[one.name]) for one in known if one.name in REPEATED and values[one.name] != one.default
    ]
    return [part for option, value in found for part in (option, str(value))]
