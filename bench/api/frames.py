"""Which line of a plugin or a task an error came from, and which line of a package below it raised the error."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

PACKAGE = Path(__file__).resolve().parents[1]
_INSTALLED = re.compile(r"[\\/](?:site|dist)-packages[\\/]|[\\/]lib[\\/]python3\.\d+[\\/]")

Frame: TypeAlias = tuple[str, int, str]
"""Path of a file, line in it, and name of the function there."""


def place(frames: Iterable[Frame]) -> str | None:
    """Where code that is neither this package's nor installed was, such as `mine.py, line 12, in tensor.py, line 80`.

    The first such file is that of the plugin or task. Its own line is the innermost one in its folder; where a package
    went on from there, wherever that is installed, the line in the package follows.

    Args:
        frames: of a traceback, the outermost first.

    Returns:
        None where there is no such code.
    """
    foreign = [(Path(path), line) for path, line, _ in frames if not (path.startswith("<") or _is_of_package(path))]
    folder = next((path.parent for path, _ in foreign if not _INSTALLED.search(str(path))), None)
    if folder is None:
        return None
    own = next(frame for frame in reversed(foreign) if frame[0].parent == folder)
    last = foreign[-1]
    return _told(own) if last[0] == own[0] else f"{_told(own)}, in {_told(last)}"


def method(frames: Iterable[Frame]) -> str | None:
    """The function of the plugin or task that this package called; None as of `place`."""
    for path, _, function in frames:
        if not (path.startswith("<") or _is_of_package(path) or _INSTALLED.search(path)):
            return function
    return None


def place_of(error: BaseException) -> str | None:
    """As `place`, of an exception that was raised in this process."""
    return place(
        [(frame.filename, frame.lineno or 0, frame.name) for frame in traceback.extract_tb(error.__traceback__)]
    )


def description(error: BaseException) -> str:
    """An exception's type, message and place, such as `KeyError: 'x' (mine.py, line 12)`."""
    where = place_of(error)
    return f"{type(error).__name__}: {error}" + (f" ({where})" if where else "")


def _told(frame: tuple[Path, int]) -> str:
    return f"{frame[0].name}, line {frame[1]}"


def _is_of_package(path: str) -> bool:
    """Whether a file is one of this package, here or on another machine."""
    parts = Path(path).parts
    names = (number for number, part in enumerate(parts) if part == PACKAGE.name)
    return any(PACKAGE.joinpath(*parts[number + 1 :]).is_file() for number in names)
