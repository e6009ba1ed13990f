"""Text that every report is made of: figures with their intervals, plain tables, Markdown, JSON and CSV.

Names and reasons come from files of other people. Each form of a table makes their control characters visible and takes
their meaning from the characters that the form itself reads: markup, formulas of a spreadsheet.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
import itertools
import json
import math
import re
import shutil
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from bench.api.printable import printable, printable_json
from bench.report import terminal

if TYPE_CHECKING:
    from bench.measure.stats import Estimate

_AFTER_A_NUMBER = re.compile(r"(?<=\d) (?=(?:%|°C|[nµm]?s|[kMG]?B|GiB|dB|MHz|GB/s|GMAC/s)(?![A-Za-z]))")
"""The blank between a number and its unit."""
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""What a text begins with that a spreadsheet takes for a formula; the last four are fullwidth forms of `=+-@`.

Source: OWASP, CSV Injection, https://owasp.org/www-community/attacks/CSV_Injection.
"""
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?|[+-]?(inf|nan)", re.ASCII | re.IGNORECASE)
_STAYS = (int, float, bool)
"""Types of values that are no texts in a spreadsheet."""
_LINE_ENDS = re.compile(r"[ \t\r\n]+")
DASH = "\N{EN DASH}"
"""The text in place of a figure that is not known."""
NARROWEST_NAME = 16
"""Characters of a name on one line, at least."""


def interval(ratio: Estimate) -> str:
    """A ratio with its interval, such as `0.503 [0.498, 0.507]`."""
    return f"{share(ratio.value)} [{share(ratio.low)}, {share(ratio.high)}]"


def share(ratio: float | None) -> str:
    """A ratio with three decimals, such as `0.503`; a small one with two significant digits, such as `0.00027`."""
    if ratio is None:
        return DASH
    if not 0 < ratio < 0.01:
        return f"{ratio:.3f}"
    return f"{ratio:.{1 - math.floor(math.log10(ratio))}f}"


def milliseconds(time_ns: float | None, form: str = ".4g") -> str:
    """A time as a number of milliseconds without its unit."""
    return DASH if time_ns is None else f"{time_ns / 1e6:{form}}"


def megabytes(size_bytes: int | None) -> str:
    """A size as a number of megabytes without its unit."""
    return DASH if size_bytes is None else f"{size_bytes / 1e6:.4g}"


def one_line(text: str) -> str:
    """A text as one line, in which control characters are escapes; reasons quote other people's messages."""
    return printable(_LINE_ENDS.sub(" ", text).strip(" "))


def unbroken(text: str) -> str:
    """A text in which no line ends between a number and its unit or percent sign (no-break spaces, U+00A0)."""
    return _AFTER_A_NUMBER.sub("\N{NO-BREAK SPACE}", text)


def wrap_name(name: str, width: int) -> str:
    """A cell's name broken after `/` and `+` into lines of at most `width`, and within a longer part after `-`.

    Control characters in it become escapes.
    """
    lines = [""]
    for part in re.findall(r"[^/+]+[/+]?", printable(name)):
        for piece in [part] if len(part) <= width else re.findall(r"[^-]*-|[^-]+", part):
            if lines[-1] and len(lines[-1]) + len(piece) > width:
                lines.append("")
            lines[-1] += piece
    return "\n".join(lines)


def narrowest(names: Iterable[str]) -> int:
    """Characters of the longest part of cells' names, as `wrap_name` breaks them into lines of `NARROWEST_NAME`."""
    return max(len(part) for name in names for part in wrap_name(name, NARROWEST_NAME).split("\n"))


