"""Tables of rows: in human units for a terminal, Markdown and LaTeX; in raw units for CSV and JSON."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult

from bench.api.errors import InputError, suggest
from bench.api.printable import printable
from bench.measure.stats import ALPHA, FASTER, NOISE, SLOWER
from bench.records import machines
from bench.records.ranking import Group, Selection, select, short_name
from bench.records.rows import COLUMNS, Row
from bench.records.warnings import warnings
from bench.report import terminal, writing
from bench.report.columns import Column, caption, columns_of, notes_of, title_of, verdict_of
from bench.report.templates import fill

FORMATS = ("table", "md", "csv", "json", "latex")
DROPPED_FIRST = (
    "num_params",
    "precision",
    "model_rss_bytes",
    "size_bytes",
    "fidelity",
    "metric_loss_high",
)  # when a terminal is too narrow for names on few lines
KEPT = ("cell", "verdict", "metric")
LEGEND = (
    "Ratio: latency over the baseline's, through the blocks that connect them; below 1 is faster. Verdicts, corrected "
    "for the number of rows: faster or slower, by more than 0.5 %; noise, any difference is smaller than the margin; "
    "undecided, the launches do not say. Memory: growth of the peak resident set over the process with its packages "
    "imported."
)
MOST_ROWS = 1000
"""Rows of a terminal's tables, at most: rich takes a millisecond for each, and nobody reads more."""
LEAST_ROWS = 50
"""Rows of each group that are shown in any case."""
STYLES = {"faster": "green", "slower": "dark_orange", "baseline": "bold", "broken": "red", "failed": "red"}
LATEX_NAMES = {
    "\\": "backslash",
    "~": "asciitilde",
    "^": "asciicircum",
    "<": "less",
    ">": "greater",
    "|": "bar",
    "µ": "mu",
}
LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {character: f"\\text{name}{{}}" for character, name in LATEX_NAMES.items()}
    | {"[": "{[}", "]": "{]}", writing.DASH: "--"}  # a bare `[` would be read as the option of the `\\` before it
)


def render(
    rows: Sequence[Row],
    *,
    format: str,
    columns: tuple[str, ...] | None = None,
    sort: str | None = None,
    width: int | None = None,
) -> str:
    """Rows as text that ends in a newline.

    Args:
        rows: the rows, in any order.
        format: one of `FORMATS`; `json` and `csv` give raw units, and without `columns` every key.
        columns: keys of `Row` to show; None for the keys that suit the format.
        sort: key of `Row` to sort by; see `ranking.select`.
        width: width of a `table` in characters; None for the width of the terminal.

    Raises:
        InputError: an unknown format or key.
    """
    if format not in FORMATS:
        raise InputError(f"no format named {format!r}; {suggest(format, FORMATS)}")
    selection = select(rows, columns=columns, sort=sort)
    if format == "json":
        return writing.as_json(raw(selection))
    if format == "csv":
        keys = selection.columns or COLUMNS
        values = operator.attrgetter(*keys)
        return writing.as_csv(keys, (values(row) if len(keys) > 1 else [values(row)] for row in selection.rows))
    return render_selection(selection, format=format, width=width)


def legend_of(rows: Sequence[Row]) -> str:
    """What ratios, verdicts and memory mean, and how many of the rows' verdicts are expected to be false."""
    winners = [row.q_value for row in rows if row.verdict in (FASTER, SLOWER) and row.q_value is not None]
    num_tested = sum(row.q_value is not None for row in rows)
    equal = sum(row.verdict == NOISE for row in rows)
    if not winners and not equal:
        return LEGEND
    # A cell without a difference is called with a probability of at most the false discovery rate q, so some rows of
    # all may hold as many false calls as q of all that were tested; an interval of 95 % misses one end by 2.5 %.
    false = num_tested * max(winners, default=0.0) + equal * ALPHA / 2
    many = f"{false:.1f}" if false >= 0.1 else "0.1"
    num = len(winners) + equal
    return f"{LEGEND} Of the {num} verdict{'s' if num > 1 else ''} here, at most {many} are expected to be false."


