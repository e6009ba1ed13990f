"""`bench bisect`: the release of a package in which a cell became slower, or wrong."""

from __future__ import annotations

import math
import time
from typing import Annotated

import typer

from bench.cli import options, units

_NOT_WORSE = 1
"""Exit code where the bad release is not worse than the good one, or not clearly so."""


def bisect(
    ctx: typer.Context,
    package: Annotated[str, typer.Argument(help="Name of a package, such as onnxruntime.", show_default=False)],
    *,
    good: Annotated[str, typer.Option(help="A release that was fast and right.", show_default=False)],
    bad: Annotated[str, typer.Option(help="A later release that is not.", show_default=False)],
    cell: Annotated[str, typer.Option(help="The cell, or a glob that names one.", show_default=False)],
    slower: Annotated[str, typer.Option(help="How much slower the bad release is, as a share.")] = "5%",
    drift: Annotated[bool, typer.Option("--drift", help="Look for other outputs instead of a slowdown.")] = False,
    budget: Annotated[
        str | None, typer.Option(help="Time for the search; a release that has begun comes to its end.")
    ] = None,
    blame: options.Blame = False,
    yes: options.Yes = False,
    browser: options.Browser = None,
    timeout: Annotated[str | None, typer.Option(help="Time for each step of a cell, such as 5m.")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory for each process, such as 4GiB.")] = None,
    format: options.Plain = "table",
) -> None:
    """In which release did it become slower, or wrong? Each release is measured beside the good one, now.

    Nothing is stored. Measurements err, so a surprising one is repeated; the answer has the chance that it is wrong.
    Exits with 1 where the bad release is no worse than the good one, or not clearly so.
    """
    from bench.api import loading
    from bench.api.names import TaskName
    from bench.cli.stopping import Stopping
    from bench.features.bisect import bisecting, releases
    from bench.features.bisect import render as report
    from bench.measure.block import Method
    from bench.measure.limits import Limits
    from bench.pipeline import selection
    from bench.tasks import adopt

    name = TaskName.parse(cell.partition("/")[0]).model
    if name not in loading.find("models"):
        adopt.recall(name)  # a model of one's own, measured before
    chosen = bisecting.one_cell(selection.select([cell], None), package)
    names = releases.between(package, good, bad)
    ends_s = time.monotonic() + units.seconds(budget) if budget else math.inf
    step_s = units.seconds(timeout) if timeout else None
    by = units.share(slower)
    limits = Limits.of(step_s=step_s, memory_bytes=units.size_bytes(memory) if memory else None)
    options.say(f"{len(names)} releases from {good} to {bad}")
    measured = bisecting.Releases(package, chosen, names[0], Method(limits=limits), may_be_large=yes, tell=options.say)
    if drift:
        answer = bisecting.drifted(measured, names, package, chosen, tell=options.say, ends_s=ends_s)
    else:
        answer = bisecting.slower(measured, names, package, chosen, by=by, tell=options.say, ends_s=ends_s)
    with (ctx.obj or Stopping()).last_words():  # a Ctrl-C meanwhile does not lose what took longer
        try:
            if blame and answer.first_bad is not None:
                answer = bisecting.blamed(answer, measured, is_drift=drift, limits=limits, tell=options.say)
        finally:
            options.write(report.render(answer, format=format), None)
    if answer.first_bad is None:
        raise typer.Exit(_NOT_WORSE)


COMMANDS = {"Maintain": {"bisect": bisect}}
"""The command, under its heading of `bench --help`."""
