"""How files are opened: only regular files are read and written, so that no FIFO, device or socket stops a command.

A path that another process may have laid is opened without waiting and looked at before it is used. What is written is
written beside its place and renamed, or appended to a file that no symbolic link names.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from bench.api.errors import InputError

WRITING = ".writing-"
"""Begins the name of a file that is not whole yet."""
_SMALL = 2**16
"""Bytes of a file that is read at once, at most."""
KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
}


def refuse_special(path: Path) -> None:
    """Refuse a path that is there and is neither a regular file nor a folder, such as a FIFO; links are followed.

    Raises:
        InputError: the message says what the path is.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        mode = path.stat().st_mode
        if not stat.S_ISDIR(mode):
            _refuse_unless_regular(path, mode)


def refuse_special_within(folder: Path) -> None:
    """Refuse a folder that holds, at any depth, a file that is no regular file; folders behind links are not entered.

    Packages that open a whole folder open what they find in it, and would wait for the writer of a FIFO.

    Raises:
        InputError: the message names the first of them.
    """
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            refuse_special(Path(place, name))


def opened(path: Path) -> io.BufferedReader:
    """A regular file, opened for reading; links are followed.

    Raises:
        InputError: the path is a FIFO, a device, a socket or a folder.
        OSError: there is no such file, or it cannot be read.
    """
    return open(_descriptor(path)[0], "rb")  # noqa: PTH123 (the caller closes it)


def opened_whole(path: Path | str) -> io.BufferedReader | io.BytesIO:
    """As `opened`; a small file is read at once, which takes half of the time where there are very many."""
    descriptor, size = _descriptor(path)
    if size >= _SMALL:
        return open(descriptor, "rb")  # noqa: PTH123 (the caller closes it)
    try:
        content = os.read(descriptor, size)
        while len(content) < size and (more := os.read(descriptor, size - len(content))):  # some file systems give less
            content += more
        return io.BytesIO(content)
    finally:
        os.close(descriptor)


def _descriptor(path: Path | str) -> tuple[int, int]:
    """A descriptor of a regular file to read, and the size of the file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        refuse_special(Path(path))  # because a socket cannot be opened
        raise
    try:
        state = os.fstat(descriptor)
        _refuse_unless_regular(path, state.st_mode)
    except InputError:
        os.close(descriptor)
        raise
    return descriptor, state.st_size


def read_bytes(path: Path) -> bytes:
    """The content of a regular file.

    Raises:
        InputError: as `opened`.
        OSError: as `opened`.
    """
    with opened(path) as file:
        return file.read()


def read_text(path: Path) -> str:
    """The content of a regular file in UTF-8.

    Raises:
        InputError: as `opened`.
        OSError: as `opened`.
        UnicodeDecodeError: the file is not in UTF-8.
    """
    return read_bytes(path).decode()


def open_to_change(path: Path) -> int:
    """A descriptor of a regular file to read and write, made where there is none; no link at its end is followed.

    Raises:
        InputError: the path is a link, or no regular file.
        OSError: the file cannot be opened.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o644)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, or a socket
            _refuse_unless_regular(path, path.lstat().st_mode)
        raise
    try:
        _refuse_unless_regular(path, os.fstat(descriptor).st_mode)
    except InputError:
        os.close(descriptor)
        raise
    return descriptor


def refuse_to_replace(path: Path) -> None:
    """Refuse a path that is there and is no regular file; a link at its end is none.

    Raises:
        InputError: the message says what the path is.
    """
    with contextlib.suppress(FileNotFoundError):
        _refuse_unless_regular(path, path.lstat().st_mode)


def write_whole(path: Path, content: bytes) -> None:
    """Write a whole file or nothing: beside its place, on the disk, and renamed.

    Raises:
        InputError: the path is there and is no regular file; it is as it was.
        OSError: the file could not be written; an earlier file of that name is as it was.
    """
    with _replacing(path) as file:
        file.write(content)


def copy_whole(source: Path, target: Path) -> None:
    """Copy a whole file or nothing, as `write_whole` writes it.

    Raises:
        InputError: the source, or what is at the target, is no regular file; the target is as it was.
        OSError: the file could not be copied; an earlier file of that name is as it was.
    """
    import shutil  # only here, as in `_replacing`

    with opened(source) as original, _replacing(target) as file:
        shutil.copyfileobj(original, file)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file beside a path, which takes the place of the path's file when all of it is written."""
    import tempfile  # only here: it would count in the memory of a worker that is measured

    refuse_to_replace(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=WRITING, delete=False) as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).chmod(_mode_of(path))
            Path(file.name).replace(path)
            sync_folder(path.parent)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def _mode_of(path: Path) -> int:
    """The permissions of a file that is replaced, or of a new one: those that this process gives to its files."""
    with contextlib.suppress(FileNotFoundError):
        return stat.S_IMODE(path.stat().st_mode)
    return 0o666 & ~_mask()


@functools.cache  # reading it changes it for a moment
def _mask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def sync_folder(folder: Path) -> None:
    """Write a folder to the disk, so that the name of a new file in it is kept."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _refuse_unless_regular(path: Path | str, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise InputError(f"{path} is {KINDS.get(stat.S_IFMT(mode), 'special')}, not a regular file; name another path")
