"""What `bench pick` prints: the front of the cells that qualify, and the one that was picked or why none was."""

from __future__ import annotations

import math
import shlex
from pathlib import Path

from bench.decisions.pick import Choice, Constraints
from bench.records import ranking
from bench.report import writing

NAME = 40
"""Characters of a name on one line, so that the table fits a usual terminal."""
RESULTS = Path("results")
"""Folder of the results that commands take by default."""


def front(choice: Choice, constraints: Constraints) -> str:
    """How many cells qualify, and a table of those that no other beats."""
    ranked = sum(map(ranking.is_ranked, choice.group.rows))
    limits = f" and keep to {', '.join(constraints.limits())}" if constraints.limits() else ""
    title = (
        f"{choice.group.title}: {len(choice.qualified)} of {ranked} timed cells are right{limits}.\n"
        f"Of these, no other beats {len(choice.front)} in latency, size, memory and metric at once:"
    )
    lines = [
        (
            writing.wrap_name(ranking.short_name(row), NAME),
            writing.milliseconds(row.latency_p50_ns),
            writing.ratio_of(row),
            writing.megabytes(row.size_bytes),
            writing.megabytes(row.peak_rss_bytes),
            writing.DASH if row.metric is None else f"{row.metric:.4g}",
        )
        for row in choice.front
    ]
    metric_name = next((row.metric_name for row in choice.front if row.metric_name), "metric")
    titles = ("cell", "latency p50 (ms)", "over the baseline", "size (MB)", "peak memory (MB)", metric_name)
    return f"{title}\n\n{writing.plain(titles, lines, format='table')}\n"


def picked(choice: Choice) -> str:
    """The path of the cell that was picked, and how it stands to the others.

    Args:
        choice: with a cell that was picked.
    """
    assert choice.picked is not None
    lines = [f"pick: {choice.picked.cell}"]
    num_others = len(choice.contenders) - 1
    if num_others:
        lines.append(
            f"  {num_others} more may be as fast; of those that are fast enough for sure, its file is the smallest"
        )
        lines.append(f"  it is at most {100 * choice.regret:.2g} % slower than the fastest, with 95 % confidence")
    else:
        lines.append("  every other is slower" if len(choice.qualified) > 1 else "  no other qualifies")
    return "\n".join(lines)


def undecided(choice: Choice, results: Path, tolerance: float) -> str:
    """Why no cell was picked, and which tolerance or which command would decide.

    Args:
        choice: without a cell that was picked.
        results: folder of the results, for the command.
        tolerance: that was asked for, as a share.
    """
    further = choice.further
    assert further is not None
    lines = [
        f"no pick: between {len(further.cells)} cells the data cannot tell; none is sure to be at most "
        f"{100 * tolerance:.2g} % slower than the others."
    ]
    enough = math.ceil(100 * choice.regret) if math.isfinite(choice.regret) else 100
    if enough < 100:
        lines.append(f"--tolerance {enough}% would do" + (", or these launches:" if further.launches else "."))
    elif further.launches:
        lines.append("These launches would decide:")
    if further.launches is None:
        lines.append("Launches alone would not decide soon: they differ too much from one process to the next.")
    else:
        folder = "" if results == RESULTS else f" --results {shlex.quote(str(results))}"
        lines.append(f"  bench run {shlex.join(further.cells)} --launches {further.launches} --margin 0.1%{folder}")
    return "\n".join(lines)
