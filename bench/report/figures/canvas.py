"""Parts that all figures share: palette, panels laid out in inches, named lines, and files written whole or never."""

from __future__ import annotations

import collections
import dataclasses
import functools
import io
import itertools
import math
import textwrap
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api.printable import printable
from bench.records.store import write_atomically
from bench.report.writing import unbroken

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito, "Color Universal Design" (2008); yellow last, it is faint on white.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#F0E442")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++++", "oooo", "----")
_SHIFTS = (0, 4, 2, 6, 1, 5, 3, 7)
"""How far the markers move each time that all colours were given: those of one colour are far apart in `MARKERS`."""
STYLE: Any = {
    "font.family": ["DejaVu Sans"],
    "font.size": 8.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.0,
    "axes.titlelocation": "left",
    "axes.formatter.useoffset": False,
    "hatch.linewidth": 0.6,
    "text.parse_math": False,  # a `$` in a name is a dollar
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "bench",  # the same rows give the same file
}
# Inches.
MARGIN, TITLE, LINE, PANEL_TITLE, GAP, X_AXIS = 0.15, 0.42, 0.17, 0.3, 0.1, 0.55
_PLOT_WIDTH = 5.5
_DISTANCES = (11, 16, 23, 32, 44)  # of a label from its mark, in points


@dataclasses.dataclass(frozen=True)
class Look:
    """Colour, marker and hatch of one runtime: no two runtimes differ by colour alone."""

    colour: str
    marker: str
    hatch: str


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of a panel: a name on the left, a note on the right."""

    name: str
    note: str
    is_bold: bool = False


def looks_of(runtimes: Iterable[str]) -> dict[str, Look]:
    """A look for each runtime; those named most often come first, so that the first eight share no colour.

    Args:
        runtimes: the runtime of each row.
    """
    counted = collections.Counter(runtimes)
    looks = {}
    for index, name in enumerate(sorted(counted, key=lambda name: (-counted[name], name))):
        mark = (index + _SHIFTS[index // 8 % 8]) % 8
        looks[name] = Look(COLOURS[index % 8], MARKERS[mark], HATCHES[mark])
    return looks


def save(figure: Figure, path: Path) -> Path:
    """Write a figure in the format of the path's suffix, whole or not at all, and return the path."""
    write_atomically(path, content(figure, path.suffix[1:]))
    return path


def content(figure: Figure, format: str) -> bytes:
    """A figure as a file of a format: `png` or `svg`."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_text(drawn(text.get_text()))
    file = io.BytesIO()
    nothing: dict[str, Any] = {"Software": None} if format == "png" else {"Date": None, "Creator": None}
    figure.savefig(file, format=format, dpi=150, metadata=nothing)
    return file.getvalue()


def drawn(text: str) -> str:
    """A text as a figure shows it: characters that cannot be seen, or that the font lacks, are escapes."""
    shown, known = printable(text, keep="\n\N{NO-BREAK SPACE}"), _characters()
    return "".join(char if char == "\n" or ord(char) in known else ascii(char).strip("'\"") for char in shown)


@functools.cache
def _characters() -> Container[int]:
    """The code points that the font of the figures has."""
    from matplotlib import font_manager

    return font_manager.get_font(font_manager.findfont(STYLE["font.family"][0])).get_charmap()


def text_width(texts: Iterable[str]) -> float:
    """Width of the widest text in bold, in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    font = FontProperties(weight="bold")
    paths = [TextPath((0, 0), text, size=8, prop=font) for text in set(map(drawn, texts)) if text.strip()]
    # Control points enclose the curves; exact extents take ten times as long.
    return max((float(path.vertices[:, 0].max()) / 72 for path in paths), default=0.0)


def sheet(
    title: str,
    panels: Sequence[tuple[str, float]],
    *,
    left: float,
    right: float,
    handles: Sequence[Any],
    footnote: str,
) -> tuple[Figure, list[Axes]]:
    """A figure of panels one below another, measured in inches so that nothing overlaps or is cut.

    Args:
        title: title of the figure.
        panels: title and height in inches of each panel; an empty title takes no room.
        left: room in inches for names to the left of the panels.
        right: room in inches for notes to the right of the panels, at least: the figure is as wide as its titles and
            the names in its legend.
        handles: matplotlib's handles of the legend above the panels; no legend without any.
        footnote: text below the panels, which is wrapped to the width of the figure.

    Returns:
        The figure, and the axes of each panel.
    """
    from matplotlib.figure import Figure

    item = text_width(handle.get_label() for handle in handles) + 0.55
    above = text_width(line for text, _ in panels for line in text.splitlines()) * 9 / 8
    inner = max(left + _PLOT_WIDTH + right, text_width([title]) * 11 / 8, left + above, item if handles else 0.0)
    width = 2 * MARGIN + inner
    num_columns = max(1, min(len(handles), int((width - 2 * MARGIN) / item)))
    legend = LINE * 1.15 * math.ceil(len(handles) / num_columns) + 0.1 if handles else 0.0
    notes = textwrap.wrap(unbroken(footnote), int((width - 2 * MARGIN) / 0.062))
    bottom = MARGIN + LINE * len(notes)
    height = TITLE + legend + sum((PANEL_TITLE if name else GAP) + panel + X_AXIS for name, panel in panels) + bottom
    figure = Figure(figsize=(width, height))
    figure.text(MARGIN / width, 1 - MARGIN / height, title, fontsize=11, fontweight="bold", va="top")
    figure.text(MARGIN / width, MARGIN / height / 2, "\n".join(notes), va="bottom", color="#444444", linespacing=1.3)
    if handles:
        corner = (MARGIN / width, 1 - TITLE / height)
        figure.legend(
            handles=handles, loc="upper left", bbox_to_anchor=corner, ncols=num_columns, frameon=False, borderaxespad=0
        )
    axes, top = [], height - TITLE - legend
    for name, panel in panels:
        top -= (PANEL_TITLE if name else GAP) + panel
        box = ((MARGIN + left) / width, top / height, _PLOT_WIDTH / width, panel / height)
        axes.append(figure.add_axes(box, title=name))
        top -= X_AXIS
    return figure, axes


