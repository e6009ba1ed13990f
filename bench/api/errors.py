"""Every exception that this project raises on purpose; `bench.cli.main` prints one line and sets the exit code."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BenchError(Exception):
    """A failure that a user can understand and fix.

    Args:
        message: what was wrong and what is allowed, in one line.
        fix: the command or the change that fixes the failure.
    """

    def __init__(self, message: str, *, fix: str | None = None) -> None:
        super().__init__(message if fix is None else f"{message} ({fix})")


class InputError(BenchError):
    """A file, a name or a value that the user gave is missing, unreadable or wrong."""


class PluginError(BenchError):
    """A plugin file breaks the rules of `bench.api`."""


class ArtifactError(BenchError):
    """An artifact could not be made or read; the message is the reason shown in the cell's row."""


class RefusedError(ArtifactError):
    """A variant has nothing to do for this model, or lacks a fact that it needs: the cell is left out."""


class GenerationError(BenchError):
    """An engine did not generate what it was asked for, so its times are not those of the request."""


class StoreError(BenchError):
    """The results folder cannot be read or written."""


class ChildError(BenchError):
    """A child process failed at a request.

    Args:
        kind: `error` (an exception), `refused` (a `RefusedError`), `exit`, `signal`, `timeout` or `memory`.
        reason: one line for the cell's row.
        detail: the end of the child's log or traceback, for the store.
    """

    def __init__(self, kind: str, reason: str, *, detail: str = "") -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.detail = detail


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that an unknown one is most like; None where it is like none."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)), None)


def suggest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known name, or all known names."""
    known = list(known)
    if (near := nearest(name, known)) is not None:
        return f"did you mean {near!r}?"
    return f"there are: {', '.join(known)}" if known else "there are none"
