"""Files that are made once and found again by a hash of everything they are made from.

An entry is a folder named by that hash; its `entry.json` holds the file's checksum, so a corrupt entry is made again,
never used. An entry is written beside its place and renamed, so half an entry is never found.
"""

import contextlib
import functools
import hashlib
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bench.api import files

ENTRY = "entry.json"
MAKING = "making-"  # the name of an entry begins with it until the entry is whole
_ABANDONED_S = 86_400
SETTLED_S = 1.0
"""Age at which a file's times tell it from what is written to it later: clocks of file systems tick coarsely."""
_GUARD = threading.Lock()
_DIGESTS: dict[tuple[Path, int, int, int, int], str] = {}


def folder() -> Path:
    """`$BENCH_CACHE`, or `.cache/bench` in the working folder."""
    return Path(os.environ.get("BENCH_CACHE") or ".cache/bench").resolve()


def digest(value: Any) -> str:
    """Short hash of a value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content."""
    sha256, buffer = hashlib.sha256(), memoryview(bytearray(1 << 18))
    with files.opened(path) as file:  # Python 3.10 has no hashlib.file_digest
        while size := file.readinto(buffer):
            sha256.update(buffer[:size])
    return sha256.hexdigest()


def digest_files(paths: Iterable[Path], *, root: Path | None = None) -> str:
    """SHA-256 over names (from `root` on, or just their own) and contents of files, in sorted order."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        name = path.relative_to(root).as_posix() if root else path.name
        digest.update(name.encode() + b"\0" + bytes.fromhex(file_digest(path)))
    return digest.hexdigest()


def digest_folder(folder: Path, *, without: tuple[str, ...] = ()) -> str:
    """SHA-256 over all files below a folder, but for compiled Python and those named `without` at its top."""
    files = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return digest_files({*files} - {folder / name for name in without}, root=folder)


def obtain(key: str, file_name: str, make: Callable[[Path], dict[str, Any]]) -> tuple[Path, dict[str, Any]]:
    """The cached file of a key, made now if the cache does not have it.

    Args:
        make: writes the file to the path it is given and returns facts to keep with it; its errors pass through
            and leave nothing behind.

    Returns:
        The file and its entry: `sha256`, `size_bytes` and the facts.
    """
    place = folder() / key
    with _GUARD:  # two threads that ask for the same lock at the same time are to get one
        lock = _lock(key)
    with lock:
        entry = _read(place, file_name) or _make(place, file_name, make)
    return place / file_name, entry


def entry_of(key: str, file_name: str) -> dict[str, Any] | None:
    """The entry of a key's file; None where the cache does not have it."""
    return _read(folder() / key, file_name)


def entry_text(path: Path) -> str:
    """The entry of a cached file, as JSON: see `obtain`."""
    return (path.parent / ENTRY).read_text()


@functools.cache
def _lock(key: str) -> threading.RLock:
    """The lock that a thread of this process holds while it makes the entry of a key."""
    return threading.RLock()


def _make(place: Path, file_name: str, make: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    place.parent.mkdir(parents=True, exist_ok=True)
    for leftover in place.parent.glob(f"{MAKING}*"):  # of a process that was killed
        with contextlib.suppress(FileNotFoundError):  # of another one at work, which has come to its end since
            if time.time() - leftover.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(leftover, ignore_errors=True)
    making = Path(tempfile.mkdtemp(dir=place.parent, prefix=MAKING))
    try:
        target = making / file_name
        facts = make(target)
        entry = {**facts, "sha256": file_digest(target), "size_bytes": target.stat().st_size}
        (making / ENTRY).write_text(json.dumps(entry, indent=1))
        return _put(making, place, file_name) or entry
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _put(making: Path, place: Path, file_name: str) -> dict[str, Any] | None:
    """Move a new entry to its place, unless another process was faster: its entry may be in use, and is returned."""
    if (other := _read(place, file_name)) is not None:
        return other
    shutil.rmtree(place, ignore_errors=True)  # what stands there is corrupt
    try:
        making.rename(place)
    except OSError:
        if (other := _read(place, file_name)) is None:
            raise
    return other


def _read(place: Path, file_name: str) -> dict[str, Any] | None:
    try:
        entry: dict[str, Any] = json.loads((place / ENTRY).read_text())
        return entry if _known_digest(place / file_name) == entry["sha256"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _known_digest(path: Path) -> str:
    """`file_digest`, which this process computes once for a file that stays as it is: a sweep asks for some often."""
    now = path.stat()
    file = (path, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)
    if file not in _DIGESTS:
        content = file_digest(path)
        if time.time() - now.st_ctime < SETTLED_S:
            return content
        _DIGESTS[file] = content
    return _DIGESTS[file]
