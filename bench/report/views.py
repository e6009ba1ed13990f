"""A table with a heading and notes, for a terminal, as plain text, as CSV and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table

from bench.api.printable import printable
from bench.records.columns import TIME, Steps
from bench.report import terminal, writing
from bench.report.columns import scale

COUNT = ((1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"))
BYTES = ((1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"))
_NAMES = ("node", "tensor", "weight", "buffer")
"""Titles of the columns of names: where a terminal is too narrow, names are cut first."""
_LEFT = (*_NAMES, "operator", "output", "type", "shape", "pass")
LONGEST_NAME, NARROWEST_NAME = 40, 12
_DROPPED_FIRST: tuple[str, ...] = ("MACs/byte", "KV kept", "attention", "std", "outliers", "other ops", "mean", "min")
_DROPPED_FIRST += ("max", "weights", "parameters", "activations", "share")
BETWEEN = 3  # characters between two columns
_PLAIN_WIDTH = 150
"""Characters in a line of a table that is written to a file."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class View:
    """A table with a heading and notes, in each format.

    Attributes:
        head: parts that a terminal shows above the table.
        shown: rows of the table: texts by the title of their column, in units for people.
        rows: rows of the CSV: values by the name of their column, in raw units.
        content: content of the JSON, in raw units.
        notes: lines below the table.
        legend: explanation of the columns, below the notes.
    """

    head: Sequence[RenderableType]
    shown: Sequence[Mapping[str, str]]
    rows: Sequence[Mapping[str, object]]
    content: object
    notes: Sequence[str] = ()
    legend: str = ""

    def as_json(self) -> str:
        """The content as JSON."""
        return writing.as_json(self.content)

    def as_csv(self) -> str:
        """The rows as CSV, under their columns."""
        return writing.as_csv(self.rows[0] if self.rows else (), (map(_cell, row.values()) for row in self.rows))

    def as_text(self) -> str:
        """The table without colours, in lines of `_PLAIN_WIDTH` characters."""
        return writing.on_console(self.as_table(), _PLAIN_WIDTH)

    def as_table(self) -> Group:
        """The table as something that rich prints, in as many columns as the console is wide."""
        return Group(
            *self.head,
            Fitted(self.shown),
            *[terminal.line(note, style="yellow") for note in self.notes],
            *([terminal.line(self.legend, style="dim")] if self.legend else []),
        )


@dataclasses.dataclass(frozen=True)
class Fitted:
    """Rows of cells by title, in as many columns as the console is wide."""

    rows: Sequence[Mapping[str, str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self.rows:
            return
        rows = [{title: printable(text) for title, text in row.items()} for row in self.rows]
        widths = {title: max(len(row[title]) for row in (*rows, {title: title})) for title in rows[0]}
        widths |= {title: NARROWEST_NAME for title in _NAMES if title in widths}
        for title in _DROPPED_FIRST:
            if sum(widths.values()) + BETWEEN * len(widths) > options.max_width:
                widths.pop(title, None)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for title, width in widths.items():
            side = "left" if title in _LEFT else "right"
            table.add_column(title, justify=side, no_wrap=True, overflow="ellipsis", min_width=width)  # type: ignore[arg-type]
        for row in rows:
            table.add_row(*(terminal.line(row[title]) for title in widths))
        yield table


def shape_text(shape: Sequence[int] | None) -> str:
    """A shape such as `1x3x224x224`; `scalar` without dimensions, `?` where it is not known."""
    return "?" if shape is None else "x".join(map(str, shape)) or "scalar"


def short(name: str) -> str:
    """A name, printable, in at most `LONGEST_NAME` characters; a longer one keeps its end, which says more."""
    name = printable(name)
    return name if len(name) <= LONGEST_NAME else "…" + name[1 - LONGEST_NAME :]


def percent(part: float, whole: float = 1) -> str:
    """The share of a part in the whole, in per cent; empty where either is 0."""
    return f"{100 * part / whole:.1f} %" if part and whole else ""


def count_text(number: int) -> str:
    """A count with a prefix, such as `4.1 M`; empty for 0."""
    return _scaled(number, COUNT)


def bytes_text(number: int | None) -> str:
    """A size with its unit, such as `4.1 MB`; empty for 0, `?` where it is not known."""
    return "?" if number is None else _scaled(number, BYTES)


def time_text(ns: int) -> str:
    """A time with its unit, such as `4.1 ms`; empty for 0."""
    return _scaled(ns, TIME)


def number_text(number: float | None) -> str:
    """A number to four significant digits; empty for None."""
    return "" if number is None else f"{number:.4g}"


def _scaled(number: int, steps: Steps) -> str:
    factor, name = scale([number], steps)
    return f"{number / factor:.4g} {name}".strip() if number else ""


def _cell(value: object) -> object:
    if isinstance(value, (tuple, list)):
        return "x".join(map(str, value))
    return value
