"""`bench check`: a pinned artifact against a new one, measured side by side now."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from bench.cli import options, units

_REGRESSION = 1
"""Exit code when the new artifact is slower by more than the tolerance, or wrong."""

_Pinned = Annotated[Path, typer.Argument(help="A folder that `bench pick` saved, or a model.", show_default=False)]
_New = Annotated[
    Path | None,
    typer.Argument(help="Model file to check; of a folder, the same cell is made anew.", show_default=False),
]
_Slower = Annotated[str, typer.Option(help="How much slower the new artifact may be, as a share.")]
_MaxMetricDrop = Annotated[
    str,
    typer.Option(
        help="The most that may be lost of the metric: a share, or dB of a metric in dB; without a metric, the "
        "largest share of error in the outputs."
    ),
]
_Version = Annotated[
    str | None, typer.Option("--with", help="Run the pinned artifact with this version, as onnxruntime==1.22.0.")
]
_Runtime = Annotated[str | None, typer.Option(help="Runtime for model files; the usual one by default.")]
_Provider = Annotated[str | None, typer.Option(help="Provider of the runtime.")]
_Batch = Annotated[int, typer.Option(min=1, help="Samples in one inference.")]
_Threads = Annotated[int, typer.Option(min=1, help="Threads of the runtime.")]
_Launches = Annotated[int, typer.Option(min=1, help="Most launches of each artifact.")]
_Budget = Annotated[str, typer.Option(help="Time after which no further launch is begun.")]
_Format = Annotated[Literal["line", "json"], typer.Option("--format", help="Format to print.")]


def check(
    pinned: _Pinned,
    new: _New = None,
    *,
    tolerance: _Slower = "2%",
    max_metric_drop: _MaxMetricDrop = options.MAX_METRIC_DROP,
    versions: _Version = None,
    yes: options.Yes = False,
    dataset: options.Dataset = None,
    metric: options.Metric = None,
    judged: options.Judged = None,
    dim: options.Dims = None,
    shape: options.Shapes = None,
    trust: options.Trust = False,
    browser: options.Browser = None,
    runtime: _Runtime = None,
    provider: _Provider = None,
    batch: _Batch = 1,
    threads: _Threads = 1,
    launches: _Launches = 12,
    budget: _Budget = "2m",
    format: _Format = "line",
) -> None:
    """Is the new artifact slower than the pinned one, or wrong? Both are measured now, side by side.

    Exits with 1 when it is slower by more than the tolerance, with 95 % confidence, or its outputs are wrong.
    """
    from bench.api.errors import InputError
    from bench.decisions import check as guard
    from bench.measure.block import Method
    from bench.measure.limits import Limits
    from bench.report import check as report

    pinned = options.here(pinned, trust, may_be_large=yes)
    new = options.here(new, trust, may_be_large=yes) if new is not None else None
    limits = Limits.of(step_s=None, memory_bytes=None)
    model_options = options.own_model(dataset, dim, shape, trust, metric, judged)
    how = {"runtime": runtime, "provider": provider, "batch": batch, "threads": threads}
    (pinned_with,) = options.environments([versions], None) if versions else (None,)
    if (pinned / "deployment.json").is_file():
        if new is not None:
            raise InputError(f"{pinned} says itself what to make anew; to compare with {new}, name its model file")
        if model_options != options.own_model(None, None, None, False) or (*how.values(),) != (None, None, 1, 1):
            raise InputError(f"{pinned} says itself how it is run; its cell is fixed")
        pair = guard.pair_of_pick(pinned, pinned_with=pinned_with, may_be_large=yes, limits=limits)
    elif new is None and pinned_with is None:
        raise InputError(f"{pinned} is no folder that `bench pick` saved; name the new model file, too")
    else:
        files = {"pinned": pinned, "new": new or pinned, "pinned_with": pinned_with, "may_be_large": yes}
        pair = guard.pair_of_files(**files, options=model_options, limits=limits, **how)  # type: ignore[arg-type]
    goal = guard.goal(tolerance=units.share(tolerance), max_launches=launches, budget_s=units.seconds(budget))
    max_metric_loss = units.allowed_loss(max_metric_drop)
    options.say_notes(pair.notes)
    outcome = guard.measure(pair, goal, Method(limits=limits), max_metric_loss=max_metric_loss)
    if format == "json":
        options.write(report.as_json(outcome, str(pair.new.cell)), None)
    else:
        options.tell(f"{pair.new.cell}: {report.line(outcome)}")
    if not outcome.passed:
        raise typer.Exit(_REGRESSION)
