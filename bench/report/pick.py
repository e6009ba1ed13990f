"""The text of `bench pick`: the front of the cells that qualify, and the picked cell or why no cell was picked."""

from __future__ import annotations

import math
import shlex
from pathlib import Path

from bench.api.cell import Cell
from bench.api.printable import printable
from bench.decisions import load as load_decisions
from bench.decisions.load import Turns
from bench.decisions.pick import METRIC, Choice, Constraints
from bench.measure.load.launch import HIGHEST
from bench.records import machines, ranking
from bench.report import load, writing
from bench.report.best import near_the_best
from bench.report.templates import fill

RESULTS = Path("results")
"""Folder of the results that commands take by default."""


def front(choice: Choice, constraints: Constraints) -> str:
    """How many cells qualify, and a table of the cells on the front, which no other cell beats."""
    ranked = sum(map(ranking.is_ranked, choice.group.rows))
    limits = f" and keep to {', '.join(constraints.limits())}" if constraints.limits() else ""
    title = (
        f"{choice.group.title}: {len(choice.qualified)} of {ranked} timed cells are right{limits}.\n"
        f"Of these, no other beats {len(choice.front)} in latency, size, memory and metric at once:"
    )
    notes = list(dict.fromkeys(row.metric_loss_note for row in choice.qualified if row.metric_loss_note))
    if METRIC in constraints.limits() and notes:
        why = printable("; ".join(notes))
        title = f"{METRIC} is held against the loss on the held-out samples, without a bound: {why}.\n{title}"
    lines = [
        [
            writing.milliseconds(row.latency_p50_ns),
            f"{writing.share(row.ratio)} [{writing.share(row.ratio_low)}, {writing.share(row.ratio_high)}]",
            writing.megabytes(row.size_bytes),
            writing.megabytes(row.peak_rss_bytes),
            writing.DASH if row.metric is None else f"{row.metric:.4g}",
        ]
        for row in choice.front
    ]
    metric_name = printable(next((row.metric_name for row in choice.front if row.metric_name), "metric"))
    titles = ["latency p50\n(ms)", "over the\nbaseline", "size\n(MB)", "peak memory\n(MB)", metric_name]
    names = [ranking.short_name(row) for row in choice.front]
    longest = writing.narrowest(names)
    if writing.room_for_names(titles, lines) < longest:  # then titles and intervals take more lines
        titles = [title.replace(" ", "\n") for title in titles]
        lines = [[text.replace(" [", "\n[") for text in line] for line in lines]
    few = f"{choice.too_few}.\n" if choice.too_few else ""
    where = writing.above(machines.above(choice.qualified, writing.terminal_width()), "table")
    return f"{few}{where}{title}\n\n{writing.named_table('cell', names, titles, lines)}\n"


def services(choice: Choice, plan: Turns | None) -> str:
    """A table of how the qualified cells of a plan are best served, the highest rate first; empty without a plan.

    Args:
        choice: the choice, whose cells stand for any number of threads here.
        plan: the last plan of the task; see `bench.decisions.load`.
    """
    if plan is None:
        return ""
    deployments = {load_decisions.with_any_threads(Cell.from_path(row.cell)): row for row in choice.qualified}
    best = {way: row for deployment, row in deployments.items() if (way := plan.best(deployment)) is not None}
    if not best:
        return ""
    ways = [way for way in load.ordered(plan, HIGHEST) if way in best]
    lines = [(load.split(way), load.held_rate(plan, way)) for way in ways]
    titles = ("split of the cores", f"highest rate at {load.bound(plan)}")
    names = [ranking.short_name(best[way]) for way in ways]
    return f"{writing.named_table('as a service', names, titles, lines)}\n"


def verdict(choice: Choice, results: Path, tolerance: float) -> str:
    """The picked cell and how it compares with the others; without a picked cell, a command that decides.

    Args:
        choice: the choice, with a picked cell or with further launches.
        results: folder of the results, for the command.
        tolerance: largest share by which the picked cell may be slower than the fastest cell.
    """
    return fill(
        "templates/pick.j2",
        choice=choice,
        tolerance=tolerance,
        over_baseline=writing.interval(choice.over_baseline) if choice.over_baseline else None,
        near=near_the_best(choice.equal, choice.untold),
        enough=math.ceil(100 * choice.regret) if math.isfinite(choice.regret) else 100,
        cells=shlex.join(choice.further.cells if choice.further else ()),
        option="" if results == RESULTS else f" --results {shlex.quote(str(results))}",
    )
