"""Tables of rows: in human units for a terminal, Markdown and LaTeX; in raw units for CSV and JSON."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import re
import shutil
import statistics
from collections.abc import Iterable, Sequence
from typing import Literal

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from bench.errors import InputError
from bench.plugins import suggest
from bench.report.order import Group, Selection, is_baseline, short_name
from bench.report.order import select as select
from bench.report.rows import COLUMNS, Row

FORMATS = ("table", "md", "csv", "json", "latex")
DEFAULT_COLUMNS = (
    "cell",
    "latency_p50_ns",
    "ratio",
    "verdict",
    "model_rss_bytes",
    "size_bytes",
    "metric",
    "fidelity",
)
WIDEST_TEXT = 32  # characters of a reason in a terminal's column; more is wrapped
DROPPED_FIRST = ("model_rss_bytes", "size_bytes", "fidelity", "metric")  # when a terminal is too narrow
DASH = "\N{EN DASH}"
TIME = ((1e3, "µs"), (1e6, "ms"), (1e9, "s"))
BYTES = ((1e3, "kB"), (1e6, "MB"), (1e9, "GB"))
COUNT = ((1.0, ""), (1e3, "thousand"), (1e6, "million"), (1e9, "billion"))
INTERVALS = {
    "latency_p50_ns": ("latency_p50_low_ns", "latency_p50_high_ns"),
    "ratio": ("ratio_low", "ratio_high"),
}
TITLES = {
    "latency_p50_ns": "latency p50",
    "latency_p50_low_ns": "latency p50, low",
    "latency_p50_high_ns": "latency p50, high",
    "model_rss_bytes": "memory",
    "peak_rss_bytes": "peak memory",
    "num_params": "parameters",
    "macs": "MACs",
    "throughput_per_s": "throughput (1/s)",
}
TEXT = {"cell", "task", "source", "exporter", "variant", "runtime", "provider", "precision", "status"} | {
    *("reason", "fidelity", "same_as", "placement", "warning", "verdict", "metric_name", "notes")
}
LEGEND = (
    "Ratio: latency over the baseline's, paired; below 1 is faster. Verdicts: faster or slower, by more than the noise "
    "floor; noise, any difference is smaller than the margin; undecided, the interval is too wide to say. Memory: "
    "growth of the peak resident set over the process with its packages imported."
)
STYLES = {"faster": "green", "slower": "dark_orange", "baseline": "bold", "broken": "red", "failed": "red"}
LATEX = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "[": "{[}",  # bare, it would be read as the option of the `\\` before it
    "]": "{]}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "µ": r"\textmu{}",
    DASH: "--",
}


def scale(values: Iterable[float], steps: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """The unit (its factor, its name) in which the median of the values reads best."""
    known = [abs(value) for value in values if value and math.isfinite(value)]
    middle = statistics.median(known) if known else 0.0
    return max((step for step in steps if step[0] <= middle), default=steps[0])


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
        rows: in any order.
        format: one of `FORMATS`; json and csv have every key in raw units unless `columns` says which.
        columns: keys of `Row`; None for those that suit the format.
        sort: see `select`.
        width: of a `table`, in characters; None for the terminal's.

    Raises:
        InputError: an unknown format or key.
    """
    if format not in FORMATS:
        raise InputError(f"no format named {format!r}; {suggest(format, FORMATS)}")
    selection = select(rows, columns=columns, sort=sort)
    if format == "json":
        keys = selection.columns or COLUMNS
        records = [{key: _json_value(getattr(row, key)) for key in keys} for row in selection.rows]
        return json.dumps(records, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if format == "csv":
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(selection.columns or COLUMNS)
        writer.writerows([getattr(row, key) for key in selection.columns or COLUMNS] for row in selection.rows)
        return file.getvalue()
    return render_selection(selection, format=format, width=width)


def render_selection(selection: Selection, *, format: str, width: int | None = None) -> str:
    """Rows that were put in order already, as a `table`, `md` or `latex`."""
    if not selection.groups:
        return "No rows.\n"
    if format == "table":
        return _on_console(TerminalTable(selection), width)
    write = _markdown if format == "md" else _latex
    return "\n".join(write(group, selection) for group in selection.groups)


def plain(titles: Sequence[str], lines: Sequence[Sequence[str]], *, format: str) -> str:
    """A table of texts, `md` or `table`, that ends in a newline; all columns but the first are figures."""
    if format == "md":
        rules = [":--", *("--:" for _ in titles[1:])]
        texts = ["| " + " | ".join(map(_escape_markdown, line)) + " |" for line in (titles, *lines)]
        return "\n".join([texts[0], "| " + " | ".join(rules) + " |", *texts[1:]]) + "\n"
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for number, title in enumerate(titles):
        table.add_column(Text(title), justify="right" if number else "left")
    for line in lines:
        table.add_row(*map(Text, line))
    return _on_console(table, None)


def _on_console(content: object, width: int | None) -> str:
    size = width or shutil.get_terminal_size((120, 24)).columns
    console = Console(file=io.StringIO(), width=size, color_system=None, force_terminal=False, legacy_windows=False)
    with console.capture() as capture:
        console.print(content)
    return "\n".join(line.rstrip() for line in capture.get().strip("\n").splitlines()) + "\n"


def terminal_table(
    rows: Iterable[Row], *, columns: tuple[str, ...] | None = None, sort: str | None = None
) -> TerminalTable:
    """Rows as something that rich prints, in as many columns as the console is wide."""
    return TerminalTable(select(rows, columns=columns, sort=sort))


def _json_value(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value  # JSON has no NaN


@dataclasses.dataclass(frozen=True)
class _Column:
    key: str
    title: str
    values: tuple[str, ...]

    @property
    def is_text(self) -> bool:
        return self.key in TEXT

    def stacked(self) -> _Column:
        """The same with intervals on a line of their own."""
        values = tuple(value if self.is_text else value.replace(" [", "\n[") for value in self.values)
        return dataclasses.replace(self, values=values)

    def heading(self) -> str:
        """The title with its unit on a line of its own."""
        return re.sub(r" (?=[\[(])", "\n", self.title, count=1)

    def width(self) -> int:
        width = max(len(line) for text in (self.heading(), *self.values) for line in text.split("\n"))
        return min(width, WIDEST_TEXT) if self.key in ("reason", "same_as", "placement", "warning") else width


def _columns(group: Group, selection: Selection, *, notes: bool) -> list[_Column]:
    # A unit is one for the whole task, so that its groups can be compared too.
    task = [row for row in selection.rows if row.task == group.task]
    numbers = tuple(str(group.numbers.get(row.cell, "")) for row in group.rows)
    keys = (*(selection.columns or DEFAULT_COLUMNS), *(["notes"] if notes and selection.columns is None else []))
    return [_Column("#", "#", numbers), *(_column(key, group, task) for key in keys)]


def _column(key: str, group: Group, task: Sequence[Row]) -> _Column:
    title = TITLES.get(key, key.removesuffix("_ns").removesuffix("_bytes").replace("_", " "))
    if key in TEXT:
        return _Column(key, title, tuple(_text(key, row, group) for row in group.rows))
    factor, decimals = 1.0, -1
    if key.endswith(("_ns", "_bytes")) or key == "macs":
        steps = TIME if key.endswith("_ns") else BYTES if key.endswith("_bytes") else COUNT
        like = "latency_p50_ns" if key.startswith("latency") else key
        factor, unit = scale((getattr(row, like) or 0 for row in task), steps)
        title += f" ({unit})" if unit else ""
        decimals = _decimals([getattr(row, like) / factor for row in task if getattr(row, like)])
    elif key.startswith(("ratio", "aa_")):
        decimals = max(3, _decimals([row.ratio for row in task if row.ratio], digits=1))
    elif key == "metric" and len(names := {row.metric_name for row in task if row.metric_name}) == 1:
        title += f" ({names.pop()})"
    values = []
    for row in group.rows:
        value = _number(getattr(row, key), factor, decimals)
        low, high = (_number(getattr(row, end), factor, decimals) for end in INTERVALS.get(key, (key, key)))
        has_interval = key in INTERVALS and DASH not in (value, low, high) and not (key == "ratio" and low == high)
        values.append(f"{value} [{low}, {high}]" if has_interval else value)
    if any("[" in value for value in values):
        title += " [95 %]"
    return _Column(key, title, tuple(values))


def _decimals(values: Sequence[float], digits: int = 4) -> int:
    """Decimals that give the median so many significant digits, and the smallest at least two."""
    known = [abs(value) for value in values if value and math.isfinite(value)]
    if not known:
        return 0
    middle, least = (math.floor(math.log10(value)) for value in (statistics.median(known), min(known)))
    return min(6, max(0, digits - 1 - middle, 1 - least))


def _number(value: float | None, factor: float, decimals: int) -> str:
    if value is None:
        return DASH
    if isinstance(value, int) and factor == 1.0:
        return f"{value:,}"
    if decimals < 0:  # a figure of its own, to four significant digits
        if value and math.isfinite(value) and abs(value) < 1e-3:
            return f"{value:.3e}"
        decimals = _decimals([value])
    return f"{value / factor:.{decimals}f}"


def _text(key: str, row: Row, group: Group) -> str:
    if key == "cell":
        return short_name(row)
    if key == "verdict":
        return _verdict(row, group)
    value = _notes(row, group) if key == "notes" else getattr(row, key)
    return _plain(value) if value else ("" if key == "notes" else DASH)


def _plain(text: str) -> str:
    """One line without control characters; reasons quote other people's messages."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def _verdict(row: Row, group: Group) -> str:
    if row.status != "ok":
        return row.status
    if row.same_as is not None:
        return f"same as {group.numbers[row.same_as]}" if row.same_as in group.numbers else "same"
    if row.fidelity == "broken":
        return "broken"
    return "baseline" if is_baseline(row) else row.verdict or DASH


def _notes(row: Row, group: Group) -> str:
    if row.same_as is not None and row.same_as not in group.numbers:
        return f"the same graph and weights as {row.same_as}"
    if row.status == "ok" and row.fidelity == "broken":
        return row.reason or "its outputs are too far from the reference"
    return row.reason or row.warning or ""


def _caption(group: Group) -> str:
    """What the figures of a group stand on, in plain sentences."""
    ranked = [row for row in group.rows if row.cell in group.numbers]
    if not ranked:
        return "Nothing was timed."
    baselines = [row for row in group.rows if is_baseline(row)]
    names = "; ".join(short_name(row) for row in baselines)
    parts = [f"Baseline{'s' if len(baselines) > 1 else ''}: {names}." if names else "The baseline was not timed."]
    floors = dict.fromkeys((r.aa_low, r.aa_high) for r in baselines or ranked if r.aa_low and r.aa_high)
    spans = [f"{low:.3f} to {high:.3f}" for low, high in floors if low is not None and high is not None]
    parts.append(f"Noise floor (the baseline against its own copy): {'; '.join(spans) or 'not measured'}.")
    counts = sorted({row.num_launches for row in ranked})
    many = f"{counts[0]} to {counts[-1]} launches" if len(counts) > 1 else f"{counts[0]} launch"
    parts.append(f"{many}{'es' if len(counts) == 1 and counts[0] != 1 else ''} of each cell; brackets: 95 % interval.")
    return " ".join(parts)


def _escape_markdown(text: str) -> str:
    text = re.sub(r"([\\`*_|~#])", r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))
    return text.replace("](", "]\\(")


def _markdown(group: Group, selection: Selection) -> str:
    columns = _columns(group, selection, notes=True)
    rules = [":--" if column.is_text else "--:" for column in columns]
    lines = [[column.title for column in columns], *zip(*(column.values for column in columns), strict=True)]
    texts = ["| " + " | ".join(map(_escape_markdown, line)) + " |" for line in lines]
    table = "\n".join([texts[0], "| " + " | ".join(rules) + " |", *texts[1:]])
    return f"### {_escape_markdown(group.title)}\n\n{table}\n\n{_escape_markdown(f'{_caption(group)} {LEGEND}')}\n"


def _escape_latex(text: str) -> str:
    return "".join(LATEX.get(character, character) for character in text)


def _latex(group: Group, selection: Selection) -> str:
    columns = _columns(group, selection, notes=True)
    lines = [[column.title for column in columns], *zip(*(column.values for column in columns), strict=True)]
    texts = ["  " + " & ".join(map(_escape_latex, line)) + r" \\" for line in lines]
    return "\n".join(
        (
            r"% needs \usepackage{booktabs}",
            r"\begin{table}",
            rf"\caption{{{_escape_latex(f'{group.title}. {_caption(group)} {LEGEND}')}}}",
            rf"\begin{{tabular}}{{{''.join('l' if column.is_text else 'r' for column in columns)}}}",
            r"  \toprule",
            texts[0],
            r"  \midrule",
            *texts[1:],
            r"  \bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        )
    )


def wrap_name(name: str, width: int) -> str:
    """A cell's name broken after `/` and `+` into lines of at most `width`; a longer part is left whole."""
    lines = [""]
    for part in re.findall(r"[^/+]+[/+]?", name):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


class TerminalTable:
    """A selection as something that rich prints: wraps names and leaves columns out where the console is narrow."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Tables, one a group, each with what it stands on and the reasons of rows that have no figures."""
        if not self.selection.groups:
            yield Text("No rows.")
        for index, group in enumerate(self.selection.groups):
            yield Text(("\n" if index else "") + group.title, style="bold")
            yield from self._tables(group, options.max_width)
        if self.selection.groups:
            yield Text(("\n" if len(self.selection.groups) > 1 else "") + LEGEND, style="dim")

    def _tables(self, group: Group, width: int) -> RenderResult:
        is_default = self.selection.columns is None
        rows = tuple(row for row in group.rows if row.status == "ok" or not is_default)
        shown = dataclasses.replace(group, rows=rows)
        columns, dropped = _fit(_columns(shown, self.selection, notes=False), width)
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
        for column in columns:
            justify: Literal["left", "right"] = "left" if column.is_text else "right"
            table.add_column(Text(column.heading()), justify=justify, overflow="fold", width=column.width())
        for index, row in enumerate(rows):
            verdict = _verdict(row, group).split()[0]
            table.add_row(*(Text(column.values[index], style=_style(column.key, verdict)) for column in columns))
        if rows:
            yield table
        if is_default:
            reasons: dict[tuple[str, str], list[str]] = {}
            for row in group.rows:
                if row.status != "ok" or _notes(row, group):
                    note = _plain(_notes(row, group)) or "no reason was given"
                    reasons.setdefault((_verdict(row, group), note), []).append(short_name(row))
            for (verdict, reason), names in reasons.items():
                yield Text(f"{verdict}: {reason}", style=STYLES.get(verdict, ""))
                yield Text("\n".join("  " + wrap_name(name, width - 2).replace("\n", "\n  ") for name in names))
        yield Text(_caption(group), style="dim")
        if dropped:
            yield Text(f"Left out at this width: {', '.join(dropped)}.", style="dim")


def _style(key: str, verdict: str) -> str:
    return STYLES.get(verdict, "") if key in ("verdict", "ratio") or verdict in ("baseline", "broken") else ""


def _fit(columns: list[_Column], width: int) -> tuple[list[_Column], list[str]]:
    """Columns that fit: names whole if they can be; else names and intervals on more lines; else fewer columns."""
    names = next((column.values for column in columns if column.key == "cell"), ())
    if _room(columns, width) >= max(map(len, names), default=0):
        return columns, []
    columns, dropped = [column.stacked() for column in columns], []
    needed = max(map(_width_in_three_lines, names), default=0)
    for column in (*(column for key in DROPPED_FIRST for column in columns if column.key == key), *reversed(columns)):
        if _room(columns, width) < needed and len(columns) > 3 and column in columns and column.key != "cell":
            columns.remove(column)
            dropped.append(column.title)
    wrapped = tuple(wrap_name(name, max(_room(columns, width), 12)) for name in names)
    return [dataclasses.replace(c, values=wrapped) if c.key == "cell" else c for c in columns], dropped


def _room(columns: Sequence[_Column], width: int) -> int:
    """Characters left for names; two between any two columns."""
    return width - sum(column.width() for column in columns if column.key != "cell") - 2 * (len(columns) - 1)


def _width_in_three_lines(name: str) -> int:
    return next(width for width in range(8, len(name) + 9) if wrap_name(name, width).count("\n") < 3)
