"""The figure of the decisions: for each task each runtime's best deployment, and what its metric loses."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api.fidelity import FidelityTask
from bench.decisions.answer import Answer
from bench.records import machines, ranking
from bench.records.rows import Row
from bench.report import outcome, writing
from bench.report.figures import canvas
from bench.report.figures.whiskers import whisker
from bench.report.words import in_words, metric_title, request_in_words, title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "overview"
_NUM_COLUMNS = {"": 2, "narrow-": 1}
"""Panels beside each other, at most, by what stands in a file's name: a telephone shows the narrow figure."""
_BAR, _BAR_HEIGHT = 0.22, 0.62
"""Inches from one line to the next, and the share of these that a bar takes."""
BARS, NOTES, BETWEEN = 2.2, 0.95, 0.35
"""Width in inches of the bars and of the notes at their right, and between two panels."""
_PANEL_TITLE = 0.7
_TITLE_ABOVE, _PATH_ABOVE, _SURE_ABOVE = 30, 18, 5
"""Points above the bars of a panel's title, of the path of its answer, and of the line that says how sure that is."""
_CAPTION = 12
"""Points from one of these lines to the next, where it takes several."""
_BESIDE = 1.15
"""Width in inches of the text beside the longest bar."""
_MOST_BARS = 8
MEANING = (
    "Above the bars: what to ship, and how sure that is. Bars: latency, less is better; beside it, how many times "
    "as fast as the baseline (grey), with the whisker of its 95 % interval. At the right: what is lost of the "
    "metric, in per cent of it or in dB; without labels, how far the outputs are off, in per cent of the signal. Of "
    "each runtime the fastest deployment that keeps to the limit of the metric and is faster than the baseline; "
    "bold, in the stronger colour: the one to ship; hollow: faster, but it loses more than the limit{}, or may."
)


@dataclasses.dataclass(frozen=True)
class Theme:
    """Colours of the figure on a light or on a dark page."""

    text: str
    faint: str
    shipped: str
    other: str
    baseline: str


