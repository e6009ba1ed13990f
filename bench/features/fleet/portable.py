"""The files of a sweep that serve all kinds of machine, which one kind makes for all."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from ray import ObjectRef

Sent: TypeAlias = "tuple[str, str, ObjectRef[Any]]"
"""The key of a file's cache entry, the file's name, and a reference to its content."""


class Portable:
    """The files of a sweep that serve all kinds of machine: the first kind makes them, and the others wait for them.

    A sweep prepares its cells in waves, which are the same for all kinds: each wave has files of its own.
    """

    def __init__(self, first: str) -> None:
        self._first = first
        self._waves: list[list[Sent]] = []
        self._is_over = False
        self._changed = threading.Condition()

    def is_first(self, kind: str) -> bool:
        """Whether this kind makes them."""
        return kind == self._first

    def send(self, files: list[Sent]) -> None:
        """Send those of the next wave."""
        with self._changed:
            self._waves.append(files)
            self._changed.notify_all()

    def end(self) -> None:
        """Send no more, and let nobody wait for more."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def come(self, wave: int) -> list[Sent]:
        """Wait for those of a wave, from 0; there are none of a wave that the first kind did not prepare."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or len(self._waves) > wave)
            return self._waves[wave] if len(self._waves) > wave else []
