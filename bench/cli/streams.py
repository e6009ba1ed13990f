"""The standard streams while a command runs: no character that steers a terminal passes through them."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from bench.api.printable import printable
from bench.cli.options import LAYOUT


class Printable:
    """A text stream that passes what is written to it on to another stream, with control characters as escapes.

    A line that a package prints, a warning or a record of a log is written here as well as the tables of a command.

    Attributes:
        rich_proxied_file: the other stream. rich looks for this attribute and writes there, because its own codes for
            colours must arrive; `bench.report.terminal.Console` escapes the text between them.
    """

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)

    def write(self, text: str) -> int:
        """Write a text, and return the number of its characters."""
        self.rich_proxied_file.write(printable(text, keep=LAYOUT))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts one after the other."""
        for line in lines:
            self.write(line)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Let standard output and standard error pass through a `Printable`; `main` is decorated with it."""
    before = sys.stdout, sys.stderr
    for stream in before:
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":  # of an encoding that lacks characters
            stream.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = (Printable(stream) if stream else stream for stream in before)  # None where it is closed
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
