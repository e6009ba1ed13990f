"""Figures of rows, for each task: latency, accuracy, share of the peak, memory and size, as PNG and SVG."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.measure.stats import FASTER
from bench.records import pareto
from bench.records.columns import BYTES
from bench.records.ranking import Group, is_baseline, is_ranked, is_timed, select, short_name
from bench.records.rows import Row
from bench.report.columns import scale, unit_of
from bench.report.figures import canvas
from bench.report.figures.whiskers import MEANING, drawn_latencies, whisker

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BAR = 0.24  # inches from one line to the next
_SCATTER_HEIGHT = 3.6
_GREY = "#BBBBBB"
_PEAK = (
    "The fastest first. A short bar: the runtime leaves the machine idle, unless memory bounds it, and another may be "
    "faster. Near 100 %: only fewer multiplications, or narrower ones, are faster. Bold: the baseline."
)
LOG_RANGE = 20.0  # a wider range of latencies gets a logarithmic axis


def draw(rows: Iterable[Row], folder: Path, *, higher_is_better: Mapping[str, bool] | None = None) -> list[Path]:
    """Write `<task>-latency`, `-accuracy`, `-peak`, `-memory` and `-size`, as .png and .svg, and return their paths.

    A figure that would show nothing is not written.

    Args:
        rows: the rows, in any order.
        folder: folder of the figures, which is made where it is missing.
        higher_is_better: by task, whether a higher metric is better; True for a task that is not in it.
    """
    import matplotlib

    groups: dict[str, list[Group]] = {}
    for group in select(rows).groups:
        groups.setdefault(group.task, []).append(group)
    looks = canvas.looks_of(row.runtime for members in groups.values() for row in _rows(members))
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    with matplotlib.rc_context(canvas.STYLE):
        for task, members in groups.items():
            is_higher_better = (higher_is_better or {}).get(task, True)
            figures = {
                "latency": _latency(members, looks),
                "accuracy": _accuracy(members, looks, is_higher_better),
                "peak": _peak(members, looks),
                "memory": _memory(members, looks),
                "size": _size(members),
            }
            for name, figure in figures.items():
                if figure is not None:
                    paths += [canvas.save(figure, folder / f"{task}-{name}.{suffix}") for suffix in ("png", "svg")]
    return paths


def _title(groups: Sequence[Group], what: str) -> str:
    return f"{groups[0].title if len(groups) == 1 else groups[0].task}: {what}"


def _rows(groups: Iterable[Group]) -> list[Row]:
    return [row for group in groups for row in group.rows]


def _named_rows(
    what: str, groups: Sequence[Group], notes: Mapping[str, str], handles: Sequence[Any], footnote: str
) -> tuple[Figure, list[Axes]]:
    """A panel for each group, with a line for each row of the group: its name on the left, its note on the right.

    Args:
        what: name of the quantity, for the title.
        groups: the groups, each with the rows that are drawn.
        notes: by cell path, the note on the right of its line.
        handles: matplotlib's handles of the legend.
        footnote: text below the panels.
    """
    return canvas.sheet(
        _title(groups, what),
        [(_panel_title(group, groups), _BAR * max(2, len(group.rows))) for group in groups],
        left=canvas.text_width(map(short_name, _rows(groups))) + 0.1,
        right=canvas.text_width(notes.values()) + 0.15,
        handles=handles,
        footnote=footnote,
    )


def _panel_title(group: Group, groups: Sequence[Group]) -> str:
    return group.title.removeprefix(f"{group.task}, ") if len(groups) > 1 else ""


def _with(groups: Iterable[Group], has: Callable[[Row], bool]) -> list[Group]:
    """The groups with only those rows that `has` accepts; a group without such a row is left out."""
    parts = [dataclasses.replace(group, rows=tuple(filter(has, group.rows))) for group in groups]
    return [group for group in parts if group.rows]


def _absent(groups: Iterable[Group], shown: Iterable[Group]) -> str:
    """The number of rows that a figure does not show, by reason."""
    cells = {row.cell for row in _rows(shown)}
    missing = [row for row in _rows(groups) if row.cell not in cells]
    words = [
        "same as another" if row.same_as else "not measured" if row.status == "ok" else row.status for row in missing
    ]
    counts = ", ".join(f"{count} {word}" for word, count in sorted(collections.Counter(words).items()))
    return f"Not shown: {counts}." if counts else ""


def _note(row: Row) -> str:
    if row.fidelity == "broken":
        return "broken"
    if is_baseline(row):
        return "baseline"
    speed = _as_fast(row)
    if row.verdict == FASTER and speed:
        return speed
    return ", ".join(filter(None, (speed, row.verdict)))


def _as_fast(row: Row) -> str:
    """How many times as fast as the baseline a row is, such as `4.5x as fast`; empty where that is not known."""
    if not row.ratio:
        return ""
    speed = 1 / row.ratio
    return f"{f'{speed:.2f}' if 0.1 < speed < 2 else canvas.digits(speed, 2)}x as fast"


def _whisker(row: Row, unit: float) -> list[list[float]] | None:
    """Lengths of the whisker below and above the latency, as matplotlib's `xerr` takes them."""
    ends = whisker(row)
    if ends is None or row.latency_p50_ns is None:
        return None
    low, high = ends
    return [[max(0.0, row.latency_p50_ns - low) / unit], [max(0.0, high - row.latency_p50_ns) / unit]]


