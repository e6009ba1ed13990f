"""Figures of services under load: latency by rate with the knee, latency by percentile, and the queue over time."""

from __future__ import annotations

import collections
import hashlib
import itertools
import math
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.features.load import render as report
from bench.features.load.lines import HIGHEST, P99, SHAPE, LoadLaunch, LoadRun, launches_of
from bench.features.load.loadgen import SERVER
from bench.features.load.turns import Turns, Way, last, last_runs
from bench.measure.stats import Estimate, min_samples
from bench.records.folder import Results
from bench.records.rows import Row
from bench.records.store import Record
from bench.report import writing
from bench.report.figures import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT, QUEUE_HEIGHT, BAR, LEFT = 3.4, 1.3, 0.2, 0.75  # inches
CLOSE = 1.12  # ratio of rates whose latencies share a median
_LOG_RANGE = 5.0  # a wider range of rates gets a logarithmic axis
PAD = 1.15  # ratio of an end of a logarithmic axis to the value next to it
_TICKS = (0.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9)
"""Percentiles that an axis names, besides the last."""
_LAST = 3.5
"""Where the largest latency stands on an axis of percentiles, on which 99 % stand at 2 and 99.9 % at 3."""
LONGEST_NAME = 120
_EDGED: Any = {"ms": 6.5, "mec": "black", "mew": 0.7, "zorder": 4}
"""Look of the mark of a highest rate."""
_KNEE = (
    "Dots: each rate that was tried in each launch. Marks: medians over rates within {:.0f} % of one another. Edged "
    "marks, and the panel below: the highest rate at which the latency keeps the bound (dashed), with its 95 % "
    "interval. Crosses: rates with which a service could not keep up. Services: {}."
)
_HIGHEST_RATES = (
    "The rate at which the latency of a service comes to the bound, with its 95 % interval.{} Services: {}."
)
LOST = " Crosses: rates with which a service could not keep up."
"""Of figures that show such a rate."""
_RATES = "rates"
"""End of the name of the figure of the highest rates alone."""
PERCENTILES = (
    "Latency from the time at which a request is due to its answer, under the same arrivals for all; medians over the "
    "launches. The axis of the percentiles p is logarithmic in 1 / (1 - p). Dotted, hollow: a launch has too few "
    "requests to tell these percentiles well. Services: {}. {}"
)
_QUEUE = (
    "Server scenario of MLPerf's load generator{}; {}. Waiting: requests that were sent and not answered, with those "
    "of the running inferences."
)


def draw(records: Iterable[Record], all_turns: Iterable[Turns], folder: Path) -> list[Path]:
    """Write `<request>-knee`, `-rates` and `-percentiles` for what took turns, `<cell>-queue` for server scenarios.

    A figure that would show nothing is not written. The name of a file tells what was asked: a figure of the same
    question is replaced.

    Args:
        records: the cells whose last server scenarios are drawn, one for each way to serve a cell.
        all_turns: what took turns.
        folder: folder of the figures, which is made where it is missing.

    Returns:
        The paths of the figures, each as .png and .svg.
    """
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    drawn: collections.Counter[str] = collections.Counter()
    with matplotlib.rc_context(canvas.STYLE):
        for name, figure in _figures(records, all_turns):
            drawn[name] += 1
            stem = name if drawn[name] == 1 else f"{name}-{drawn[name]}"
            paths += [canvas.save(figure, folder / f"{stem}.{suffix}") for suffix in ("png", "svg")]
    return paths


