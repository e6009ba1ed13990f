"""Where a plugin or a task raised an exception or gave no answer: the file and the line, told by a child process."""

from __future__ import annotations

import re

from bench.api import frames
from bench.api.errors import ChildError
from bench.api.frames import Frame

BEGIN = "Traceback (most recent call last):\n"
_FRAME = re.compile(r'  File "([^"<][^"]*)", line (\d+), in (.*)')
_STACK = "Stack (most recent call first):\n"
"""What `faulthandler` writes before a stack: see `bench.measure.worker`."""
_STACK_FRAME = re.compile(r'  File "([^"<][^"]*)", line (\d+) in (.*)')
_AFTER_ANOTHER = re.compile(r"\n\n(?:The above exception was|During handling of the above)[^\n]*\n\n")
"""What Python writes between the tracebacks of an exception and of one that was raised from it."""


def place(error: ChildError) -> str | None:
    """Where code that is neither this package's nor installed raised an error, such as `mine.py, line 12`.

    Of a timeout, it begins with the method that did not return, such as `in run: mine.py, line 12`.

    Args:
        error: of a child process; its `detail` begins with the traceback, and the child's log follows.

    Returns:
        None where no such code did, and for errors that explain themselves: their reason does not begin with a type.
    """
    if error.kind == "timeout":
        stack = _stack(error.detail)
        where = frames.place(stack)
        return f"in {frames.method(stack)}: {where}" if where else None
    if error.kind != "error":
        return None
    kind, traceback = error.reason.partition(":")[0], None
    for text in _AFTER_ANOTHER.split(error.detail):
        parts, raised = _parts(text)
        if raised == kind:
            traceback = parts
    return frames.place(traceback or [])


def _stack(log: str) -> list[Frame]:
    """The last stack of a log whose beginning may be cut off, outermost frame first; empty where there is none."""
    lines = (_STACK_FRAME.match(line) for line in log.rpartition(_STACK)[2].splitlines())
    return [(frame[1], int(frame[2]), frame[3]) for frame in lines if frame is not None][::-1]


def _parts(text: str) -> tuple[list[Frame], str]:
    """The frames of a traceback, the last one where the error was raised, and the name of the error's type."""
    stack: list[Frame] = []
    if text.startswith(BEGIN):
        for line in text.removeprefix(BEGIN).splitlines():
            if (frame := _FRAME.match(line)) is not None:
                stack.append((frame[1], int(frame[2]), frame[3]))
            elif not line.startswith("  "):
                return stack, line.partition(":")[0].rpartition(".")[2]
    return stack, ""