def _latency_axis(axes: Axes, rows: Sequence[Row], unit: float, name: str) -> None:
    """Set up an axis of latency: from zero, or logarithmic where the range is wide, which its label says."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    ends = drawn_latencies(rows)
    least, most = (min(ends) / unit, max(ends) / unit) if ends else (1.0, 1.0)
    label = f"latency p50 ({name}), lower is better \N{LEFTWARDS ARROW}"
    if most > LOG_RANGE * least:
        axes.set_xscale("log")
        axes.set_xlim(least / 1.3, most * 1.3)
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if most < 300 * least else (1,)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        label = label.replace(f"({name})", f"({name}, log scale)")
    else:
        axes.set_xlim(0, most * 1.05)
    axes.set_xlabel(label)


def _latency(groups: list[Group], looks: Mapping[str, canvas.Look]) -> Figure | None:
    shown = _with(groups, is_timed)
    if not shown:
        return None
    rows = _rows(shown)
    unit, unit_name = unit_of("latency_p50_ns", rows)
    footnote = f"{MEANING} Right: speed beside the baseline's (dashed), and verdict."
    if any(row.fidelity == "broken" for row in rows):
        footnote += " Hollow: broken, its outputs are too far from the reference; not ranked."
    handles = canvas.handles_of((row.runtime for row in rows), looks, as_bars=False)
    notes = {row.cell: _note(row) for row in rows}
    figure, panels = _named_rows("latency", shown, notes, handles, f"{footnote} {_absent(groups, shown)}")
    for group, axes in zip(shown, panels, strict=True):
        ordered = sorted(group.rows, key=lambda row: (row.fidelity == "broken", row.latency_p50_ns))
        for index, row in enumerate(ordered):
            _point(axes, row, index, unit, looks[row.runtime], size=5)
            if is_baseline(row) and row.latency_p50_ns is not None:
                axes.axvline(row.latency_p50_ns / unit, color="#444444", linestyle="--", linewidth=0.9, zorder=1)
        canvas.name_lines(axes, [canvas.Line(short_name(row), notes[row.cell], is_baseline(row)) for row in ordered])
        _latency_axis(axes, ordered, unit, unit_name)
    return figure


def _point(
    axes: Axes, row: Row, y: float, unit: float, look: canvas.Look, *, size: float, edge: str | None = None
) -> None:
    assert row.latency_p50_ns is not None
    axes.errorbar(
        row.latency_p50_ns / unit,
        y,
        xerr=_whisker(row, unit),
        color=look.colour,
        marker=look.marker,
        markersize=size,
        markerfacecolor="white" if row.fidelity == "broken" else look.colour,
        markeredgecolor=edge or look.colour,
        elinewidth=1.4,
        capsize=2,
        zorder=3,
        clip_on=False,
    )


def _peak(groups: list[Group], looks: Mapping[str, canvas.Look]) -> Figure | None:
    """How near each row comes to the machine's peak in its precision, the fastest first."""
    from matplotlib.patches import Patch

    shown = _with(groups, lambda row: is_timed(row) and row.peak_share is not None)
    if not shown:
        return None
    rows = _rows(shown)
    unit, unit_name = unit_of("latency_p50_ns", rows)
    notes = {
        row.cell: f"{100 * (row.peak_share or 0):.0f} % in {row.precision}, "
        f"{canvas.digits((row.latency_p50_ns or 0) / unit, 3)} {unit_name}" + " broken" * (row.fidelity == "broken")
        for row in rows
    }
    handles = [
        *canvas.handles_of((row.runtime for row in rows), looks, as_bars=True),
        Patch(fc="none", ec=_GREY, label="left unused"),
    ]
    figure, panels = _named_rows(
        "share of the machine's peak", shown, notes, handles, f"{_PEAK} {_absent(groups, shown)}"
    )
    for group, axes in zip(shown, panels, strict=True):
        ordered = sorted(group.rows, key=lambda row: (row.fidelity == "broken", row.latency_p50_ns))
        for index, row in enumerate(ordered):
            look = looks[row.runtime]
            axes.barh(index, 100, height=0.7, fc="none", ec=_GREY, lw=0.8)
            axes.barh(
                index, 100 * (row.peak_share or 0), height=0.7, fc=look.colour, hatch=look.hatch, ec="white", lw=0
            )
        canvas.name_lines(axes, [canvas.Line(short_name(row), notes[row.cell], is_baseline(row)) for row in ordered])
        axes.set_xlim(0, 100 * max(1.0, *(row.peak_share or 0 for row in ordered)))
        axes.set_xlabel("multiplications a second, % of the machine's peak in that precision")
    return figure