THEMES = {
    "light": Theme(text="#1F2328", faint="#59636E", shipped="#0072B2", other="#9CCBE8", baseline="#B8BEC5"),
    "dark": Theme(text="#F0F6FC", faint="#9198A1", shipped="#56B4E9", other="#2B6A92", baseline="#5B636D"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bar:
    """A deployment in the figure.

    Attributes:
        row: its row.
        is_shipped: whether it is the one to ship; none is where the data do not decide.
        is_lossy: whether it loses more of the metric than is allowed, or may.
    """

    row: Row
    is_shipped: bool
    is_lossy: bool


def draw(answers: Sequence[Answer], folder: Path) -> list[Path]:
    """Write `overview-light.svg` and `overview-dark.svg`, for pages of either colour, and the same with `-narrow`.

    Args:
        answers: the answers, one panel each; an answer of which nothing qualifies has none.
        folder: folder of the figures, which is made where it is missing.

    Returns:
        Their paths.
    """
    import matplotlib

    shown = [answer for answer in answers if answer.choice.leading is not None]
    if not shown:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, theme in THEMES.items():
        # A page shows the figure as a picture, without the fonts of the reader's machine: text becomes outlines.
        style = {**canvas.STYLE, "svg.fonttype": "path", "text.color": theme.text, "savefig.transparent": True}
        with matplotlib.rc_context(style):
            for kind, most in _NUM_COLUMNS.items():
                paths.append(canvas.save(_figure(shown, theme, most), folder / f"{NAME}-{kind}{name}.svg"))
    return paths


def bars_of(answer: Answer) -> list[Bar]:
    """The bars of an answer, the fastest first: see `MEANING`."""
    choice = answer.choice
    shipped, chosen = choice.shipped, (choice.shipped, choice.leading)
    lossy = [choice.faster] if choice.faster else []
    baselines = [row for row in choice.group.rows if ranking.is_baseline(row) and ranking.is_timed(row)]
    rows = sorted(choice.qualified.rows, key=lambda row: (row not in chosen, row.latency_p50_ns or math.inf))
    first: dict[str, Row] = {}
    for row in rows:
        if not ranking.is_baseline(row):
            first.setdefault(title_of(row.runtime), row)
    faster = [row for row in first.values() if row in chosen or (row.ratio or 1.0) < 1.0][: _MOST_BARS - len(lossy)]
    bars = [Bar(row=row, is_shipped=row is shipped, is_lossy=False) for row in (*faster, *baselines)]
    bars += [Bar(row=row, is_shipped=False, is_lossy=True) for row in lossy]
    return sorted(bars, key=lambda bar: bar.row.latency_p50_ns or math.inf)


def _figure(answers: Sequence[Answer], theme: Theme, most_columns: int) -> Figure:
    from matplotlib.figure import Figure

    bars = [bars_of(answer) for answer in answers]
    names = canvas.text_width(in_words(bar.row) for own in bars for bar in own) + 0.1
    num_columns = min(most_columns, len(bars))
    width = 2 * canvas.MARGIN + num_columns * (names + BARS + NOTES + BETWEEN) - BETWEEN
    where = machines.headline(bar.row for own in bars for bar in own)
    limit = answers[0].constraints.max_metric_loss
    notes = textwrap.wrap(
        f"{MEANING.format(f' of {limit}' if limit else '')} {where}", int((width - 2 * canvas.MARGIN) / 0.053)
    )
    captions = [_wrapped(sure(answer), names + BARS + NOTES) for answer in answers]
    starts = range(0, len(bars), num_columns)
    heights = [_BAR * max(map(len, bars[start : start + num_columns])) for start in starts]
    most = [max(map(len, captions[start : start + num_columns])) for start in starts]
    titles = [_PANEL_TITLE + _CAPTION * (num_lines - 1) / 72 for num_lines in most]
    height = canvas.MARGIN + sum(titles) + sum(heights) + canvas.GAP * len(heights)
    height += canvas.LINE * len(notes) + canvas.MARGIN
    figure = Figure(figsize=(width, height))
    figure.text(
        canvas.MARGIN / width,
        canvas.MARGIN / height / 2,
        "\n".join(notes),
        va="bottom",
        color=theme.faint,
        fontsize=7.5,
        linespacing=1.3,
    )
    top = height - canvas.MARGIN
    for start, num_lines, title, panel in zip(starts, most, titles, heights, strict=True):
        top -= title + panel
        for number in range(start, min(start + num_columns, len(bars))):
            left = canvas.MARGIN + names + (number - start) * (names + BARS + NOTES + BETWEEN)
            bottom = top + panel - _BAR * len(bars[number])
            box = (left / width, bottom / height, BARS / width, _BAR * len(bars[number]) / height)
            caption = captions[number] + [""] * (num_lines - len(captions[number]))
            _panel(figure.add_axes(box), answers[number], bars[number], caption, theme, names)
        top -= canvas.GAP
    return figure


def _wrapped(text: str, width: float) -> list[str]:
    """The text in lines of at most so many inches."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and canvas.text_width([longer]) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _panel(axes: Axes, answer: Answer, bars: Sequence[Bar], caption: Sequence[str], theme: Theme, names: float) -> None:
    longest = max(bar.row.latency_p50_ns or 0.0 for bar in bars)
    axes.set_xlim(0, longest * BARS / (BARS - _BESIDE))
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_axis_off()
    metric = "Outputs" if _is_of_outputs(bars[0].row) else metric_title(bars[0].row.metric_name or "")
    beside = axes.get_yaxis_transform()
    above: dict[str, Any] = {"xycoords": "axes fraction", "va": "bottom"}
    group = answer.choice.group
    left, title = (-names / BARS, 1), group.title.replace(group.task, request_in_words(group.task), 1)
    more = _CAPTION * (len(caption) - 1)
    canvas.write(axes, title, left, (0, _TITLE_ABOVE + more), is_bold=True, fontsize=9.5, **above)
    canvas.write(axes, metric, (1, 1), (6, _TITLE_ABOVE + more), is_bold=False, color=theme.faint, **above)
    leading = answer.choice.leading
    if leading is not None:
        path = ("" if answer.choice.shipped else "looks fastest: ") + ranking.short_name(leading)
        canvas.write(axes, path, left, (0, _PATH_ABOVE + more), is_bold=False, color=theme.faint, **above)
    for line, text in enumerate(reversed(caption)):
        offset = (0, _SURE_ABOVE + line * _CAPTION)
        canvas.write(axes, text, left, offset, is_bold=False, color=theme.faint, **above)
    for index, bar in enumerate(bars):
        row = bar.row
        latency = row.latency_p50_ns or 0.0
        colour = theme.shipped if bar.is_shipped else theme.baseline if ranking.is_baseline(row) else theme.other
        face = "none" if bar.is_lossy else colour
        axes.barh(index, latency, height=_BAR_HEIGHT, color=face, edgecolor=colour, linewidth=1)
        ends = whisker(row)
        if ends is not None:
            axes.plot(ends, (index, index), color=theme.text, linewidth=1, solid_capstyle="butt")
        look: dict[str, Any] = {"is_bold": bar.is_shipped, "va": "center_baseline"}
        canvas.write(axes, in_words(bar.row), (0, index), (-6, 0), ha="right", **look)
        canvas.write(axes, _latency(row), (max(latency, *(ends or (0.0,))), index), (5, 0), **look)
        canvas.write(axes, lost(row), (1, index), (6, 0), xycoords=beside, **look)


def sure(answer: Answer) -> str:
    """How much slower than the fastest, and how much worse, the deployment to ship may be, with 95 % confidence."""
    row, text = answer.choice.shipped, outcome.regret(answer)
    if row is not None and row.metric_loss_high is not None and (bound := outcome.metric_bound(row)):
        text += f", {metric_title(row.metric_name or '')} {bound}"
    certain = " (95\N{NO-BREAK SPACE}%)" if row is not None else ""
    return f"{text[0].upper()}{text[1:]}{certain}"


def lost(row: Row) -> str:
    """What a deployment loses of the metric; of a task without labels, by how much its outputs are off."""
    if row.metric_loss is None:
        return writing.DASH
    change = outcome.metric_change(row)
    return (change.replace("worse", "off") if _is_of_outputs(row) else change) or "same"


def _is_of_outputs(row: Row) -> bool:
    return row.metric_name == FidelityTask.metric_name


def _latency(row: Row) -> str:
    latency = f"{writing.milliseconds(row.latency_p50_ns, '.3g')} ms"
    return latency if ranking.is_baseline(row) or not row.ratio else f"{latency}, {1 / row.ratio:.2g}x"