def raw(selection: Selection) -> list[dict[str, object]]:
    """The selected columns of each row by key, in raw units, as values that JSON can hold."""
    keys = selection.columns or COLUMNS
    return [{key: writing.finite(getattr(row, key)) for key in keys} for row in selection.rows]


def render_selection(selection: Selection, *, format: str, width: int | None = None) -> str:
    """Rows that are in order already, as text in the format `table`, `md` or `latex`.

    Args:
        selection: the rows and the columns to show.
        format: `table`, `md` or `latex`.
        width: width of a `table` in characters; None for the width of the terminal.
    """
    if not selection.groups:
        return "No rows.\n"
    if format == "table":
        return writing.on_console(TerminalTable(selection), width)
    texts = []
    for group in selection.groups:
        columns = columns_of(group, selection, notes=True)
        lines = list(zip(*(column.values for column in columns), strict=True))
        texts.append((_markdown if format == "md" else _latex)(group, columns, lines))
    return "\n".join(texts)


def _markdown(group: Group, columns: Sequence[Column], lines: Sequence[Sequence[str]]) -> str:
    table = writing.markdown([column.title for column in columns], lines, [column.is_text for column in columns])
    legend = writing.escape_markdown(" ".join((*warnings(group.rows), caption(group, columns), legend_of(group.rows))))
    above = writing.paragraph(machines.sentences(group.rows), "md")
    return f"### {writing.escape_markdown(group.title)}\n\n{above}{table}\n{legend}\n"


def _latex(group: Group, columns: Sequence[Column], lines: Sequence[Sequence[str]]) -> str:
    return fill(
        "templates/latex.j2",
        caption=_escape_latex(
            " ".join(
                (f"{group.title}.", *machines.sentences(group.rows), caption(group, columns), legend_of(group.rows))
            )
        ),
        alignment="".join("l" if column.is_text else "r" for column in columns),
        lines=[[*map(_escape_latex, line)] for line in ([column.title for column in columns], *lines)],
    )


def _escape_latex(text: str) -> str:
    """A text that LaTeX prints as it is, on one line; its control characters are escapes."""
    return printable(text).translate(LATEX)


