"""Scatter plots of the page: metric, size and memory against latency with the Pareto front, and the roofline."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Mapping, Sequence

from bench.features.page.axes import HIGHER, LOWER, Axis, axis_of, latency_axis
from bench.measure.roofline import Peaks
from bench.records import pareto
from bench.records.ranking import Group, is_baseline, is_timed
from bench.records.rows import Row
from bench.report.columns import unit_of
from bench.report.figures.canvas import label_offsets
from bench.report.figures.plots import metric_limits, metric_title

WIDTH, HEIGHT = 330, 250
"""Size of a panel in pixels for placing labels; a browser may draw the panel wider."""
_Segment = tuple[float, float, float, float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mark:
    """The mark of one cell in a scatter plot.

    Attributes:
        row: the row of the cell.
        x: distance from the left edge, in per cent of the plot's width.
        y: distance from the top edge, in per cent of the plot's height.
        label: the cell's number on the Pareto front, `B` for the baseline, or an empty text.
        dx: distance of the label from the mark to the right, in pixels.
        dy: distance of the label from the mark downwards, in pixels.
    """

    row: Row
    x: float
    y: float
    label: str
    dx: float
    dy: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scatter:
    """A scatter plot of cells.

    Attributes:
        title: the title above the plot.
        x: the horizontal axis.
        y: the vertical axis.
        marks: the cells.
        steps: segments of the line through the Pareto front: x1, y1, x2 and y2, in per cent.
        front: paths of the cells on the Pareto front, fastest first.
        roofs: segments of the roofline, each with its name.
    """

    title: str
    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    steps: tuple[_Segment, ...] = ()
    front: tuple[str, ...] = ()
    roofs: tuple[tuple[_Segment, str], ...] = ()


def against_latency(group: Group, task: Sequence[Row], *, higher_is_better: bool) -> list[Scatter]:
    """Figures of metric, size and memory against latency; a figure that would show nothing is left out.

    Args:
        group: the group whose timed rows are drawn.
        task: all rows of the group's task, which share units.
        higher_is_better: whether a higher metric is better.
    """
    rows = [row for row in group.rows if is_timed(row)]
    scatters = []
    measured = [row for row in rows if row.metric is not None and math.isfinite(row.metric)]
    if len({row.metric for row in measured}) > 1:
        low, high = metric_limits(measured)
        name = metric_title(measured)
        y = Axis(title=name, better=HIGHER if higher_is_better else LOWER, low=low, high=high)
        title = f"Latency and {name.removesuffix(' (dB)')}"
        scatters.append(_pareto(title, measured, task, y, "metric", higher=higher_is_better))
    for name, key in (("file size", "size_bytes"), ("memory", "model_rss_bytes")):
        if known := [row for row in rows if getattr(row, key) is not None]:
            y = axis_of(name, [getattr(row, key) for row in known], unit_of(key, task))
            scatters.append(_pareto(f"Latency and {name}", known, task, y, key, higher=False))
    return scatters


def _pareto(title: str, rows: Sequence[Row], task: Sequence[Row], y: Axis, key: str, *, higher: bool) -> Scatter:
    value = operator.attrgetter(key)
    x = latency_axis(rows, task)
    labels = pareto.labels(rows, value, higher_is_better=higher)
    front = pareto.front(labels)
    places = {row.cell: (x.at(row.latency_p50_ns or 0.0), round(100 - y.at(value(row) or 0.0), 2)) for row in rows}
    corners = [places[cell] for cell in front]
    steps: list[_Segment] = []
    ends = [*corners[1:], (100.0, corners[-1][1])] if corners else []
    for (left, top), (right, bottom) in zip(corners, ends, strict=True):
        steps += [(left, top, right, top), (right, top, right, bottom)]
    return Scatter(
        title=title,
        x=x,
        y=y,
        marks=_marks(rows, places, labels, upward=higher),
        steps=tuple(step for step in steps if step[:2] != step[2:]),
        front=tuple(front),
    )


def _marks(
    rows: Sequence[Row],
    places: Mapping[str, tuple[float, float]],
    labels: Mapping[str, str],
    *,
    upward: bool,
) -> tuple[Mark, ...]:
    """Marks with their labels beside them; marks with a label come last, on top of the others."""
    pixels = {cell: (x / 100 * WIDTH, (1 - y / 100) * HEIGHT) for cell, (x, y) in places.items()}
    wanted = [(text, pixels[cell]) for cell, text in labels.items()]
    box = (-20.0, -5.0, WIDTH + 10.0, HEIGHT + 15.0)
    offsets = dict(zip(labels, label_offsets(list(pixels.values()), wanted, box=box, upward=upward), strict=True))
    marks = []
    for row in sorted(rows, key=lambda row: row.cell in labels):
        dx, dy = offsets.get(row.cell, (0.0, 0.0))
        x, y = places[row.cell]
        marks.append(Mark(row=row, x=x, y=y, label=labels.get(row.cell, ""), dx=round(dx, 1), dy=round(-dy, 1)))
    return tuple(marks)


def roofline(group: Group, peaks: Peaks | None) -> Scatter | None:
    """Achieved rate against arithmetic intensity, under the machine's peaks; None where either is not known.

    Args:
        group: the group whose timed rows are drawn.
        peaks: the peaks of the machine with as many threads as the group has; None where they were not measured.
    """
    rows = [row for row in group.rows if is_timed(row) and row.macs_per_byte and row.gmacs_per_s and row.peak_share]
    if not rows or peaks is None:
        return None
    tops = {name: rate for name, rate in peaks.macs_per_s.items() if any(row.precision == name for row in rows)}
    top = max(tops.values())
    ridges = [rate / peaks.bytes_per_s for rate in tops.values()]
    intensities = [*ridges, *(row.macs_per_byte or 0.0 for row in rows)]
    low, high = min(intensities) / 2, max(intensities) * 2
    x = Axis(title="MACs per byte moved (log scale)", better="", low=low, high=high, is_log=True)
    low, high = 1e9 * min(row.gmacs_per_s or 0.0 for row in rows) / 1.6, top * 1.6
    y = Axis(title="GMAC/s (log scale)", better=HIGHER, low=low, high=high, factor=1e9, is_log=True)

    def place(intensity: float, rate: float) -> tuple[float, float]:
        return x.at(intensity), round(100 - y.at(rate), 2)

    ridge = top / peaks.bytes_per_s
    start = max(x.low, y.low / peaks.bytes_per_s)
    memory = (*place(start, start * peaks.bytes_per_s), *place(ridge, ridge * peaks.bytes_per_s))
    roofs = [(memory, f"memory, {peaks.bytes_per_s / 1e9:.3g} GB/s")]
    for name, rate in tops.items():
        flat = (*place(rate / peaks.bytes_per_s, rate), 100.0, place(1.0, rate)[1])
        roofs.append((flat, f"{name}, {rate / 1e9:.3g} GMAC/s"))
    places = {row.cell: place(row.macs_per_byte or 0.0, 1e9 * (row.gmacs_per_s or 0.0)) for row in rows}
    labels = {row.cell: "B" for row in rows if is_baseline(row)}
    marks = _marks(rows, places, labels, upward=True)
    return Scatter(title="Roofline", x=x, y=y, marks=marks, roofs=tuple(roofs))
