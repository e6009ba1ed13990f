"""Rows as lines of a terminal: a row on one line, or its cell and verdict above its figures where that is too wide."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable, Iterator, Sequence

from rich.text import Text

from bench.api.printable import printable
from bench.report import terminal
from bench.report.columns import WRAPPED, Column
from bench.report.writing import DASH, wrap_name

_ABOVE = ("#", "cell", "verdict")
"""Keys of the columns that stand above the figures."""
SPARE = ("num_params", "precision", "fidelity")
"""Keys of default columns that are left out for the sake of one line a row, in this order."""
_DROPPED_FIRST = (*SPARE, "size_bytes", "model_rss_bytes")
"""Keys of columns that are left out first where the figures have no room on a line."""
_LATENCY = "latency_p50_ns"
GAP = "  "
_RULE = "─"

_Style = Callable[[str, int], str]
"""The style of a figure, by the key of its column and the number of its row."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """How the rows of a table are laid out.

    Attributes:
        above: columns of the first line of a row; empty where each row has one line.
        below: columns of its figures.
        dropped: titles of what is left out.
        width: characters that a line may have.
    """

    above: tuple[Column, ...]
    below: tuple[Column, ...]
    dropped: tuple[str, ...]
    width: int

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns that are shown."""
        return self.above + self.below

    def lines(self, style: _Style, is_short: Sequence[bool]) -> Iterator[Text]:
        """The titles, a rule and the rows.

        Args:
            style: styles of the figures.
            is_short: for each row whether the first of two lines says enough of it.
        """
        indent = " " * _indent(self.above)
        below = _widened(self.below, self.width - len(indent))
        above = self._above(len(indent) + _total(below)) if self.above else []
        titles = [*_titles(above, ""), *_titles(below, indent)]
        yield from map(terminal.line, titles)
        yield terminal.line(_RULE * max(map(len, titles)))
        for index, short in enumerate(is_short):
            if above:
                yield from _row(above, index, "", style)
            if not above or not (short or all(column.values[index].strip() == DASH for column, _ in below)):
                yield from _row(below, index, indent, style)

    def _above(self, width: int) -> list[tuple[Column, int]]:
        """The columns of a row's first line with their widths; its last ends where the figures end, or names do."""
        fixed = sum(column.width + len(GAP) for column in self.above if column.key != "cell")
        cells = next(column for column in self.above if column.key == "cell")
        room = max(min(max(width - fixed, cells.width), self.width - fixed), len("cell"))
        return [(column, room if column is cells else column.width) for column in self.above]


def arranged(columns: Sequence[Column], width: int, *, spare: Sequence[str] = ()) -> Layout:
    """The columns in the room that a terminal has.

    Args:
        columns: the columns that are wanted.
        width: characters of a line.
        spare: keys of columns that may be left out for the sake of one line a row, and with them the interval of the
            latency, which says nothing of the differences between rows.
    """
    fewest = _fewer(columns, spare) if spare else [(tuple(columns), ())]
    for shown, dropped in fewest:
        if _total(_own(shown)) <= width:
            return Layout(above=(), below=shown, dropped=dropped, width=width)
    above, figures = _split(columns)
    room = width - _indent(above)
    keys = dict.fromkeys((*_DROPPED_FIRST, *(column.key for column in reversed(figures))))
    for shown, dropped in _fewer(figures, [*keys]):  # noqa: B007 the last is taken where none has room
        if _total(_own(shown)) <= room:
            break
    return Layout(above=above, below=shown, dropped=dropped, width=width)


def whole_width(columns: Sequence[Column], layout: Layout, *, spare: Sequence[str] = ()) -> int:
    """The least width that leaves nothing out, from that of a layout of the columns on; see `arranged`."""
    above, figures = _split(columns)
    widths = (_indent(above) + _total(_own(figures)), _total(_own(columns)))
    return next(
        width for width in widths if width >= layout.width and not arranged(columns, width, spare=spare).dropped
    )


def _split(columns: Sequence[Column]) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """The columns of the first and of the second line of a row; all on one line where no cell is shown."""
    has_cell = any(column.key == "cell" for column in columns)
    above = tuple(column for column in columns if has_cell and column.key in _ABOVE)
    return above, tuple(column for column in columns if column not in above)


def _indent(above: Sequence[Column]) -> int:
    """Characters before the figures below a cell, which has its number before it."""
    return above[0].width + len(GAP) if above else 0


def _fewer(columns: Sequence[Column], keys: Sequence[str]) -> Iterator[tuple[tuple[Column, ...], tuple[str, ...]]]:
    """The columns, and then fewer and fewer of them with the titles of the others; one of them at least."""
    shown = tuple(columns)
    dropped: tuple[str, ...] = ()
    yield shown, dropped
    if any(column.key == _LATENCY and column.has_interval for column in shown):
        shown = tuple(column.without_interval() if column.key == _LATENCY else column for column in shown)
        dropped = ("latency interval",)
        yield shown, dropped
    for key in keys:
        matches = [column for column in shown if column.key == key]
        if matches and len(shown) > 1:
            shown = tuple(column for column in shown if column.key != key)
            dropped = (*dropped, *(column.title for column in matches))
            yield shown, dropped


def _own(columns: Sequence[Column]) -> list[tuple[Column, int]]:
    return [(column, column.width) for column in columns]


def _total(columns: Sequence[tuple[Column, int]]) -> int:
    return sum(width for _, width in columns) + len(GAP) * (len(columns) - 1)


def _widened(columns: Sequence[Column], width: int) -> list[tuple[Column, int]]:
    """The columns with their widths, of which long texts share the room that is left."""
    own = _own(columns)
    long = [column for column in columns if column.key in WRAPPED]
    more = max(0, width - _total(own)) // len(long) if long else 0
    return [
        (column, max(least, min(least + more, max(map(len, column.values)))) if column in long else least)
        for column, least in own
    ]


def _titles(columns: Sequence[tuple[Column, int]], indent: str) -> list[str]:
    """The lines of the titles, which end above the figures."""
    most = max((len(column.heading) for column, _ in columns), default=0)
    lines = [[""] * (most - len(column.heading)) + [*column.heading] for column, _ in columns]
    return [
        indent + GAP.join(_padded(texts[number], *pair) for pair, texts in zip(columns, lines, strict=True)).rstrip()
        for number in range(most)
    ]


def _row(columns: Sequence[tuple[Column, int]], index: int, indent: str, style: _Style) -> Iterator[Text]:
    """The lines of a row: one, or more where a text is wrapped."""
    texts = [_wrapped(column, column.values[index], width) for column, width in columns]
    for number in range(max(map(len, texts))):
        line = terminal.line(indent)
        for place, ((column, width), lines) in enumerate(zip(columns, texts, strict=True)):
            text = _padded(lines[number] if number < len(lines) else "", column, width)
            line.append_text(terminal.line(GAP * (place > 0)))
            line.append_text(terminal.line(text, style=style(column.key, index)))
        line.rstrip()
        yield line


def _wrapped(column: Column, value: str, width: int) -> list[str]:
    if column.key == "cell":
        return wrap_name(value, width).split("\n")
    text = printable(value)
    return textwrap.wrap(text, width) if column.key in WRAPPED and len(text) > width else [text]


def _padded(text: str, column: Column, width: int) -> str:
    return f"{text:<{width}}" if column.is_text else f"{text:>{width}}"
