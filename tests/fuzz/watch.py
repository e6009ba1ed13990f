"""The rules that hold for whatever is read, and the watch over one case: its exception, its time, its memory."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import faulthandler
import io
import json
import os
import re
import resource
import signal
import traceback
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import bench
from bench.api.errors import BenchError
from bench.cli import options

PACKAGE = Path(bench.__file__).parent
HERE = Path(__file__).parent
LIMIT_S = 10.0
"""Processor time of a case: the cases are a few kilobytes and take milliseconds."""
LIMIT_BYTES = 1 << 30
"""Address space that a case may take beyond what the process had before."""
EXCEPTION, HANG, MEMORY, ENDED, LOST = "exception", "hang", "memory", "ended process", "lost launch"
CONTROL, FORMULA, PAGE, CODE = "control character", "formula", "page", "code"
NUMBER = re.compile(r"[-+]?(\d+\.?\d*(e[-+]?\d+)?|inf|nan)|-")
"""The cells that begin with a sign and are no formula."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Violation:
    """A rule that a case broke.

    Attributes:
        rule: one of the rules above.
        said: the exception, or what was printed.
        place: the line of `bench/` where it happened; a rule is broken once at each place.
    """

    rule: str
    said: str
    place: str

    @property
    def key(self) -> str:
        """Equal for the cases that break the same rule in the same way at the same place."""
        kind = self.said.partition(":")[0] if self.rule == EXCEPTION else ""
        return f"{self.rule} {kind} {self.place}"

    def __str__(self) -> str:
        return f"{self.rule}: {self.said} at {self.place}"


class BrokenRule(Exception):  # noqa: N818  # it is what the fuzzer looks for, not an error of the fuzzer
    """A check of a target failed.

    Args:
        rule: the rule that was broken.
        said: what was printed, or what is lost.
    """

    def __init__(self, rule: str, said: str) -> None:
        super().__init__(said)
        self.rule = rule


class _TooLong(BaseException):
    """The case has had its time; no `except Exception` keeps it."""


def judge(check: Callable[[bytes], None], content: bytes, *, limit_s: float = LIMIT_S) -> Violation | None:
    """Run the check of a target on one case; None where every rule holds.

    A `BenchError` is an answer: the input is refused in a sentence.
    """
    try:
        with _limits(limit_s):
            check(content)
    except BenchError:
        return None
    except BrokenRule as error:
        return Violation(rule=error.rule, said=str(error)[:200], place=_place(error))
    except _TooLong as error:
        return Violation(rule=HANG, said=f"more than {limit_s:g} s of processor time", place=_place(error))
    except MemoryError as error:
        return Violation(rule=MEMORY, said=f"more than {LIMIT_BYTES >> 20} MiB", place=_place(error))
    except Exception as error:
        text = " ".join(str(error).split())[:200]
        return Violation(rule=EXCEPTION, said=f"{type(error).__name__}: {text}", place=_place(error))
    return None


def judge_apart(check: Callable[[bytes], None], content: bytes) -> Violation | None:
    """The same in a copy of this process, which may end: a package that is not Python's own can be made to crash."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            faulthandler.disable()
            os.close(receiver)
            found = judge(check, content)
            os.write(sender, json.dumps(dataclasses.asdict(found) if found else None).encode())
        finally:
            os._exit(0)  # whatever happened, the copy must not go on as if it were the process
    os.close(sender)
    with os.fdopen(receiver, "rb") as answer:
        told = answer.read()
    _, status = os.waitpid(child, 0)
    if not told:
        return Violation(rule=ENDED, said=f"with status {os.waitstatus_to_exitcode(status)}", place="a package")
    fields = json.loads(told)
    return Violation(**fields) if fields else None


def each(*steps: Callable[[], object]) -> None:
    """Take every step of a case, those after a step that refuses the input in a sentence, too."""
    for step in steps:
        with contextlib.suppress(BenchError):
            step()


def check_cells(csv_text: str) -> None:
    """Check that a spreadsheet takes no cell of a CSV for a formula.

    Raises:
        BrokenRule: it takes one.
    """
    for row in csv.reader(io.StringIO(csv_text)):
        for cell in row:
            if cell.startswith(("=", "+", "-", "@")) and not NUMBER.fullmatch(cell):
                raise BrokenRule(FORMULA, f"the cell {cell[:80]!r}")


def check_printed(text: str) -> None:
    """Print a text as the commands do, and check that no control character but ends of lines and tabs is printed.

    Raises:
        BrokenRule: there is one.
    """
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        options.write(text, None)
    text = printed.getvalue()
    for at, character in enumerate(text):
        if unicodedata.category(character) == "Cc" and character not in "\n\t":
            raise BrokenRule(CONTROL, f"{character!r} in {text[max(0, at - 20) : at + 20]!r}")


def _place(error: BaseException) -> str:
    """The innermost line of `bench/` that the error went through, or the function of the target whose check failed."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, BrokenRule):
        frame = next((frame for frame in reversed(frames) if Path(frame.filename).parent != HERE), frames[-1])
        return f"{Path(frame.filename).name} in {frame.name}"
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(PACKAGE)]
    frame = (own or frames)[-1]
    path = Path(frame.filename)
    name = path.relative_to(PACKAGE.parent) if path.is_relative_to(PACKAGE) else path.name
    return f"{name}:{frame.lineno} in {frame.name}"


@contextlib.contextmanager
def _limits(limit_s: float) -> Iterator[None]:
    """Limits on the time and the memory of what runs within, in this process."""

    def end(number: int, frame: FrameType | None) -> None:
        raise _TooLong

    before, handler = resource.getrlimit(resource.RLIMIT_AS), signal.signal(signal.SIGPROF, end)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    most = in_use + LIMIT_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most if before[1] < 0 else min(most, before[1]), before[1]))
    signal.setitimer(signal.ITIMER_PROF, limit_s, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)