def _memory(groups: list[Group], looks: Mapping[str, canvas.Look]) -> Figure | None:
    from matplotlib.patches import Patch

    shown = _with(groups, lambda row: row.status == "ok" and row.peak_rss_bytes is not None)
    if not shown:
        return None
    rows = _rows(shown)
    unit, unit_name = unit_of("peak_rss_bytes", rows)
    sizes = {row.cell: f"{canvas.digits((row.peak_rss_bytes or 0) / unit, 3)} {unit_name}" for row in rows}
    notes = {row.cell: sizes[row.cell] + " broken" * (row.fidelity == "broken") for row in rows}
    handles = [Patch(fc=_GREY, label="packages imported")]
    handles += canvas.handles_of((row.runtime for row in rows), looks, as_bars=True)
    footnote = (
        "Peak resident set of the process. Grey: with its packages imported (all of it, where the two were "
        "not told apart); coloured: growth by the model and its inferences. Bold: the baseline. "
    )
    figure, panels = _named_rows("memory", shown, notes, handles, footnote + _absent(groups, shown))
    for group, axes in zip(shown, panels, strict=True):
        ordered = sorted(group.rows, key=lambda row: (row.peak_rss_bytes, row.cell))
        for index, row in enumerate(ordered):
            peak, look = (row.peak_rss_bytes or 0) / unit, looks[row.runtime]
            model = min(peak, max(0.0, (row.model_rss_bytes or 0) / unit))
            axes.barh(index, peak - model, height=0.7, color=_GREY)
            axes.barh(index, model, left=peak - model, height=0.7, fc=look.colour, hatch=look.hatch, ec="white", lw=0)
        canvas.name_lines(axes, [canvas.Line(short_name(row), notes[row.cell], is_baseline(row)) for row in ordered])
        axes.set_xlim(0, max(row.peak_rss_bytes or 0 for row in ordered) / unit * 1.02 or 1)
        axes.set_xlabel(f"peak memory ({unit_name}), lower is better \N{LEFTWARDS ARROW}")
    return figure


def _artifact(row: Row) -> str:
    return f"{row.source}/{row.exporter}/{row.variant}"


def _size(groups: list[Group]) -> Figure | None:
    # One bar for each artifact: neither runtime nor request changes a file; where they do, its cells are told apart.
    sizes: dict[str, dict[int, Row]] = {}
    for row in _rows(groups):
        if row.size_bytes is not None:
            sizes.setdefault(_artifact(row), {}).setdefault(row.size_bytes, row)
    bars = sorted(
        (size, artifact if len(by_size) == 1 else row.cell.partition("/")[2], artifact)
        for artifact, by_size in sizes.items()
        for size, row in by_size.items()
    )
    if not bars:
        return None
    unit, unit_name = scale((size for size, *_ in bars), BYTES)
    baselines = {_artifact(row) for row in _rows(groups) if is_baseline(row)}
    lines = [
        canvas.Line(name, f"{canvas.digits(size / unit, 3)} {unit_name}", artifact in baselines)
        for size, name, artifact in bars
    ]
    figure, (axes,) = canvas.sheet(
        f"{groups[0].task}: size on disk",
        [("", _BAR * max(2, len(bars)))],
        left=canvas.text_width(line.name for line in lines) + 0.1,
        right=canvas.text_width(line.note for line in lines) + 0.15,
        handles=[],
        footnote="One bar for each artifact." + (" Bold: the baseline's." if baselines else ""),
    )
    axes.barh(range(len(bars)), [size / unit for size, *_ in bars], height=0.7, color=canvas.COLOURS[0])
    canvas.name_lines(axes, lines)
    axes.set_xlim(0, bars[-1][0] / unit * 1.02 or 1)
    axes.set_xlabel(f"size ({unit_name}), lower is better \N{LEFTWARDS ARROW}")
    return figure