def room_for_names(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> int:
    """Characters that the terminal has left for names, beside columns of figures with two blanks before each."""
    widths = [
        max(len(part) for text in column for part in text.split("\n")) for column in zip(titles, *lines, strict=True)
    ]
    return terminal_width() - sum(widths) - 2 * len(widths)


def finite(value: object) -> object:
    """A value as JSON can hold it: an infinity and not-a-number become None."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_json(content: object) -> str:
    """Content as JSON for people and programs, which ends in a newline; dataclasses in it become objects.

    Every text reads back as it was: characters that steer a terminal are escapes of JSON's.
    """
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False, default=dataclasses.asdict)
    return printable_json(text) + "\n"


def as_csv(titles: Iterable[object], lines: Iterable[Iterable[object]]) -> str:
    """A table as CSV with a line of titles, which is safe to open in a spreadsheet."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    for line in itertools.chain([titles], lines):
        writer.writerow([field if field is None or type(field) in _STAYS else _csv_text(str(field)) for field in line])
    return file.getvalue()


@functools.lru_cache(maxsize=4096)  # many rows have the same texts
def _csv_text(said: str) -> str:
    """A text as a cell; an apostrophe before it says that it is no formula, and numbers stay as they are."""
    is_formula = said.lstrip(" ").startswith(_FORMULA) and _NUMBER.fullmatch(said) is None
    return printable(f"'{said}" if is_formula else said, keep="\n")


def escape_markdown(text: str) -> str:
    """A text that Markdown shows as it is, on one line; its control characters are escapes."""
    text = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_|~#])", r"\\\1", text).replace("](", "]\\(")


def markdown(titles: Sequence[str], lines: Iterable[Sequence[str]], is_name: Sequence[bool]) -> str:
    """A Markdown table that ends in a newline; columns of names are aligned to the left, the others to the right."""
    header, *rows = ["| " + " | ".join(map(escape_markdown, line)) + " |" for line in (titles, *lines)]
    rule = "| " + " | ".join(":--" if name else "--:" for name in is_name) + " |"
    return "\n".join([header, rule, *rows]) + "\n"


def paragraph(texts: Iterable[str], format: str, width: int | None = None) -> str:
    """Sentences that stand above a table: a paragraph of Markdown (`md`), or lines of a terminal; empty without any.

    Args:
        texts: the sentences; an empty one is left out.
        format: `md` or `table`.
        width: width of a `table` in characters; None for the width of the terminal.
    """
    sentences = [text for text in texts if text]
    if format == "md":
        return f"{escape_markdown(' '.join(sentences))}\n\n" if sentences else ""
    return "".join(on_console(terminal.line(text), width) for text in sentences)


def plain(titles: Sequence[str], lines: Sequence[Sequence[str]], *, format: str, num_names: int = 1) -> str:
    """A table of texts that ends in a newline.

    Args:
        titles: titles of the columns.
        lines: texts of each row.
        format: `md` or `table`.
        num_names: number of columns of names, which come first; the other columns hold figures.
    """
    is_name = [number < num_names for number in range(len(titles))]
    if format == "md":
        return markdown(titles, lines, is_name)
    columns = [(title, name, None) for title, name in zip(titles, is_name, strict=True)]
    return on_console(_table_of(columns, [map(terminal.lines, line) for line in lines]))


def named_table(kind: str, names: Sequence[str], titles: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table for a terminal of what cells' names have beside them; no part of a name is broken.

    Args:
        kind: title of the names.
        names: a name for each line.
        titles: titles of the other columns.
        lines: their texts.
    """
    room = max(narrowest(names), room_for_names(titles, lines))
    named = [(wrap_name(name, room), *line) for name, line in zip(names, lines, strict=True)]
    return plain((kind, *titles), named, format="table")


def _table_of(columns: Iterable[tuple[str, bool, int | None]], lines: Iterable[Iterable[Text]]) -> Table:
    """A table for a terminal; figures are aligned to the right, and a long text is folded.

    Args:
        columns: for each column its title, whether it holds names, and its width in characters; with a width of None
            the column is as wide as its texts.
        lines: texts of each row.
    """
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for title, is_name, width in columns:
        table.add_column(terminal.lines(title), justify="left" if is_name else "right", overflow="fold", width=width)
    for line in lines:
        table.add_row(*line)
    return table


def terminal_width() -> int:
    """Characters in a line of the terminal; 120 where there is none."""
    return shutil.get_terminal_size((120, 24)).columns


def on_console(content: object, width: int | None = None) -> str:
    """What rich prints of content, without colours and without blanks at the ends of lines.

    Args:
        content: anything that rich can print.
        width: width in characters; None for the width of the terminal.
    """
    size = width or terminal_width()
    console = terminal.Console(
        file=io.StringIO(), width=size, color_system=None, force_terminal=False, legacy_windows=False
    )
    with console.capture() as capture:
        console.print(content)
    return "\n".join(line.rstrip() for line in capture.get().strip("\n").splitlines()) + "\n"
