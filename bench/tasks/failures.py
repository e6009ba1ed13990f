"""Errors of other packages, turned into errors about the user's model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from bench.api.errors import InputError


def one_line(error: Exception) -> str:
    """The type and the text of an error in one line, cut short at 200 characters."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text if len(text) <= 200 else text[:197] + '...'}"


@contextlib.contextmanager
def refused(what: str, *, advice: str = "") -> Iterator[None]:
    """Raise an InputError instead of any other error; an InputError, which explains itself already, passes unchanged.

    Args:
        what: what fails in the block, such as `PyTorch cannot load it`: the beginning of the message.
        advice: the end of the message, after the other error's text.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{what}: {one_line(error)}{advice}") from error
