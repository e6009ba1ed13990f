"""One file of the hub, fetched whole or not at all: to another name, by size and digest, and then to its own.

What broke off stays under that other name, and the next attempt goes on from there.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from bench.api import cache, files
from bench.api.errors import InputError
from bench.tasks.hub import listing, places
from bench.tasks.hub.listing import Entry, size_text
from bench.tasks.hub.reference import Reference
from bench.tasks.hub.remote import ENDED_EARLY, BrokenOffError, Hub, StatusError

ATTEMPTS, PAUSE_S = 5, 1.0
"""How often a file is asked for, and the time between: the hub is asked again where it was too busy, too."""
_BUSY = (408, 429, 500, 502, 503, 504)
_UNSATISFIABLE = 416
SPARE_BYTES = 2**26
"""Room that a disk keeps."""
READ_BYTES = 2**20


def is_whole(entry: Entry, target: Path) -> bool:
    """Whether a file is here: what lies at its place was whole when it was put there."""
    return target.is_file() and target.stat().st_size == entry.size


def num_missing(reference: Reference, entry: Entry, target: Path) -> int:
    """Bytes of a file that are still to be fetched: all but the beginning that an earlier attempt left.

    Args:
        reference: the model at its commit.
        entry: the file.
        target: where it goes.
    """
    partial_size = _size(_partial(reference, entry, target))
    return entry.size - partial_size if partial_size <= entry.size else entry.size


def check_room(num_bytes: int, folder: Path) -> None:
    """Refuse a download for which the disk of the cache has no room.

    Raises:
        InputError: the message has both sizes.
    """
    while not folder.is_dir():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if num_bytes + SPARE_BYTES > free:
        raise InputError(
            f"no room for {size_text(num_bytes)}: the disk of the cache has {size_text(free)} left",
            fix="free some space, or name a folder on another disk by BENCH_CACHE",
        )


def download(hub: Hub, reference: Reference, entry: Entry, target: Path, say: Callable[[str], None]) -> None:
    """Fetch a file of a repository, unless it is here; the caller holds the lock of the commit.

    Args:
        hub: the hub.
        reference: the model at its commit.
        entry: the file.
        target: where it goes.
        say: told of an attempt that broke off.

    Raises:
        InputError: the hub refuses, sends something else than it announced, or breaks off again and again. Of the file
            nothing is kept but, where it broke off, its beginning.
        OSError: the cache cannot be written.
    """
    if is_whole(entry, target):
        return
    partial = _partial(reference, entry, target)
    partial.parent.mkdir(parents=True, exist_ok=True)
    for is_own in (not _size(partial), True):
        begin = _complete(hub, reference, entry, partial, say)
        if _is_right(entry, partial):
            _put(partial, target)
            return
        partial.unlink()
        if is_own or not begin:
            raise InputError(f"{hub.host} sends another content of {entry.path} than it lists: its digest differs")
        say(f"{entry.path}: the beginning that was kept is not that of the file; all of it is fetched")


def _complete(hub: Hub, reference: Reference, entry: Entry, partial: Path, say: Callable[[str], None]) -> int:
    """Add what is missing to the beginning of a file; returns the bytes that were there before the last attempt.

    Raises:
        InputError, OSError: as `download`; the content is not compared.
    """
    url = f"{reference.repository}/resolve/{reference.revision}/{quote(entry.path)}"
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE_S)
        try:
            begin = _append(hub, url, entry, partial)
            if partial.stat().st_size < entry.size:
                raise BrokenOffError(ENDED_EARLY)
            return begin
        except (BrokenOffError, StatusError) as error:
            if isinstance(error, StatusError) and error.status not in _BUSY:
                raise InputError(f"{reference}: {entry.path}: {listing.reason(hub, error)}") from error
            why = f"status {error.status}" if isinstance(error, StatusError) else str(error)
            say(f"{entry.path} broke off at {size_text(_size(partial))} of {size_text(entry.size)}: {why}")
    raise InputError(
        f"{hub.host} broke off {entry.path} {ATTEMPTS} times; the same command goes on from {size_text(_size(partial))}"
    )


def _partial(reference: Reference, entry: Entry, target: Path) -> Path:
    """Where the beginning of a file lies until all of it is there."""
    name = cache.digest([str(target.relative_to(places.folder())), entry.sha256, entry.blob])
    return places.of_commit(reference.repository, reference.revision) / places.PARTIAL / name


def _append(hub: Hub, url: str, entry: Entry, partial: Path) -> int:
    """Add to the beginning of a file what is missing; returns the length of the beginning that was kept.

    Raises:
        InputError: the hub announces or sends more than the file has; the beginning is removed.
        StatusError, BrokenOffError: as `Hub.opened`.
    """
    begin = _size(partial)
    if begin > entry.size:
        partial.unlink()
        begin = 0
    if begin == entry.size and begin:
        return begin
    try:
        with hub.opened(url, begin=begin) as answer, os.fdopen(files.open_to_change(partial), "r+b") as file:
            if answer.status != 206 or not _goes_on(answer.headers.get("Content-Range"), begin, entry.size):
                begin = 0
            if answer.status == 206 and not begin:
                raise StatusError(_UNSATISFIABLE)
            if answer.num_bytes is not None and begin + answer.num_bytes > entry.size:
                raise _TooMuchError
            file.truncate(begin)
            file.seek(begin)
            end = begin
            for chunk in answer.chunks():
                end += len(chunk)
                if end > entry.size:
                    raise _TooMuchError
                file.write(chunk)
    except _TooMuchError:
        partial.unlink()
        raise InputError(
            f"{hub.host} sends more of {entry.path} than the {entry.size:,} bytes that it lists; it was cut off, and "
            "nothing of it is kept"
        ) from None
    except StatusError as error:
        if error.status != _UNSATISFIABLE or not _size(partial):
            raise
        partial.unlink()  # the next attempt begins anew
        raise BrokenOffError("the hub does not go on from where it broke off") from error
    return begin


class _TooMuchError(Exception):
    """More was sent than was announced."""


def _goes_on(content_range: str | None, begin: int, size: int) -> bool:
    """Whether a header `Content-Range` is that of the rest of a file."""
    return re.fullmatch(rf"bytes {begin}-{size - 1}/(?:{size}|\*)", content_range or "") is not None


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _is_right(entry: Entry, path: Path) -> bool:
    """Whether the content of a file is that of its digest.

    Source: https://git-scm.com/book/en/v2/Git-Internals-Git-Objects (the name of a blob).
    """
    if entry.sha256 is not None:
        return cache.file_digest(path) == entry.sha256
    digest = hashlib.sha1(f"blob {entry.size}\0".encode(), usedforsecurity=False)
    with files.opened(path) as file:
        while chunk := file.read(READ_BYTES):
            digest.update(chunk)
    return digest.hexdigest() == entry.blob


def _put(partial: Path, target: Path) -> None:
    """Give a file that is whole its own name, once it is on the disk."""
    descriptor = os.open(partial, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    files.refuse_to_replace(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial.replace(target)
    files.sync_folder(target.parent)
