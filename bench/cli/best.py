"""`bench best`: the fastest deployment of each task that keeps its metric."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.api.errors import InputError
from bench.cli import options, units, waiting


def best(
    *,
    max_metric_drop: Annotated[
        str,
        typer.Option(
            help="The most that may be lost of the metric, with 95 % confidence: a share, or dB of a metric in dB."
        ),
    ] = options.MAX_METRIC_DROP,
    tolerance: options.Tolerance = "5%",
    margin: options.Margin = "2%",
    format: options.Plain = "table",
    results: options.Results = options.RESULTS,
    into: Annotated[
        Path | None, typer.Option(help="Markdown file to write the table into, between its two marks.")
    ] = None,
) -> None:
    """The deployment to ship for each task, as `bench pick` answers, against each framework's default."""
    from bench.decisions.answer import answers
    from bench.decisions.best import best_of
    from bench.decisions.constraints import Constraints
    from bench.records import ranking
    from bench.records.warnings import warnings
    from bench.report import best as report
    from bench.report import outcome, writing

    if format == "json" and into is not None:
        raise InputError("--into takes the table alone, for it goes between two marks", fix="leave out --format json")
    most = units.allowed_loss(max_metric_drop)
    stored = options.read(results, margin=units.share(margin))
    rows = stored.chosen(None)
    options.say_notes([*warnings(rows), *options.unnamed_limits(max_metric_drop, rows)])
    share = units.share(tolerance)
    with waiting.reporting(f"comparing {len(stored.rows)} cells", options.say):
        answered = answers(stored.measurements, rows, Constraints(max_metric_loss=most), tolerance=share)
        deployments = best_of(stored.measurements, answered)
    if format == "json":
        options.write(writing.as_json([outcome.fields(each) for each in answered]), None)
    elif not deployments and into is None:  # no error: a sweep that was stopped early has none
        options.say(report.NOTHING)
    elif into is None:
        options.write(report.render(deployments, format="table"), None)
        options.say_notes(report.missing(deployments, ranking.select(rows).groups, max_metric_loss=most))
    else:
        whole = report.put_into(into, report.render(deployments, format="md"))
        options.write(whole.encode(), into)  # the rest of the text is the file's own