class TerminalTable:
    """A selection that rich prints as tables; names are wrapped and columns left out where the console is narrow."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """A table for each group, with its caption and the reasons of rows that have no figures."""
        if not self.selection.groups:
            yield terminal.line("No rows.")
        for index, group in enumerate(self.selection.groups):
            yield terminal.lines(("\n" if index else "") + printable(group.title), style="bold")
            for text in machines.sentences(group.rows, options.max_width):
                yield terminal.line(text, style="dim")
            yield from self._tables(group, options.max_width)
        if any(row.num_launches for row in self.selection.rows):
            legend = legend_of(self.selection.rows)
            yield terminal.lines(("\n" if len(self.selection.groups) > 1 else "") + legend, style="dim")

    def _tables(self, group: Group, width: int) -> RenderResult:
        is_default = self.selection.columns is None
        every = [row for row in group.rows if row.status == "ok" or not is_default]
        most = max(LEAST_ROWS, MOST_ROWS // len(self.selection.groups))
        rows, more = tuple(every[:most]), max(0, len(every) - most)
        shown = dataclasses.replace(group, rows=rows)
        wanted = columns_of(shown, self.selection, notes=False)
        columns, dropped, whole = _fit([one for one in wanted if not (is_default and one.is_unknown)], width)
        if rows:
            verdicts = [verdict_of(row, group).split()[0] for row in rows]
            yield writing.table_of(
                [(column.heading(), column.is_text, column.width) for column in columns],
                [
                    [terminal.lines(column.values[index], style=_style(column.key, verdict)) for column in columns]
                    for index, verdict in enumerate(verdicts)
                ],
            )
        if is_default:
            reasons: dict[tuple[str, str], list[str]] = {}
            for row in group.rows:
                if row.status != "ok" or notes_of(row, group):
                    note = writing.one_line(notes_of(row, group)) or "no reason was given"
                    reasons.setdefault((_kind_of_note(row, group), note), []).append(short_name(row))
            for (verdict, reason), names in reasons.items():
                yield terminal.line(f"{verdict}: {reason}", style=STYLES.get(verdict, ""))
                shown_names = names[:most]
                yield terminal.lines(
                    "\n".join("  " + writing.wrap_name(name, width - 2).replace("\n", "\n  ") for name in shown_names)
                )
                more += len(names) - len(shown_names)
        yield terminal.line(caption(group, columns), style="dim")
        for warning in warnings(group.rows):
            yield terminal.line(printable(warning), style="bold red")
        if more:
            yield terminal.line(f"{more:,} more rows are not shown: name cells, or print all with --format csv.")
        if dropped and rows:
            left_out = f"Left out at this width: {', '.join(dropped)}; COLUMNS={whole} bench show leaves nothing out."
            yield terminal.line(left_out, style="dim")


def _kind_of_note(row: Row, group: Group) -> str:
    """What the notes of a row are about: why it has no figures, or a remark on a row that is otherwise sound."""
    is_sound = row.status == "ok" and row.same_as is None and row.fidelity != "broken"
    return "note" if is_sound else verdict_of(row, group)


def _style(key: str, verdict: str) -> str:
    return STYLES.get(verdict, "") if key in ("verdict", "ratio") or verdict in ("baseline", "broken") else ""


def _fit(columns: list[Column], width: int) -> tuple[list[Column], list[str], int]:
    """The columns that fit a width, the titles of what was left out, and the least width that leaves nothing out.

    Names stay whole where they fit. Otherwise names and intervals are broken into lines; where that is not enough, the
    interval of the latency is left out, which says nothing of the differences between rows, and then columns are. The
    last columns stay even if names take more lines, as long as no part of a name is broken.
    """
    names = next((column.values for column in columns if column.key == "cell"), ())
    if _room(columns, width) >= max(map(len, names), default=0):
        return columns, [], width
    columns, dropped = [column.stacked() for column in columns], []
    needed = _width_of_names(names)
    whole = width - _room(columns, width) + needed
    if width < whole:
        dropped = [f"interval of {title_of(column.key)}" for column in columns if _is_of_latency(column)]
        columns = [column.without_interval() if _is_of_latency(column) else column for column in columns]
    least = max((_width_in_lines(name, len(name)) for name in names), default=0)
    first = [(column, needed) for key in DROPPED_FIRST for column in columns if column.key == key]
    last = [(column, least) for column in reversed(columns) if column.key not in KEPT]
    for column, room in (*first, *last):
        if _room(columns, width) < room and len(columns) > 3 and column in columns:
            columns.remove(column)
            dropped.append(column.title)
    room = max(_room(columns, width), least)
    wrapped = tuple(writing.wrap_name(name, room) for name in names)
    return [dataclasses.replace(c, values=wrapped) if c.key == "cell" else c for c in columns], dropped, whole


def _is_of_latency(column: Column) -> bool:
    return column.key == "latency_p50_ns" and column.has_interval


def _room(columns: Sequence[Column], width: int) -> int:
    """Characters left for names, with two blanks between columns."""
    return width - sum(column.width for column in columns if column.key != "cell") - 2 * (len(columns) - 1)


def _width_of_names(names: Sequence[str]) -> int:
    """The width in which four of five names have at most two lines, as their intervals have, and all at most three."""
    two = sorted(_width_in_lines(name, 2) for name in names)
    three = [_width_in_lines(name, 3) for name in names]
    return max([*three, *two[: math.ceil(0.8 * len(two))]], default=0)


def _width_in_lines(name: str, most: int) -> int:
    wrapped = ((width, writing.wrap_name(name, width).split("\n")) for width in range(8, len(name) + 9))
    return next(width for width, lines in wrapped if len(lines) <= most and max(map(len, lines)) <= width)
