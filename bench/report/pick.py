"""The text of `bench pick`: the front of the cells that qualify, and the picked cell or why no cell was picked."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path

from bench.api.printable import printable
from bench.decisions.pick import METRIC, Choice, Constraints
from bench.records import ranking
from bench.report import writing
from bench.report.best import near_the_best
from bench.report.templates import fill

NARROWEST_NAME = 16
"""Characters of a name on one line, at least."""
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
    longest = max(len(part) for name in names for part in writing.wrap_name(name, NARROWEST_NAME).split("\n"))
    if _room(titles, lines) < longest:  # then titles and intervals take more lines, so that no part of a name is broken
        titles = [title.replace(" ", "\n") for title in titles]
        lines = [[text.replace(" [", "\n[") for text in line] for line in lines]
    room = max(longest, _room(titles, lines))
    named = [(writing.wrap_name(name, room), *line) for name, line in zip(names, lines, strict=True)]
    few = f"{choice.too_few}.\n" if choice.too_few else ""
    return f"{few}{title}\n\n{writing.plain(('cell', *titles), named, format='table')}\n"


def _room(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> int:
    """Characters that the terminal has left for names, beside columns of figures with two blanks before each."""
    widths = [
        max(len(part) for text in column for part in text.split("\n")) for column in zip(titles, *lines, strict=True)
    ]
    return writing.terminal_width() - sum(widths) - 2 * len(widths)


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
