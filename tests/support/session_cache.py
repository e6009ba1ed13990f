"""The cache that sessions of tests share, one after another: it grows with each change of the code, up to a limit."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path

from bench.api import cache

MOST_BYTES = 2 * 2**30
"""A session makes less than a quarter of it."""
KEPT = ("torchinductor",)
"""Folders that are named by what is in them, besides entries: what PyTorch compiled."""
LOCK = "in-use"
"""A file in the folder, which every process that uses the folder has locked, shared with the others."""


@contextlib.contextmanager
def used(folder: Path) -> Iterator[None]:
    """Keep other sessions from making room in a folder while this process takes files from it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield


def trim(folder: Path, most_bytes: int = MOST_BYTES) -> None:
    """Leave only entries in a folder, without the oldest if they are too much, unless another session uses the folder.

    What else an earlier session left, such as the tasks of models that it opened, is named by paths and not by content.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        left_bytes = 0
        for path in sorted(folder.iterdir(), key=_made_s, reverse=True):
            if path.name == LOCK:
                continue
            if path.name in KEPT or (path / cache.ENTRY).exists():
                left_bytes += sum(inner.stat().st_size for inner in path.rglob("*") if inner.is_file())
                if left_bytes <= most_bytes:
                    continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def _made_s(path: Path) -> float:
    entry = path / cache.ENTRY
    return (entry if entry.exists() else path).lstat().st_mtime
