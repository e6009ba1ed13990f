"""How cells scale with threads: each against itself at one thread, side by side, and the best number."""

from __future__ import annotations

from bench.api.errors import InputError
from bench.decisions.threads import Scaling
from bench.measure.comparison import Comparison
from bench.report import columns, tables


def render(found: list[Scaling], *, format: str) -> str:
    """The table, as `md` or for a terminal.

    Raises:
        InputError: another format, or there is nothing to show.
    """
    if format not in ("md", "table"):
        raise InputError(f"the table of threads is printed as md or table, not {format}")
    if not found:
        raise InputError("no cell was measured at several numbers of threads; `bench run --sweep threads` does")
    counts = sorted({count for scaling in found for count in scaling.over_one})
    titles = (
        "cell",
        "1 thread (ms)",
        *(f"{count} threads / 1 thread [95 %]" for count in counts),
        "most per second",
        "best",
    )
    lines = []
    for scaling in found:
        cell = scaling.cell
        name = cell.path.rpartition("/")[0] + f", batch {cell.batch}"
        most = max(cell.batch * 1e9 / latency for latency in scaling.latency_ns.values())
        ratios = [_ratio(scaling.over_one.get(count)) for count in counts]
        best = " or ".join(map(str, scaling.best)) + (" threads" if scaling.best != (1,) else " thread")
        lines.append((name, f"{scaling.latency_ns[1] / 1e6:.4g}", *ratios, f"{most:.4g}", best))
    return tables.plain(titles, lines, format=format)


def _ratio(found: Comparison | None) -> str:
    if found is None or found.ratio is None:
        return columns.DASH
    return f"{found.ratio.value:.3f} [{found.ratio.low:.3f}, {found.ratio.high:.3f}]"