def _accuracy(groups: list[Group], looks: Mapping[str, canvas.Look], is_higher_better: bool) -> Figure | None:
    shown = _with(groups, lambda row: is_timed(row) and row.metric is not None and math.isfinite(row.metric))
    if not shown:
        return None
    rows = _rows(shown)
    unit, unit_name = unit_of("latency_p50_ns", rows)
    metric_name = metric_title(rows)
    labels = [pareto.labels(group.rows, lambda row: row.metric, higher_is_better=is_higher_better) for group in shown]
    keys = [_key(group, label, unit, unit_name) for group, label in zip(shown, labels, strict=True)]
    figure, panels = canvas.sheet(
        _title(shown, f"{metric_name} against latency"),
        [
            (_panel_title(g, shown), max(_SCATTER_HEIGHT, canvas.LINE * len(key)))
            for g, key in zip(shown, keys, strict=True)
        ],
        left=0.75,
        right=canvas.text_width(text for key in keys for text, _ in key) + 0.25,
        handles=canvas.handles_of((row.runtime for row in rows), looks, as_bars=False),
        footnote=f"{MEANING} Line and numbers: the Pareto front, which no other cell beats in "
        "both; figures that agree to four digits count as equal. B: the baseline off the front. Hollow: "
        f"broken, never on the front; at the edge where it lies beyond the axis. {_absent(groups, shown)}",
    )
    better = "higher is better \N{UPWARDS ARROW}" if is_higher_better else "lower is better \N{DOWNWARDS ARROW}"
    for group, axes, label, key in zip(shown, panels, labels, keys, strict=True):
        _latency_axis(axes, group.rows, unit, unit_name)
        low, high = metric_limits(group.rows)
        axes.set_ylim(low, high)
        axes.grid(color="#E5E5E5", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.set_ylabel(f"{metric_name}, {better}")
        points = {
            row.cell: ((row.latency_p50_ns or 0) / unit, min(high, max(low, row.metric or 0))) for row in group.rows
        }
        for row in sorted(group.rows, key=lambda row: row.cell in label):  # the labelled on top
            edge = "black" if row.cell in label else None
            _point(axes, row, points[row.cell][1], unit, looks[row.runtime], size=6, edge=edge)
        corners = [points[cell] for cell in pareto.front(label)]
        if corners:
            xs, ys = zip(*corners, (axes.get_xlim()[1], corners[-1][1]), strict=True)
            axes.step(xs, ys, where="post", color="#444444", linewidth=1, zorder=1)
        marks = [(label[cell], xy) for cell, xy in points.items() if cell in label]
        canvas.place_labels(axes, list(points.values()), marks, upward=is_higher_better)
        for index, (text, is_bold) in enumerate(key):
            offset = (14, -canvas.LINE * 72 * index)
            canvas.write(axes, text, (1, 1), offset, is_bold=is_bold, xycoords="axes fraction", va="top")
    return figure


def _key(group: Group, labels: Mapping[str, str], unit: float, unit_name: str) -> list[tuple[str, bool]]:
    """Lines beside a panel that name its labels and its broken cells; True for a heading."""
    by_cell = {row.cell: row for row in group.rows}
    parts = {
        "Pareto front, fastest first": [by_cell[cell] for cell in pareto.front(labels)],
        "Off the front": [row for row in group.rows if labels.get(row.cell) == "B"],
        "Broken, not ranked": [row for row in group.rows if row.fidelity == "broken"],
    }
    lines: list[tuple[str, bool]] = []
    for heading, row in [(heading, row) for heading, rows in parts.items() for row in rows]:
        if (heading, True) not in lines:
            lines.append((heading, True))
        latency, metric = canvas.digits((row.latency_p50_ns or 0) / unit, 4), canvas.digits(row.metric or 0.0, 4)
        name = f"{labels.get(row.cell, '')} {short_name(row)}{' (baseline)' * is_baseline(row)}".strip()
        lines += [(name, False), (f"     {latency} {unit_name}, {metric}", False)]
    return lines


def metric_title(rows: Iterable[Row]) -> str:
    """The name of the rows' metric for an axis, with its unit."""
    name = next((row.metric_name for row in rows if row.metric_name), "metric")
    return name.removesuffix("_db").replace("_", " ") + (" (dB)" if name.endswith("_db") else "")


def metric_limits(rows: Sequence[Row]) -> tuple[float, float]:
    """Both ends of an axis for the metric of rows that have one.

    Ranked rows and those near them decide: a broken row far off would squeeze the differences that matter to nothing.
    """
    values = [row.metric for row in rows if row.metric is not None]
    ranked = [row.metric for row in rows if row.metric is not None and is_ranked(row)] or values
    low, high = min(ranked), max(ranked)
    near = [value for value in values if low - (high - low) <= value <= high + (high - low)]
    low, high = min(near), max(near)
    pad = max(0.15 * (high - low), 2e-3 * abs(high), 1e-3 if high == low == 0 else 0.0)
    return low - pad, high + pad
