"""The table of how cells scale with threads: each cell against itself at one thread, and its best number of threads."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bench.api.errors import InputError
from bench.decisions.threads import Scaling
from bench.records import machines
from bench.records.rows import Row
from bench.report import writing

NARROWEST_NAME = 24
"""Characters of a name on one line, at least."""


def render(scalings: list[Scaling], rows: Sequence[Row] = (), *, format: str) -> str:
    """The table as Markdown (`md`) or for a terminal (`table`), below the machine that the rows of its cells name.

    Raises:
        InputError: another format, or there is nothing to show.
    """
    if format not in ("md", "table"):
        raise InputError(f"the table of threads is printed as md or table, not {format}")
    if not scalings:
        raise InputError("no cell was measured at several numbers of threads; `bench run --sweep threads` does")
    counts = sorted({count for scaling in scalings for count in scaling.over_one})
    over = [f"{count} threads / 1 thread [95 %]" for count in counts]
    titles = ["cell", "1 thread (ms)", *over, "most per second", "best"]
    lines = [
        [scaling.cell.path.rpartition("/")[0] + _batch(scaling), *_figures(scaling, counts)] for scaling in scalings
    ]
    above = writing.paragraph(machines.sentences(rows), format)
    if format == "md":
        return above + writing.markdown(titles, lines, [True, *[False] * (len(titles) - 1)])
    figures = [[re.sub(r" (?=[\[(]|1 |second)", "\n", text) for text in line[1:]] for line in (titles, *lines)]
    widths = [max(len(part) for text in column for part in text.split("\n")) for column in zip(*figures, strict=True)]
    room = max(NARROWEST_NAME, writing.terminal_width() - sum(widths) - 2 * len(widths))
    names = [
        writing.wrap_name(scaling.cell.path.rpartition("/")[0], room) + _batch(scaling, "\n") for scaling in scalings
    ]
    named = [[name, *line] for name, line in zip(names, figures[1:], strict=True)]
    return above + writing.plain(["cell", *figures[0]], named, format=format)


def _batch(scaling: Scaling, blank: str = " ") -> str:
    return f",{blank}batch {scaling.cell.batch}"


def _figures(scaling: Scaling, counts: Sequence[int]) -> list[str]:
    """The texts after the name: the latency, a ratio for each number of threads, the throughput, the best number."""
    most = max(scaling.cell.batch * 1e9 / latency for latency in scaling.latency_ns.values())
    over_one = [scaling.over_one.get(count) for count in counts]
    ratios = [
        writing.interval(comparison.ratio) if comparison and comparison.ratio else writing.DASH
        for comparison in over_one
    ]
    best = " or ".join(map(str, scaling.best)) + (" threads" if scaling.best != (1,) else " thread")
    per_second = f"{most:,.0f}" if most >= 1000 else f"{most:.4g}"
    return [writing.milliseconds(scaling.latency_ns[1]), *ratios, per_second, best]