def name_lines(axes: Axes, lines: Sequence[Line]) -> None:
    """Name the lines of a panel, the first at the top."""
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_yticks(range(len(lines)), [line.name for line in lines])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    for index, (line, label) in enumerate(zip(lines, axes.get_yticklabels(), strict=True)):
        label.set_fontweight("bold" if line.is_bold else "normal")
        beside = axes.get_yaxis_transform()
        write(axes, line.note, (1, index), (6, 0), is_bold=line.is_bold, xycoords=beside, va="center_baseline")


def write(
    axes: Axes, text: str, point: tuple[float, float], offset: tuple[float, float], *, is_bold: bool, **more: Any
) -> None:
    """Write a text beside a point, inside the axes or outside.

    Args:
        axes: the axes to write on.
        text: the text.
        point: the point, in data coordinates or in those of `xycoords`.
        offset: distance of the text from the point, right and up, in typographic points.
        is_bold: whether the text is bold.
        **more: further arguments of matplotlib's `annotate`.
    """
    weight = "bold" if is_bold else "normal"
    axes.annotate(text, point, offset, textcoords="offset points", fontweight=weight, annotation_clip=False, **more)


def handles_of(runtimes: Iterable[str], looks: Mapping[str, Look], *, as_bars: bool) -> list[Any]:
    """Matplotlib's handles of a legend that names the runtimes, as patches where bars are drawn and else as markers."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    names = sorted(set(runtimes))
    if as_bars:
        return [Patch(fc=looks[n].colour, hatch=looks[n].hatch, ec="white", label=n) for n in names]
    return [Line2D([], [], color=looks[n].colour, marker=looks[n].marker, ls="", label=n) for n in names]


def place_labels(
    axes: Axes,
    points: Sequence[tuple[float, float]],
    labels: Sequence[tuple[str, tuple[float, float]]],
    *,
    upward: bool,
) -> None:
    """Write each label near its point where it covers neither a point nor another label.

    Args:
        axes: axes whose limits are set.
        points: all points that are drawn, in data coordinates.
        labels: the text of each label and the point that it belongs to.
        upward: whether a label is rather above its point than below it.
    """
    to_points = 72 * _PLOT_WIDTH / axes.bbox.width
    drawn = [(x * to_points, y * to_points) for x, y in axes.transData.transform(points)]
    wanted = [(text, tuple(axes.transData.transform(point) * to_points)) for text, point in labels]
    left, bottom, right, top = (edge * to_points for edge in axes.bbox.extents)
    offsets = label_offsets(drawn, wanted, box=(left, bottom, right, top), upward=upward)
    for (text, point), (dx, dy) in zip(labels, offsets, strict=True):
        is_far = math.hypot(dx, dy) > _DISTANCES[0] + 0.5
        line = {"arrowstyle": "-", "linewidth": 0.6, "shrinkA": 5, "shrinkB": 3} if is_far else None
        write(axes, text, point, (dx, dy), is_bold=True, ha="center", va="center", arrowprops=line, zorder=5)


def label_offsets(
    points: Sequence[tuple[float, float]],
    labels: Sequence[tuple[str, tuple[float, float]]],
    *,
    box: tuple[float, float, float, float],
    upward: bool,
) -> list[tuple[float, float]]:
    """The distance of each label from its point, right and up, so that it covers neither a point nor another label.

    Args:
        points: all points that are drawn, in typographic points from the left and from the bottom.
        labels: the text of each label and the point that it belongs to.
        box: left, bottom, right and top edge of the panel, in typographic points.
        upward: whether a label is rather above its point than below it.
    """
    angles = [angle if upward else -angle for angle in (90, 135, 180, 45, -135, -45, 0, -90)]
    taken = [(x, y, 4.0, 4.0) for x, y in points]
    left, bottom, right, top = box
    offsets = []
    for text, (x, y) in labels:
        half_width, half_height = 3.0 * len(text) + 1, 5.0
        tried: list[tuple[int, int, float, float]] = []
        for distance, angle in itertools.product(_DISTANCES, angles):
            dx, dy = distance * math.cos(math.radians(angle)), distance * math.sin(math.radians(angle))
            inside = left < x + dx - half_width and x + dx + half_width < right
            inside = inside and bottom < y + dy - half_height < y + dy + half_height < top
            clashes = sum(
                abs(x + dx - other_x) < half_width + w and abs(y + dy - other_y) < half_height + h
                for other_x, other_y, w, h in taken
            )
            tried.append((clashes + 100 * (not inside), len(tried), dx, dy))  # nearer places come first
        *_, dx, dy = min(tried)
        taken.append((x + dx, y + dy, half_width, half_height))
        offsets.append((dx, dy))
    return offsets


def digits(value: float, count: int) -> str:
    """A number to `count` significant digits, with the zeros at its end; a larger whole number keeps all its digits."""
    return f"{value:.0f}" if 10**count <= round(abs(value)) < 1e6 else f"{value:#.{count}g}".rstrip(".")
