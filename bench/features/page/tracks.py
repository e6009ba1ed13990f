"""Cells below one another on the page: latency, memory by phase, size and share of the peak beside each name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from bench.features.page.axes import HIGHER, NARROW_STEPS, Axis, axis_of, latency_axis
from bench.measure.launch import Launch
from bench.records.launches import memory_tops
from bench.records.ranking import Group, is_baseline, is_ranked, is_timed
from bench.records.rows import Row
from bench.report.columns import unit_of
from bench.report.figures.canvas import digits
from bench.report.figures.whiskers import whisker

Part = tuple[str, float, float]
"""Kind, start and length of a segment, in per cent."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bar:
    """The drawing of one cell on one track: a point with its whisker, or segments end to end.

    Attributes:
        text: the value as text, beside the track.
        point: the low end of the whisker, the value and the high end, in per cent; None where segments are drawn.
        segments: the segments, from the left to the right.
    """

    text: str
    point: tuple[float, float, float] | None = None
    segments: tuple[Part, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """One cell with its bar on each track."""

    row: Row
    bars: tuple[Bar, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lines:
    """Cells, fastest first, with tracks beside them.

    Attributes:
        axes: axes of the tracks: latency, memory, size and, where it is known, the share of the peak.
        baseline: place of the baseline's latency on the first axis, in per cent; None where no baseline is drawn.
        lines: the cells.
    """

    axes: tuple[Axis, ...]
    baseline: float | None
    lines: tuple[Line, ...]


def lines(group: Group, task: Sequence[Row], launches: Mapping[str, Sequence[Launch]]) -> Lines:
    """Every timed cell of a group on its tracks.

    Args:
        group: the group whose timed rows are drawn.
        task: all rows of the group's task, which share units.
        launches: by cell path, the launches that the figures of the row were made of.
    """
    rows = sorted(filter(is_timed, group.rows), key=lambda row: (not is_ranked(row), row.latency_p50_ns or 0.0))
    latency = latency_axis(rows, task)
    peaks, sizes = ([getattr(row, key) or 0 for row in rows] for key in ("peak_rss_bytes", "size_bytes"))
    memory = axis_of("peak memory", peaks, unit_of("peak_rss_bytes", task), from_zero=True)
    size = axis_of("file size", sizes, unit_of("size_bytes", task), from_zero=True)
    share = Axis(title="share of the peak (%)", better=HIGHER, low=0.0, high=1.0, factor=0.01, most_steps=NARROW_STEPS)
    shares = [share] if any(row.peak_share is not None for row in rows) else []
    cells = []
    for row in rows:
        bars = [_latency(row, latency), _memory(row, launches[row.cell], memory), _size(row, size)]
        cells.append(Line(row=row, bars=(*bars, *(_share(row, axis) for axis in shares))))
    return Lines(
        axes=(latency, memory, size, *shares),
        baseline=next((latency.at(row.latency_p50_ns or 0.0) for row in rows if is_baseline(row)), None),
        lines=tuple(cells),
    )


def _latency(row: Row, axis: Axis) -> Bar:
    value = row.latency_p50_ns or 0.0
    low, high = whisker(row) or (value, value)
    return Bar(text=digits(value / axis.factor, 4), point=(axis.at(low), axis.at(value), axis.at(high)))


def _memory(row: Row, launches: Sequence[Launch], axis: Axis) -> Bar:
    """Segments for the growth of the peak: the part that each phase put on top of the highest peak before it."""
    if row.peak_rss_bytes is None or not launches:
        return Bar(text="")
    tops = memory_tops(launches)
    ends = [0.0, *map(axis.at, tops.values())]
    parts = zip(tops, ends, ends[1:], strict=False)
    segments = tuple((name, start, round(end - start, 2)) for name, start, end in parts if end > start)
    return Bar(text=digits(row.peak_rss_bytes / axis.factor, 4), segments=segments)


def _size(row: Row, axis: Axis) -> Bar:
    if row.size_bytes is None:
        return Bar(text="")
    return Bar(text=digits(row.size_bytes / axis.factor, 3), segments=(("size", 0.0, axis.at(row.size_bytes)),))


def _share(row: Row, axis: Axis) -> Bar:
    if row.peak_share is None:
        return Bar(text="")
    kind = f"bound-{row.bound}" if row.bound in ("compute", "memory") else "size"
    return Bar(text=f"{digits(100 * row.peak_share, 3)} %", segments=((kind, 0.0, axis.at(row.peak_share)),))
