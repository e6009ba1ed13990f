"""Places of a fleet that no other user of the machine may reach: the folder of all that Ray writes.

Ray makes the folders of a session writable for all users, so that another one could replace a log or a socket by a
link. So they lie in a folder that its user alone can enter, in which nothing else of Ray's modes matters.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from bench.api.errors import InputError
from bench.api.files import KINDS

UMASK = 0o077
"""The mask of the modes of Ray's files: nothing for others."""
LONGEST = 36
"""Most bytes of the folder's path: a Unix socket's has at most 107, of which Ray takes up to 71 for
`/ray/session_2026-11-20_10-00-00_000000_1234567/sockets/plasma_store.1`.
"""
ROOT = 0


def folder() -> Path:
    """The folder of all that Ray writes on this machine, made where there is none: `/tmp/bench-fleet-UID`.

    `RAY_TMPDIR` names another place than `/tmp`. It is short, for the paths of sockets are limited.

    Raises:
        InputError: it cannot be made, or other users may enter, write or replace it.
    """
    base = Path(os.environ.get("RAY_TMPDIR") or "/tmp").resolve()
    path, elsewhere = base / f"bench-fleet-{os.geteuid()}", "RAY_TMPDIR names another place for it"
    if len(os.fsencode(path)) > LONGEST:
        raise InputError(
            f"the path of Ray's folder is too long for its sockets: {path}; it has at most {LONGEST} bytes",
            fix="RAY_TMPDIR names a shorter place",
        )
    try:
        if (reason := replaceable(base)) is not None:
            raise InputError(f"Ray's files would not be safe in {base}: {reason}", fix=elsewhere)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=stat.S_IRWXU)
        state = path.lstat()
    except OSError as error:
        raise InputError(f"cannot make Ray's folder {path}: {error.strerror}", fix=elsewhere) from error
    if not stat.S_ISDIR(state.st_mode):
        kind = KINDS.get(stat.S_IFMT(state.st_mode), "a file")
        raise InputError(f"Ray's folder {path} is {kind}, not a folder", fix=f"remove it, or {elsewhere}")
    if state.st_uid != os.geteuid():
        raise InputError(f"Ray's folder {path} belongs to another user; it has to be your own", fix=elsewhere)
    if state.st_mode & UMASK:
        mode = stat.S_IMODE(state.st_mode)
        raise InputError(
            f"Ray's folder {path} is open to other users (mode {mode:04o}, not 0700), who may have put files there",
            fix=f"`rm -r {path}`; `bench fleet up` makes it anew",
        )
    return path


def replaceable(folder: Path) -> str | None:
    """Why another user could replace what lies in a folder, or the folder itself; None where none can.

    Others may write to a folder with the sticky bit: there they replace nothing of ours.
    """
    for place in (folder, *folder.parents):
        state = place.stat()
        if state.st_uid not in (os.geteuid(), ROOT):
            return f"{place} belongs to another user"
        if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not state.st_mode & stat.S_ISVTX:
            return f"others may write to {place} (mode {stat.S_IMODE(state.st_mode):04o})"
    return None


def is_closed(path: Path) -> bool:
    """Whether other users can enter neither a path nor one of the folders above it, so that none reaches it."""
    return any(not place.stat().st_mode & UMASK for place in (path, *path.parents))
