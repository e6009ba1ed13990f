"""Folders of temporary files that are removed even after their owner was killed: by its keeper, or at the next start.

An owner holds a lock on its folder. A folder that nobody holds is a leftover.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import tempfile
import time
from pathlib import Path

PREFIX = "bench-scratch-"
YOUNG_S = 60
"""A younger folder may be one whose owner is about to lock it."""


class Scratch(contextlib.AbstractContextManager[Path]):
    """A new, locked folder; use it as a context manager, which gives the folder's path.

    Attributes:
        path: the folder.
        lock: descriptor that holds the lock, for as long as any process has it open.
    """

    def __init__(self) -> None:
        place = Path(tempfile.gettempdir())
        remove_leftovers(place)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        self.lock = os.open(self.path, os.O_RDONLY)
        fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove(self) -> None:
        """Remove the folder, if it is still there, and let go of its lock."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


@functools.cache  # once in a process
def remove_leftovers(place: Path) -> None:
    """Remove the folders of owners that were killed."""
    for path in place.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime < YOUNG_S:
                continue
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)
