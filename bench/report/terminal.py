"""What is printed with rich: the only console and the only texts of it, in which control characters are escapes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any

import rich.console
import rich.text
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from bench.api.printable import printable


class Console(rich.console.Console):
    """A console on which no text steers the terminal; the codes for colours and the cursor are rich's own."""

    @property
    def file(self) -> IO[str]:
        """The stream below all that stand before it: in a live view, rich's own stands before a `Printable`."""
        handle: Any = super().file
        while (below := getattr(handle, "rich_proxied_file", None)) is not None:
            handle = below
        stream: IO[str] = handle
        return stream

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of something to print, each of them printable."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text, keep="\n"))


def line(content: str, *, style: str = "", **layout: Any) -> rich.text.Text:
    """A text of one line for a console; a line end in it is a part of a name, and becomes an escape.

    rich drops some control characters from a text and measures others, so they are escaped before rich sees them.

    Args:
        content: the text.
        style: colour and weight, as rich names them.
        **layout: further arguments of rich's `Text`.
    """
    return rich.text.Text(printable(content), style=style, **layout)


def lines(content: str, *, style: str = "", **layout: Any) -> rich.text.Text:
    """A text of several lines for a console: its line ends are layout.

    Args:
        content: the text, whose names passed `printable` before.
        style: colour and weight, as rich names them.
        **layout: further arguments of rich's `Text`.
    """
    return rich.text.Text(printable(content, keep="\n"), style=style, **layout)
