"""The table of how cells scale with threads: each cell against itself at one thread, and its best number of threads."""

from __future__ import annotations

from bench.api.errors import InputError
from bench.decisions.threads import Scaling
from bench.report import writing


def render(found: list[Scaling], *, format: str) -> str:
    """The table as Markdown (`md`) or for a terminal (`table`).

    Raises:
        InputError: another format, or there is nothing to show.
    """
    if format not in ("md", "table"):
        raise InputError(f"the table of threads is printed as md or table, not {format}")
    if not found:
        raise InputError("no cell was measured at several numbers of threads; `bench run --sweep threads` does")
    counts = sorted({count for scaling in found for count in scaling.over_one})
    over = [f"{count} threads / 1 thread [95 %]" for count in counts]
    titles = ("cell", "1 thread (ms)", *over, "most per second", "best")
    lines = []
    for scaling in found:
        cell = scaling.cell
        name = cell.path.rpartition("/")[0] + f", batch {cell.batch}"
        most = max(cell.batch * 1e9 / latency for latency in scaling.latency_ns.values())
        over_one = [scaling.over_one.get(count) for count in counts]
        ratios = [writing.interval(one.ratio) if one and one.ratio else writing.DASH for one in over_one]
        best = " or ".join(map(str, scaling.best)) + (" threads" if scaling.best != (1,) else " thread")
        lines.append((name, writing.milliseconds(scaling.latency_ns[1]), *ratios, f"{most:.4g}", best))
    return writing.plain(titles, lines, format=format)
