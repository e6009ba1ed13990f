"""The whisker of a latency in a figure: it compares the cell with the baseline, as the eye compares the marks."""

from __future__ import annotations

import math
from collections.abc import Iterable

from bench.records.rows import Row

MEANING = (
    "Whiskers: 95 % interval of the ratio to the baseline, drawn at the cell's latency. The state of the machine may "
    "shift all latencies together; that is not in the whiskers."
)


def whisker(row: Row) -> tuple[float, float] | None:
    """The ends of the interval of the ratio to the baseline, as latencies of the row in nanoseconds.

    The interval of the latency itself holds the machine's state, which the cells of a figure share: it says nothing of
    the differences between them.

    Returns:
        The low and the high end; None without a ratio, and for the baseline, whose ratio to itself is no estimate.
    """
    p50, ratio, low, high = row.latency_p50_ns, row.ratio, row.ratio_low, row.ratio_high
    if p50 is None or ratio is None or low is None or high is None or not math.isfinite(high) or low == high:
        return None
    return p50 * low / ratio, p50 * high / ratio


def drawn_latencies(rows: Iterable[Row]) -> list[float]:
    """The latencies of rows and the ends of their whiskers, in nanoseconds, for the range of an axis."""
    return [end for row in rows for end in (row.latency_p50_ns, *(whisker(row) or ())) if end]
