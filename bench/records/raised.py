"""Where a plugin or a task raised an exception: the file and the line, from the traceback of a child process."""

from __future__ import annotations

import re
from pathlib import Path

from bench.api.contained import PACKAGE
from bench.api.errors import ChildError

BEGIN = "Traceback (most recent call last):\n"
FRAME = re.compile(r'  File "([^"<][^"]*)", line (\d+), in ')
AFTER_ANOTHER = re.compile(r"\n\n(?:The above exception was|During handling of the above)[^\n]*\n\n")
"""What Python writes between the tracebacks of an exception and of one that was raised from it."""
INSTALLED = re.compile(r"[\\/](?:site|dist)-packages[\\/]|[\\/]lib[\\/]python3\.\d+[\\/]")


def place(error: ChildError) -> str | None:
    """Where code that is neither this package's nor installed raised an error, such as `mine.py, line 12`.

    Args:
        error: of a child process; its `detail` begins with the traceback, and the child's log follows.

    Returns:
        None where no such code did, and for errors that explain themselves: their reason does not begin with a type.
    """
    if error.kind != "error":
        return None
    kind, found = error.reason.partition(":")[0], None
    for text in AFTER_ANOTHER.split(error.detail):
        frames, raised = _parts(text)
        if raised == kind:
            found = frames
    own = [(path, line) for path, line in found or () if not (INSTALLED.search(path) or _is_of_package(path))]
    return f"{Path(own[-1][0]).name}, line {own[-1][1]}" if own else None


def _parts(text: str) -> tuple[list[tuple[str, str]], str]:
    """The files and lines of a traceback, the last one where the error was raised, and the name of the error's type."""
    frames: list[tuple[str, str]] = []
    if text.startswith(BEGIN):
        for line in text.removeprefix(BEGIN).splitlines():
            if (frame := FRAME.match(line)) is not None:
                frames.append((frame[1], frame[2]))
            elif not line.startswith("  "):
                return frames, line.partition(":")[0].rpartition(".")[2]
    return frames, ""


def _is_of_package(path: str) -> bool:
    """Whether a file is one of this package, here or on another machine."""
    parts = Path(path).parts
    names = (number for number, part in enumerate(parts) if part == PACKAGE.name)
    return any(PACKAGE.joinpath(*parts[number + 1 :]).is_file() for number in names)
