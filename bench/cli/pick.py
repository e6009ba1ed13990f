"""`bench pick`: the deployment to ship under constraints, saved with what it takes to run it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bench.api.errors import InputError
from bench.cli import options, units, waiting

if TYPE_CHECKING:
    from bench.decisions.answer import Answer
    from bench.decisions.constraints import Constraints
    from bench.records.folder import Results
    from bench.report.pick import Addition

UNDECIDED = 1
"""Exit code where the outcome is none."""
_REPEATED = (
    *("max_metric_drop", "max_size", "max_memory", "max_latency", "max_ttft", "min_tokens_per_s", "batch", "threads"),
    "margin",
)
"""Options that a command which is advised repeats as they were given."""

Globs = Annotated[
    list[str],
    typer.Argument(help="A task, or cells of one, as globs over their paths.", show_default=False, metavar="TASK"),
]
_MaxMetricDrop = Annotated[
    str,
    typer.Option(
        help="The most that may be lost of the metric, with 95 % confidence: a share, or dB of a metric in dB; any "
        "for no limit."
    ),
]
_MaxSize = Annotated[str | None, typer.Option(help="Largest file, such as 10MB.")]
_MaxMemory = Annotated[
    str | None, typer.Option(help="Most memory that the process may take, its packages included, such as 300MiB.")
]
_MaxLatency = Annotated[str | None, typer.Option(help="Largest median latency, such as 5ms.")]
_MaxTtft = Annotated[str | None, typer.Option(help="Of a decoder: largest median time to first token, such as 50ms.")]
_MinTokens = Annotated[
    float | None, typer.Option(min=1e-6, help="Of a decoder: least rate of output tokens, such as 300.")
]
_Batch = Annotated[int | None, typer.Option(help="Batch of the request; the one with most results by default.")]
_Threads = Annotated[
    int | None, typer.Option(help="Threads of the request; by default the fewest, unless more are faster.")
]
_Everywhere = Annotated[
    bool,
    typer.Option(
        "--everywhere", help="One deployment for all machines whose results are in the folder; saves nothing."
    ),
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what to ship, and save nothing.")]
Target = Annotated[
    Path | None, typer.Option(help="Folder to save it in; picks/TASK in the folder of the results by default.")
]


def pick(
    ctx: typer.Context,
    globs: Globs,
    *,
    max_metric_drop: _MaxMetricDrop = options.MAX_METRIC_DROP,
    max_size: _MaxSize = None,
    max_memory: _MaxMemory = None,
    max_latency: _MaxLatency = None,
    max_ttft: _MaxTtft = None,
    min_tokens_per_s: _MinTokens = None,
    batch: _Batch = None,
    threads: _Threads = None,
    tolerance: options.Tolerance = "5%",
    margin: options.Margin = "2%",
    format: options.Plain = "table",
    everywhere: _Everywhere = False,
    dry_run: _DryRun = False,
    browser: options.Browser = None,
    results: options.Results = options.RESULTS,
    output: Target = None,
) -> None:
    """The deployment to ship under constraints: its artifact, how it was made and code that runs it.

    Of the cells that are fast enough for sure, the smallest (winner); or the model as it is, where nothing is shown to
    be faster (keep). Otherwise it exits with 1 and says what would decide (none).
    """
    from bench.api import features
    from bench.decisions import answer as answering
    from bench.decisions.constraints import Constraints
    from bench.records.warnings import warnings

    constraints = Constraints(
        max_metric_loss=None if max_metric_drop == options.NO_LIMIT else units.allowed_loss(max_metric_drop),
        max_size_bytes=units.size_bytes(max_size) if max_size else None,
        max_memory_bytes=units.size_bytes(max_memory) if max_memory else None,
        max_latency_ns=1e9 * units.seconds(max_latency) if max_latency else None,
        max_ttft_ns=1e9 * units.seconds(max_ttft) if max_ttft else None,
        min_tokens_per_s=min_tokens_per_s,
    )
    if everywhere:
        _print_everywhere(ctx, results, globs, batch, threads, constraints, units.share(margin), format)
        return
    most = units.share(tolerance)
    stored = options.read(results, margin=units.share(margin))
    rows = answering.of_one_batch(stored.chosen(globs), batch, threads)
    options.say_notes([*warnings(rows), *options.unnamed_limits(max_metric_drop, rows)])
    with waiting.reporting(f"comparing {len(rows)} cells", options.say):
        answer = answering.answer(stored.measurements, rows, constraints, tolerance=most)
    additions = [module.addition(answer.choice, stored.records) for module in features.modules("deployment")]
    if format == "table":
        command = shlex.join(["bench", "pick", *globs, *_given(ctx.command.params, ctx.params)])
        options.write(_text(answer, stored, command, results, additions), None)
    saved: list[Path] = []
    if answer.choice.shipped is not None and not dry_run:
        target = output or results / "picks" / answer.choice.shipped.task
        saved = _save(target, answer, stored, constraints, most, additions)
    _print_saved(answer, saved, format)
    if answer.choice.shipped is None:
        raise typer.Exit(UNDECIDED)


def _print_everywhere(
    ctx: typer.Context,
    results: Path,
    globs: list[str],
    batch: int | None,
    threads: int | None,
    constraints: Constraints,
    margin: float,
    format: str,
) -> None:
    """Print the one deployment for all machines.

    Raises:
        InputError: another format than a table is asked for, or a tolerance, or there are no results.
    """
    from bench.decisions import across_machines as deciding
    from bench.report import across_machines as report

    if format == "json":
        raise InputError("--everywhere prints a table alone", fix="leave out --format json")
    if options.is_typed(ctx, "tolerance"):
        fix = "leave out --tolerance, and read each regret"
        raise InputError("--everywhere takes the smallest regret, whatever that is", fix=fix)
    every = options.read_all(results, margin=margin)
    of_each = {name: stored.chosen(globs) for name, stored in every.items()}
    of_each = deciding.of_one_request(of_each, batch, threads)
    options.write(report.render(deciding.choose(every, of_each, constraints)), None)


def _text(answer: Answer, stored: Results, command: str, results: Path, additions: Sequence[Addition]) -> str:
    """What is shipped and why, and what would decide where that is open, after a command that is repeated."""
    from bench.decisions import deployment, open_sizes, ports
    from bench.report import outcome
    from bench.report import pick as report

    choice = answer.choice
    record = stored.records[choice.shipped.cell] if choice.shipped else None
    is_fixed = record is not None and open_sizes.freezes(record.cell)
    sizes = ports.fixed_sizes(record, deployment.task_of(record)) if record and is_fixed else ""
    verdict = report.verdict(answer, command, outcome.results_option(results), sizes)
    return "".join([report.front(answer), *(addition.text for addition in additions), verdict])


def _save(
    target: Path,
    answer: Answer,
    stored: Results,
    constraints: Constraints,
    tolerance: float,
    additions: Sequence[Addition],
) -> list[Path]:
    """Save what is shipped; returns the files."""
    from bench.decisions import deployment
    from bench.measure.limits import Limits
    from bench.report import outcome

    shipped = answer.choice.shipped
    assert shipped is not None
    record = stored.records[shipped.cell]
    unit = shipped.metric_loss_unit
    limits = {option: limit for option, (_, limit) in constraints.limits(unit).items()}
    with waiting.reporting("making the artifact again", options.say):
        return deployment.save(
            target,
            shipped,
            record,
            request={**deployment.with_units(limits, unit), "--tolerance": tolerance},
            limits=Limits.of(step_s=None, memory_bytes=None),
            service=next((addition.service for addition in additions if addition.service), None),
            outcome=outcome.fields(answer),
        )


def _print_saved(answer: Answer, saved: list[Path], format: str) -> None:
    """Print where a deployment was saved and how to run it, or the whole answer as JSON."""
    from bench.report import outcome, writing

    if format == "json":
        options.write(writing.as_json({**outcome.fields(answer), "saved": [str(path) for path in saved]}), None)
    elif saved:
        options.tell("", f"saved in {saved[-1].parent}: {', '.join(path.name for path in saved)}")
        options.tell(f"  {options.interpreter()} {saved[-1]}   runs it on the held-out samples")


def _given(known: Iterable[Any], values: Mapping[str, Any]) -> list[str]:
    """The options of `_REPEATED` that have another value than their default, as they stand on a command line."""
    pairs = [
        (option.opts[0], values[option.name])
        for option in known
        if option.name in _REPEATED and values[option.name] != option.default
    ]
    return [part for option, value in pairs for part in (option, str(value))]
