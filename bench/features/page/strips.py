"""The strip of a card: all deployments of a task along one axis of latency, with the one to ship marked among them."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from bench.features.page.axes import Axis
from bench.records.ranking import is_timed
from bench.records.rows import Row
from bench.report.columns import unit_of
from bench.report.figures.whiskers import drawn_latencies, whisker

WIDTH = 265.0
"""Pixels of a strip on a narrow phone of 320 pixels; a wider one only moves its marks apart."""
DOT, PICK = 3.3, 6.0
"""Radius in pixels of a mark, and of that of the deployment to ship."""
_APART = 0.6
"""Pixels between two marks, at least, while there is room."""
LANES = (0.0, 7.5, -7.5, 15.0, -15.0)
"""Where a mark may stand below or above the middle of its strip, in pixels; the first that is free is taken."""
LETTER, LABEL_LINE, AXIS_LINE = 7.0, 14.0, 19.0
"""Pixels of a bold letter, of a line of labels and of the axis."""
LONGEST = 24
"""Characters of a label, at most."""
_AROUND = 1.12
"""Factor of the axis beyond the fastest and the slowest."""
MEANING = (
    "Each mark is a deployment, the faster the further left. Named: the one to ship, with the 95 % interval "
    "of its ratio to the baseline, and each framework's default. Hollow: more of the metric is lost than is allowed, "
    "or may be. Bounds and intervals hold with 95 % confidence."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mark:
    """The mark of one deployment.

    Attributes:
        row: its row.
        x: distance from the left edge, in per cent of the strip's width.
        y: distance from the top, in pixels.
        radius: its size in pixels.
        is_lossy: whether more of the metric is lost than is allowed.
    """

    row: Row
    x: float
    y: float
    radius: float
    is_lossy: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class Label:
    """A name above the marks.

    Attributes:
        text: the name.
        mark: the mark that it names.
        y: its base line, in pixels from the top.
        anchor: which part of the text stands at the mark: `start`, `middle` or `end`.
    """

    text: str
    mark: Mark
    y: float
    anchor: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Strip:
    """All deployments of a task by their latency, on a logarithmic axis.

    Attributes:
        title: what it shows, for who does not see it.
        marks: the deployments, but for the one to ship.
        pick: the one to ship, or that looks fastest; None where there is none.
        whisker: ends of the interval of that one's ratio to the baseline, in per cent of the width; None without it.
        labels: names of the one to ship and of the frameworks' defaults.
        ticks: places along the axis, in per cent, each with its text and its anchor, as of a label.
        top: where the lines of the ticks begin, in pixels from the top.
        height: height of the strip in pixels.
    """

    title: str
    marks: tuple[Mark, ...]
    pick: Mark | None
    whisker: tuple[float, float] | None
    labels: tuple[Label, ...]
    ticks: tuple[tuple[float, str, str], ...]
    top: float
    height: float


def strip(rows: Iterable[Row], *, pick: str | None, lossy: Collection[str], names: Mapping[str, str]) -> Strip | None:
    """The strip of a task; None where nothing was timed.

    Args:
        rows: the rows of one task and batch.
        pick: path of the cell to ship, or that looks fastest; None where there is none.
        lossy: paths of the cells that lose more of the metric than is allowed, beside those that are broken.
        names: labels by path, of the cells that have one.
    """
    timed = [row for row in rows if is_timed(row) and (row.latency_p50_ns or 0.0) > 0]
    timed.sort(key=lambda row: (row.cell != pick, row.latency_p50_ns, row.cell))
    if not timed:
        return None
    chosen = timed[0] if timed[0].cell == pick else None
    ends = whisker(chosen) if chosen else None
    drawn = [*drawn_latencies([chosen] if chosen else []), *(row.latency_p50_ns or 0.0 for row in timed)]
    factor, unit = unit_of("latency_p50_ns", timed)
    axis = Axis(title=unit, low=min(drawn) / _AROUND, high=max(drawn) * _AROUND, factor=factor, is_log=True)
    at = [axis.at(row.latency_p50_ns or 0.0) for row in timed]
    radii = [PICK if row is chosen else DOT for row in timed]
    lanes = _spread([WIDTH * x / 100 for x in at], radii)
    wanted = [(x, names[row.cell]) for x, row in zip(at, timed, strict=True) if row.cell in names]
    lines = _lines(wanted)
    top = LABEL_LINE * (max(lines, default=-1) + 1)
    middle = top + max(PICK + 2, DOT + 1 - min(lanes))
    marks = [
        Mark(row=row, x=x, y=middle + lane, radius=radius, is_lossy=row.cell in lossy or row.fidelity == "broken")
        for row, x, lane, radius in zip(timed, at, lanes, radii, strict=True)
    ]
    labelled = [mark for mark in marks if mark.row.cell in names]
    return Strip(
        title=_title(timed, chosen, factor, unit),
        marks=tuple(mark for mark in marks if mark.row is not chosen),
        pick=marks[0] if chosen else None,
        whisker=(axis.at(ends[0]), axis.at(ends[1])) if ends else None,
        labels=tuple(
            Label(text=_short(text), mark=mark, y=LABEL_LINE * line + 10, anchor=_anchor(mark.x))
            for mark, (_, text), line in zip(labelled, wanted, lines, strict=True)
        ),
        ticks=_uncovered([(place, f"{text} {unit}") for place, text in axis.ticks]),
        top=top,
        height=middle + max(PICK + 2, DOT + 1 + max(lanes)) + AXIS_LINE,
    )


def _spread(places: Sequence[float], radii: Sequence[float]) -> list[float]:
    """For each mark the first lane in which it touches none before it; where there is none, that with most room."""
    placed: list[tuple[float, float, float]] = []

    def room(place: float, lane: float, radius: float) -> float:
        return min((math.hypot(place - x, lane - y) - radius - other for x, y, other in placed), default=math.inf)

    for place, radius in zip(places, radii, strict=True):
        rooms = {lane: room(place, lane, radius) for lane in LANES}
        free = [lane for lane in LANES if rooms[lane] >= _APART]
        placed.append((place, free[0] if free else max(LANES, key=rooms.__getitem__), radius))
    return [lane for _, lane, _ in placed]


def _lines(labels: Sequence[tuple[float, str]]) -> list[int]:
    """The line of each label, the uppermost first, so that none covers another."""
    taken: list[tuple[int, float, float]] = []
    for x, text in labels:
        left, right = _extent(x, _short(text), _anchor(x))
        line = 0
        while any(line == other and left < end and start < right for other, start, end in taken):
            line += 1
        taken.append((line, left, right))
    return [line for line, _, _ in taken]


def _uncovered(ticks: Iterable[tuple[float, str]]) -> tuple[tuple[float, str, str], ...]:
    """The ticks, or every second, or every third of them, so that no text covers another; each with its anchor."""
    anchored = [(x, text, "start" if x < 8 else "end" if x > 92 else "middle") for x, text in ticks]
    extents = [_extent(*tick) for tick in anchored]
    for step in range(1, len(anchored)):
        if all(before[1] <= after[0] for before, after in itertools.pairwise(extents[::step])):
            return tuple(anchored[::step])
    return tuple(anchored[:1])


def _extent(x: float, text: str, anchor: str) -> tuple[float, float]:
    """Where a text begins and ends, in pixels of the narrowest strip, with room for one letter more."""
    width, place = LETTER * (len(text) + 1), WIDTH * x / 100
    left = place - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
    return left, left + width


def _anchor(x: float) -> str:
    return "start" if x < 25 else "end" if x > 75 else "middle"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


def _title(rows: Sequence[Row], chosen: Row | None, factor: float, unit: str) -> str:
    latencies = [(row.latency_p50_ns or 0.0) / factor for row in rows]
    number = f"{len(rows)} deployment{'s' if len(rows) > 1 else ''}"
    text = f"Latency of {number}, {min(latencies):.3g} to {max(latencies):.3g} {unit}"
    return f"{text}; the marked one: {latencies[0]:.3g} {unit}" if chosen else text
