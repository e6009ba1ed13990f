"""Tables of rows: in human units for a terminal, Markdown and LaTeX; in raw units for CSV and JSON."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult

from bench.api.errors import InputError, suggest
from bench.api.printable import printable
from bench.records import machines
from bench.records.ranking import Group, Selection, select
from bench.records.rows import COLUMNS, Row
from bench.records.warnings import warnings
from bench.report import terminal, writing
from bench.report.captions import brief, brief_legend, expected_false
from bench.report.columns import Column, caption, columns_of, notes_of, verdict_of, with_bound
from bench.report.layout import SPARE, Layout, arranged, whole_width
from bench.report.names import Names
from bench.report.templates import fill

FORMATS = ("table", "md", "csv", "json", "latex")
NOTE = "note"
"""What a remark on a row that is otherwise sound begins with."""
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
_STYLES = {"faster": "green", "slower": "dark_orange", "baseline": "bold", "broken": "red", "failed": "red"}
_LATEX_NAMES = {
    "\\": "backslash",
    "~": "asciitilde",
    "^": "asciicircum",
    "<": "less",
    ">": "greater",
    "|": "bar",
    "µ": "mu",
}
_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {character: f"\\text{name}{{}}" for character, name in _LATEX_NAMES.items()}
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
    calls = expected_false(rows)
    if calls is None:
        return LEGEND
    num, false = calls
    return f"{LEGEND} Of the {num} verdict{'s' if num > 1 else ''} here, at most {false} are expected to be false."


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
    return printable(text).translate(_LATEX)


class TerminalTable:
    """A selection that rich prints as tables, in as many columns as the console is wide."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """A table for each group, with what must be known of its rows, and below all tables what the figures are."""
        if not self.selection.groups:
            yield terminal.line("No rows.")
        left_out: dict[str, None] = {}
        whole = 0
        for index, group in enumerate(self.selection.groups):
            names = Names.of(group)
            if index:
                yield terminal.line("")
            title = terminal.line(group.title, style="bold")
            yield title.append_text(terminal.line(f": cells {names.path}", style="dim"))
            for text in machines.sentences(group.rows, options.max_width):
                yield terminal.line(text, style="dim")
            columns, layout = self._laid_out(group, names, options.max_width)
            rows = self._rows(group)
            if rows:
                verdicts = [verdict_of(row, group).split()[0] for row in rows]
                yield from layout.lines(
                    lambda key, number, verdicts=verdicts: _style(key, verdicts[number]),  # type: ignore[misc]
                    [self._is_default and row.same_as is not None for row in rows],
                )
                if layout.dropped:
                    left_out |= dict.fromkeys(layout.dropped)
                    whole = max(whole, whole_width(columns, layout, spare=self._spare))
            yield from self._below(group, names, layout.columns)
        if left_out:
            yield terminal.line(f"COLUMNS={whole} bench show adds {', '.join(left_out)}.", style="dim")
        tells_ratios = self._is_default or not {"ratio", "verdict"}.isdisjoint(self.selection.columns or ())
        if tells_ratios and any(row.num_launches for row in self.selection.rows):
            yield terminal.line(brief_legend(self.selection.rows), style="dim")

    @property
    def _is_default(self) -> bool:
        return self.selection.columns is None

    @property
    def _spare(self) -> Sequence[str]:
        return SPARE if self._is_default else ()

    def _rows(self, group: Group) -> list[Row]:
        """The rows that have lines: by default those that have figures, and so many that they can be read."""
        every = [row for row in group.rows if row.status == "ok" or not self._is_default]
        return every[: self._most]

    @property
    def _most(self) -> int:
        return max(LEAST_ROWS, MOST_ROWS // len(self.selection.groups))

    def _laid_out(self, group: Group, names: Names, width: int) -> tuple[list[Column], Layout]:
        """The columns that are wanted, and how they are laid out."""
        shown = dataclasses.replace(group, rows=tuple(self._rows(group)))
        columns = [
            dataclasses.replace(column, values=tuple(map(names, shown.rows))) if column.key == "cell" else column
            for column in columns_of(shown, self.selection, notes=False)
        ]
        if self._is_default:
            columns = [column for column in with_bound(columns) if not column.is_unknown]
            columns.sort(key=lambda column: column.key in SPARE)
        columns = [column.aligned() for column in columns]
        return columns, arranged(columns, width, spare=self._spare)

    def _below(self, group: Group, names: Names, columns: Sequence[Column]) -> RenderResult:
        """The reasons of rows without figures, remarks on others, and what must be known of the group."""
        num_hidden = max(0, sum(row.status == "ok" or not self._is_default for row in group.rows) - self._most)
        if self._is_default:
            reasons: dict[tuple[str, str], list[Row]] = {}
            for row in group.rows:
                if row.status != "ok" or notes_of(row, group):
                    note = writing.one_line(notes_of(row, group)) or "no reason was given"
                    reasons.setdefault((_kind_of_note(row, group), note), []).append(row)
            skipped = [row for row in group.rows if row.status == "skipped" and group.numbers]
            for (verdict, reason), rows in reasons.items():
                if rows[0] in skipped:
                    continue
                if verdict == NOTE and all(row.cell in group.numbers for row in rows):
                    numbers = ", ".join(str(group.numbers[row.cell]) for row in rows)
                    yield terminal.line(f"{verdict} on row{'s' if len(rows) > 1 else ''} {numbers}: {reason}")
                    continue
                yield terminal.line(f"{verdict}: {reason}", style=_STYLES.get(verdict, ""))
                for row in rows[: self._most]:
                    yield terminal.line(f"  {names(row)}")
                num_hidden += max(0, len(rows) - self._most)
            if skipped:
                many = f"{len(skipped)} row{'s' if len(skipped) > 1 else ''}"
                yield terminal.line(f"skipped: {many}; bench show --columns cell,reason says why")
        yield terminal.line(brief(group, names, columns), style="dim")
        for warning in warnings(group.rows):
            yield terminal.line(printable(warning), style="bold red")
        if num_hidden:
            yield terminal.line(f"{num_hidden:,} more rows are not shown: name cells, or print all with --format csv.")


def _kind_of_note(row: Row, group: Group) -> str:
    """What the notes of a row are about: why it has no figures, or a remark on a row that is otherwise sound."""
    is_sound = row.status == "ok" and row.same_as is None and row.fidelity != "broken"
    return NOTE if is_sound else verdict_of(row, group)


def _style(key: str, verdict: str) -> str:
    return _STYLES.get(verdict, "") if key in ("verdict", "ratio") or verdict in ("baseline", "broken") else ""
