"""Figures of a model at several sizes: latency and memory against the size, as PNG and SVG."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.decisions.sizes import Family
from bench.records.ranking import is_baseline, is_ranked, short_name
from bench.records.rows import Row
from bench.report.columns import unit_of
from bench.report.figures import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 2.6
_LOG_RANGE = 5.0  # a wider range of values gets a logarithmic axis
_FOOTNOTE = (
    "A line for each runtime's best deployment at the largest size, for the baseline (bold), and for the deployments "
    "that the table names as the fastest. Names: in the order of the last values. The sizes, and a wide range of "
    "values, are on logarithmic axes."
)


def draw(families: Sequence[Family], folder: Path) -> list[Path]:
    """Write a figure for each family, as .png and .svg, and return their paths.

    Args:
        families: the families.
        folder: folder of the figures, which is made where it is missing.
    """
    import matplotlib

    groups = [group for family in families for group in family.groups.values()]
    looks = canvas.looks_of(row.runtime for group in groups for row in group.rows)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with matplotlib.rc_context(canvas.STYLE):
        for family in families:
            if lines := _lines(family):
                figure = _figure(family, lines, looks)
                paths += [canvas.save(figure, folder / f"{family.name}.{suffix}") for suffix in ("png", "svg")]
    return paths


def _lines(family: Family) -> dict[str, dict[int, Row]]:
    """The rows of the deployments that are drawn, by size."""
    largest = max(family.groups)
    by_name: dict[str, dict[int, Row]] = {}
    for size, group in family.groups.items():
        for row in filter(is_ranked, group.rows):
            by_name.setdefault(short_name(row), {})[size] = row
    best: dict[str, str] = {}
    for row in filter(is_ranked, family.groups[largest].rows):  # they are in order
        best.setdefault(row.runtime, short_name(row))
    baselines = {short_name(row) for group in family.groups.values() for row in group.rows if is_baseline(row)}
    wanted = {*best.values(), *baselines, *(stretch.deployment for stretch in family.stretches)}
    return {name: rows for name, rows in by_name.items() if name in wanted}


def _figure(family: Family, lines: Mapping[str, Mapping[int, Row]], looks: Mapping[str, canvas.Look]) -> Figure:
    rows = [row for by_size in lines.values() for row in by_size.values()]
    names = [f"{name} " for name in lines]
    figure, (above, below) = canvas.sheet(
        f"{family.task} by {family.dim}, {family.others}",
        [("", max(HEIGHT, canvas.LINE * len(lines)))] * 2,
        left=0.75,
        right=canvas.text_width(names) + 0.25,
        handles=canvas.handles_of((row.runtime for row in rows), looks, as_bars=False),
        footnote=_FOOTNOTE,
    )
    time, time_name = unit_of("latency_p50_ns", rows)
    _panel(above, family, lines, looks, lambda row: (row.latency_p50_ns or 0) / time)
    above.set_ylabel(f"latency p50 ({time_name}), lower is better \N{LEFTWARDS ARROW}")
    memory, memory_name = unit_of("model_rss_bytes", rows)
    _panel(below, family, lines, looks, lambda row: (row.model_rss_bytes or 0) / memory)
    below.set_ylabel(f"memory of the model ({memory_name})")
    return figure


def _panel(
    axes: Axes,
    family: Family,
    lines: Mapping[str, Mapping[int, Row]],
    looks: Mapping[str, canvas.Look],
    value: Callable[[Row], float],
) -> None:
    """A line for each deployment, with its name to the right in the order of the last values."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    drawn = {name: {size: value(row) for size, row in rows.items() if value(row) > 0} for name, rows in lines.items()}
    values = [number for by_size in drawn.values() for number in by_size.values()]
    axes.set_xscale("log")
    if values and max(values) > _LOG_RANGE * min(values):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(FixedLocator(list(family.groups)))
    axes.xaxis.set_minor_locator(NullLocator())
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
    axes.grid(color="#E5E5E5", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel(family.dim)
    ends = sorted(((values[max(values)], name) for name, values in drawn.items() if values), reverse=True)
    for index, (_, name) in enumerate(ends):
        by_size, rows = drawn[name], lines[name]
        row = next(iter(rows.values()))
        look, is_bold = looks[row.runtime], any(map(is_baseline, rows.values()))
        axes.plot(
            list(by_size),
            list(by_size.values()),
            color=look.colour,
            marker=look.marker,
            markersize=4,
            linewidth=1.8 if is_bold else 1,
        )
        offset = (14, -canvas.LINE * 72 * index)
        canvas.write(axes, name, (1, 1), offset, is_bold=is_bold, xycoords="axes fraction", va="top")
    if axes.get_yscale() == "linear":
        axes.set_ylim(0, 1.08 * max(values, default=1.0))
