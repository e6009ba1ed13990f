"""The files of a sweep that serve all kinds of machine, which one kind makes for all."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from ray import ObjectRef

Sent: TypeAlias = "tuple[str, str, ObjectRef[Any]]"
"""The key of a file's cache entry, the file's name, and a reference to its content."""


class Portable:
    """The files of a sweep that serve all kinds of machine: the first kind makes them, and the others wait for them."""

    def __init__(self, first: str) -> None:
        self._first = first
        self._files: Future[list[Sent]] = Future()

    def is_first(self, kind: str) -> bool:
        """Whether this kind makes them."""
        return kind == self._first

    def send(self, files: list[Sent]) -> None:
        """Send them, or nothing after a failure."""
        if not self._files.done():
            self._files.set_result(files)

    def come(self) -> list[Sent]:
        """Wait for them."""
        return self._files.result()