def paths(stored: Results, rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the services that took turns last, of the cells of some rows, into a folder; returns the files."""
    cells = {record.cell for row in rows if (record := stored.records.get(row.cell)) and launches_of(record)}
    return draw((), last(stored.records, cells), folder) if cells else []


def drawings(records: Iterable[Record], all_turns: Iterable[Turns]) -> list[bytes]:
    """The same figures as SVG, but for `-rates`, which is a part of the knee."""
    import matplotlib

    with matplotlib.rc_context(canvas.STYLE):
        shown = [figure for name, figure in _figures(records, all_turns) if not name.endswith(f"-{_RATES}")]
        return [canvas.content(figure, "svg") for figure in shown]


def names(ways: Iterable[Way]) -> tuple[dict[Way, str], str]:
    """What tells services apart, and what they share.

    Returns:
        By service, the parts of its cell's path that differ between services, and how it is served where that differs;
        a service that is alone has all parts after the task. And a glob that matches all cells, with how they are
        served where that is the same.
    """
    parts = {way: (*way.cell.path.split("/"), str(way.setup)) for way in ways}
    *differs, is_served_apart = (len(set(column)) > 1 for column in zip(*parts.values(), strict=True))
    shown = differs if any((*differs, is_served_apart)) else [False, *[True] * (len(differs) - 1)]
    labels = {}
    for way, (*path, served) in parts.items():
        name = "/".join(itertools.compress(path, shown))
        labels[way] = ", ".join(filter(None, (name, served if is_served_apart else "")))
    *path, served = next(iter(parts.values()))
    glob = "/".join("*" if differ else part for part, differ in zip(path, differs, strict=True))
    return labels, glob if is_served_apart else f"{glob}, {served}"


def _figures(records: Iterable[Record], all_turns: Iterable[Turns]) -> Iterator[tuple[str, Figure]]:
    for turns in all_turns:
        cell = turns.baseline.cell
        parts = [str(cell.task), f"b{cell.batch}t{cell.threads}", _served(turns.baseline)]
        parts += [f"{turns.rate:.4g}rps"] if turns.rate is not None else []
        parts += [f"{turns.bound[0]}-{turns.bound[1] / 1e6:g}ms"] if turns.bound else []
        for what, figure in (("knee", _knee(turns)), (_RATES, _rates(turns)), ("percentiles", _percentiles(turns))):
            if figure is not None:
                yield _file_name(*parts, what), figure
    for record in records:
        for (scenario, way), run in last_runs(record).items():
            if scenario == SERVER and any(run.waiting):
                yield _file_name(*way.cell.path.split("/"), _served(way), "queue"), _queue(way, run)


def _served(way: Way) -> str:
    """How a cell is served, in the name of a file; empty for one worker that answers one request at a time."""
    setup, batching = way.setup, way.setup.batching
    sessions = f"{setup.sessions}s" if setup.sessions > 1 else ""
    delay = f"+{batching.delay_ns / 1e6:g}ms" if batching.delay_ns else ""
    served = f"{setup.instances}{sessions}x{batching.most}{delay}"
    return "" if served == "1x1" else served


def _file_name(*parts: str) -> str:
    name = "-".join(re.sub(r"[^A-Za-z0-9_.@=,+-]", "_", part) for part in parts if part)
    end = f"-{hashlib.sha256(name.encode()).hexdigest()[:8]}-{parts[-1]}"
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - len(end)] + end


Rates = list[tuple[float, float]]
"""Rates, in order, with the milliseconds of the latency there."""


class _Services:
    """The services of a figure: by service, its name and its look, which are the same in all figures of the turns."""

    def __init__(self, turns: Turns) -> None:
        plain, self.shared = names(turns.launches)
        looks = canvas.looks_of(plain.values())
        self.baseline = None if turns.is_plan else turns.baseline
        self.names = {way: f"{name} (baseline)" if way == self.baseline else name for way, name in plain.items()}
        self._lines: dict[Way, dict[str, Any]] = {
            way: {"color": looks[name].colour, "marker": looks[name].marker, "lw": 1.8 if way == self.baseline else 1.2}
            for way, name in plain.items()
        }

    def look(self, way: Way, **more: Any) -> dict[str, Any]:
        """Arguments of matplotlib's `plot`."""
        return self._lines[way] | more

    def handles(self, ways: Iterable[Way]) -> list[Any]:
        """Matplotlib's handles of a legend."""
        from matplotlib.lines import Line2D

        return [Line2D([], [], ms=4, label=self.names[way], **self._lines[way]) for way in ways]


def _knee(turns: Turns) -> Figure | None:
    """The bounded percentile by rate, and below it the highest rates."""
    tried = _all_tried(turns)
    if turns.bound is None or not tried:
        return None
    latencies = [ms for points in tried.values() for _, ms in points if math.isfinite(ms)]
    services, highest, bound = _Services(turns), {way: turns.highest_rate(way) for way in tried}, report.bound(turns)
    notes = _notes(turns, highest)
    statistic, most_ms = turns.bound[0], turns.bound[1] / 1e6
    figure, (above, below) = canvas.sheet(
        f"{turns.baseline.cell.task}: {statistic} of the latency by rate",
        [("", HEIGHT), ("", BAR * max(2, len(tried)))],
        left=LEFT,
        right=canvas.text_width([*notes.values(), bound]) + 0.2,
        handles=services.handles(tried),
        footnote=_KNEE.format(100 * (CLOSE - 1), services.shared),
    )
    canvas.name_lines(below, [canvas.Line("", note, way == services.baseline) for way, note in notes.items()])
    _scale(above, "y", [*latencies, most_ms])
    _scale(above, "x", _drawn_rates(tried, highest))
    _mark_rates(below, services, tried, highest)
    above.set(xlabel="rate (requests/s)", ylabel=_latency_title(f"{statistic} of the latency"))
    below.set_xlabel(_rate_title(bound))
    above.axhline(most_ms, color="#444444", linestyle="--", linewidth=0.9, zorder=1)
    beside = above.get_yaxis_transform()
    canvas.write(above, bound, (1, most_ms), (6, 0), is_bold=False, xycoords=beside, va="center_baseline")
    for way, points in tried.items():
        answered = [point for point in points if math.isfinite(point[1])]
        above.plot(*_columns(answered), **services.look(way, marker="o", ms=2.2, mew=0, ls="", alpha=0.5))
        above.plot(*_columns(_medians(points)), **services.look(way, ms=4))
        if (best := highest[way]) is not None:
            look = services.look(way, **_EDGED, ls=":", lw=1, markevery=[0])
            above.plot([best.value] * 2, [most_ms, above.get_ylim()[0]], **look)
    return figure


def _rates(turns: Turns) -> Figure | None:
    """The highest rates alone."""
    tried = _all_tried(turns)
    if turns.bound is None or not tried:
        return None
    services, highest, bound = _Services(turns), {way: turns.highest_rate(way) for way in tried}, report.bound(turns)
    notes = _notes(turns, highest)
    figure, (axes,) = canvas.sheet(
        f"{turns.baseline.cell.task}: highest rate at {bound}",
        [("", 1.2 * BAR * max(2, len(tried)))],
        left=canvas.text_width(services.names.values()) + 0.1,
        right=canvas.text_width(notes.values()) + 0.15,
        handles=[],
        footnote=_HIGHEST_RATES.format(LOST if any(map(_lost, tried.values())) else "", services.shared),
    )
    lines = [canvas.Line(services.names[way], note, way == services.baseline) for way, note in notes.items()]
    canvas.name_lines(axes, lines)
    _mark_rates(axes, services, tried, highest)
    axes.set_xlabel(_rate_title(bound))
    return figure


def _mark_rates(
    axes: Axes, services: _Services, tried: Mapping[Way, Rates], highest: Mapping[Way, Estimate | None]
) -> None:
    """The highest rate of each service on its line, with its interval, and the rates with which it did not keep up."""
    rates = _drawn_rates(tried, highest)
    _scale(axes, "x", rates)
    for index, (way, points) in enumerate(tried.items()):
        lost = _lost(points)
        axes.plot(lost, [index] * len(lost), color="#777777", marker="x", ms=3.5, ls="")
        if (best := highest[way]) is not None:
            ends = [[best.value - best.low], [min(best.high, 10 * max(rates)) - best.value]]
            axes.errorbar(best.value, index, xerr=ends, **services.look(way, **_EDGED, elinewidth=1.4, capsize=2))


def _lost(points: Rates) -> list[float]:
    """The rates with which a service could not keep up."""
    return [rate for rate, ms in points if math.isinf(ms)]


def _drawn_rates(tried: Mapping[Way, Rates], highest: Mapping[Way, Estimate | None]) -> list[float]:
    return [rate for points in tried.values() for rate, _ in points] + [
        estimate.value for estimate in highest.values() if estimate
    ]


def _rate_title(bound: str) -> str:
    return f"highest rate at {bound} (requests/s), higher is better \N{RIGHTWARDS ARROW}"


def _notes(turns: Turns, highest: Mapping[Way, Estimate | None]) -> dict[Way, str]:
    """The highest rate of each service with its interval, or why there is none."""
    notes = {}
    for way, estimate in highest.items():
        shown = [report.rate(value) for value in (estimate.value, estimate.low, estimate.high)] if estimate else []
        notes[way] = "{} [{}, {}]".format(*shown) if shown else report.without(turns, way)
    return notes


def _all_tried(turns: Turns) -> dict[Way, Rates]:
    """The rates that were tried with each service, the best service first; empty where none answered at any rate."""
    tried = {way: _tried(turns.launches[way]) for way in report.ordered(turns, HIGHEST)}
    is_answered = any(math.isfinite(ms) for points in tried.values() for _, ms in points)
    return {way: points for way, points in tried.items() if points} if is_answered else {}


def _tried(launches: Iterable[LoadLaunch]) -> Rates:
    """The rates that were tried, in order, with the milliseconds there; infinite where the service did not keep up."""
    points = [point for launch in launches for point in launch.curve]
    return sorted((rate, math.inf if latency_ns is None else latency_ns / 1e6) for rate, latency_ns in points)


def _medians(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The medians of ordered points over rates that are close; none where the service mostly did not keep up."""
    bins: list[list[tuple[float, float]]] = []
    for point in points:
        if not bins or point[0] > CLOSE * bins[-1][0][0]:
            bins.append([])
        bins[-1].append(point)
    medians = [(statistics.median(rates), statistics.median_high(ms)) for rates, ms in map(_columns, bins)]
    return [median for median in medians if math.isfinite(median[1])]


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _percentiles(turns: Turns) -> Figure | None:
    """The latency at each percentile, for each service that kept up."""
    launches = {
        way: [launch for launch in turns.launches[way] if len(launch.shape_ns) == len(SHAPE)] for way in turns.launches
    }
    shown = [way for way in report.ordered(turns, P99) if launches[way]]
    if turns.rate is None or not shown:
        return None
    services = _Services(turns)
    late = "; ".join(services.names[way] for way in turns.launches if not launches[way])
    figure, (axes,) = canvas.sheet(
        f"{turns.baseline.cell.task}: latency at {report.rate(turns.rate)} requests/s",
        [("", HEIGHT)],
        left=LEFT,
        right=0.2,
        handles=services.handles(shown),
        footnote=PERCENTILES.format(services.shared, f"Could not keep up: {late}." if late else ""),
    )
    drawn = []
    places = [_LAST if percent == 100 else _place(percent) for percent in SHAPE]
    for way in shown:
        shape = [
            statistics.median(column) / 1e6
            for column in zip(*(launch.shape_ns for launch in launches[way]), strict=True)
        ]
        requests = statistics.median_low(sum(launch.requests) for launch in launches[way])
        num_clear = sum(percent < 100 and min_samples(percent) <= requests for percent in SHAPE)
        rest = slice(max(0, num_clear - 1), None)
        axes.plot(places[rest], shape[rest], **services.look(way, ms=4, ls=":", mfc="white"))
        axes.plot(places[:num_clear], shape[:num_clear], **services.look(way, ms=4))
        drawn += shape
    _scale(axes, "y", drawn)
    axes.set_xticks([*map(_place, _TICKS), _LAST], [*(f"{percent:g} %" for percent in _TICKS), "max"])
    axes.set(xlabel="percentile of the requests", ylabel=_latency_title("latency"))
    return figure


def _place(percent: float) -> float:
    return -math.log10(1 - percent / 100)


def _queue(way: Way, run: LoadRun) -> Figure:
    """The requests that waited, and those of each inference where it answers several, over a run."""
    from matplotlib.ticker import MaxNLocator

    panels = {"requests waiting": run.waiting}
    if any(batch > 1 for batch in run.batches):
        panels["requests of the\nrunning inference"] = run.batches
    title = f"{way.cell.path.partition('/')[2]}, {way.setup!s}"
    wrapped = (writing.wrap_name(title, width) for width in itertools.count(72, 8))
    heading = next(text for text in wrapped if text.count("\n") < 2)
    rate = run.settings.get("server_target_qps")
    at_rate = f" at {report.rate(rate)} requests/s" if rate else ""
    figure, all_axes = canvas.sheet(
        f"{way.cell.task}: the queue of the server scenario",
        [(heading, QUEUE_HEIGHT), ("", QUEUE_HEIGHT)][: len(panels)],
        left=LEFT,
        right=0.2,
        handles=[],
        footnote=_QUEUE.format(at_rate, "valid" if run.is_valid else report.invalid(run)),
    )
    for axes, (label, values), colour in zip(all_axes, panels.items(), canvas.COLOURS, strict=False):
        shares = [100 * index / max(1, len(values) - 1) for index in range(len(values))]
        axes.step(shares, values, where="post", color=colour, linewidth=1)
        axes.fill_between(shares, values, step="post", color=colour, alpha=0.25, linewidth=0)
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.set(xlim=(0, 100), ylim=(0, 1.08 * max(values)), ylabel=label)
        axes.grid(color="#E5E5E5", linewidth=0.6)
        axes.set_axisbelow(True)
    all_axes[-1].set_xlabel("share of the run (%)")
    return figure


def _latency_title(name: str) -> str:
    return f"\N{LEFTWARDS ARROW} {name} (ms, log scale), lower is better"


def _scale(axes: Axes, which: str, values: Iterable[float]) -> None:
    """Set up an axis, `x` or `y`, for values above zero: logarithmic if it is vertical or the range is wide."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    ordered, axis = sorted(values), axes.xaxis if which == "x" else axes.yaxis
    least, most = ordered[0], ordered[-1]
    is_wide, margin = most > _LOG_RANGE * least, 0.04 * (most - least) or 0.1 * most
    if is_wide or which == "y":
        axes.set(**{f"{which}scale": "log", f"{which}lim": (least / PAD, most * PAD)})
    else:
        axes.set(**{f"{which}lim": (least - margin, most + margin)})
    steps = (1, 2, 5) if most < 300 * least else (1,)
    axis.set_major_locator(LogLocator(subs=steps) if is_wide else MaxNLocator(6))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.grid(color="#E5E5E5", linewidth=0.6)
    axes.set_axisbelow(True)
