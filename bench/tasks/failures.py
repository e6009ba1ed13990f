"""Errors of other packages, turned into errors about the user's model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from bench.api.errors import BenchError, InputError
from bench.api.messages import LONGEST, MOST_CHARACTERS, shortened, without_places


def one_line(error: Exception, longest: int = 200) -> str:
    """The type and the text of an error in one line, without places in a library's sources.

    A text of more than `longest` characters lacks its middle: an error that quotes another, or a whole configuration,
    ends with what went wrong.
    """
    text = " ".join(without_places(shortened(str(error), MOST_CHARACTERS)).split())
    return f"{type(error).__name__}: {shortened(text, longest)}"


@contextlib.contextmanager
def explained(step: str) -> Iterator[None]:
    """The last line of defence: raise an InputError instead of what no step expected.

    Errors that explain themselves, and the want of memory, pass unchanged.

    Args:
        step: what failed, as the message begins.
    """
    try:
        yield
    except (BenchError, MemoryError):
        raise
    except Exception as error:
        raise InputError(f"{step}: {one_line(error)}") from error


@contextlib.contextmanager
def refused(what: str, *, advice: str = "") -> Iterator[None]:
    """Raise an InputError instead of any other error; an InputError and the want of memory pass.

    Args:
        what: the beginning of the message, which names the failing step, such as `PyTorch cannot load it`.
        advice: the end of the message, after the other error's text, which is cut short to leave room for both.
    """
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        room = LONGEST - len(f"{what}: {type(error).__name__}: {advice}")
        raise InputError(f"{what}: {one_line(error, max(room, LONGEST // 5))}{advice}") from error
