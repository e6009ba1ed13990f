"""The token of a fleet: a file that its user alone can read and write, for whoever has the token may run code."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

from bench.api import files
from bench.api.errors import InputError
from bench.features.fleet import private

SHORTEST, LONGEST = 32, 4096
"""Fewest and most characters of a token; one that is made here has 64."""
_NAMES_IT = "--token-file names it"
_ANOTHER = "--token-file names another file, and `bench fleet up` makes one where there is none"


def place(path: Path | None) -> Path:
    """The file of the fleet's token: that which is given, or the user's own."""
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return path or home / "inferometer" / "fleet-token"


def make(path: Path) -> None:
    """Write a new token, readable by the user alone, unless there is one.

    Raises:
        InputError: the file cannot be written.
    """
    try:
        for folder in reversed([parent for parent in (path.parent, *path.parent.parents) if not parent.exists()]):
            folder.mkdir(mode=0o700, exist_ok=True)  # `parents=True` would take the user's mask for the others
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_hex(32))
    except OSError as error:
        raise InputError(f"cannot write the token to {path}: {error.strerror}") from error


def safe(path: Path) -> Path:
    """The path of a token that no other user can know or replace, without links in it.

    Raises:
        InputError: it cannot be read, is no token, or others may read, write or replace it.
    """
    try:
        if path.is_symlink() and path.lstat().st_uid not in (os.geteuid(), private.ROOT):
            raise InputError(f"the fleet's token {path} is a symbolic link of another user", fix=_ANOTHER)
        target = path.resolve()
        with files.opened(target) as file:
            state = os.fstat(file.fileno())
            content = file.read(LONGEST + 1)
    except OSError as error:
        raise InputError(f"cannot read the fleet's token: {path}: {error.strerror}", fix=_NAMES_IT) from error
    _refuse_known(path, state)
    if (reason := private.replaceable(target.parent)) is not None:
        raise InputError(
            f"the fleet's token {path} could be replaced: {reason}", fix=f"`chmod go-w` that folder; or {_ANOTHER}"
        )
    _refuse_unlikely(path, content)
    return target


def _refuse_known(path: Path, state: os.stat_result) -> None:
    """Refuse a file that another user may have read or written."""
    if state.st_uid != os.geteuid():
        raise InputError(f"the fleet's token {path} belongs to another user, who knows it", fix=_ANOTHER)
    if state.st_mode & private.UMASK:
        mode = stat.S_IMODE(state.st_mode)
        raise InputError(
            f"other users may know or write the fleet's token {path}: its mode is {mode:04o}, not 0600",
            fix=f"`rm {path}` and `bench fleet up` make a new one; `chmod 600 {path}` where nobody else has had it",
        )
    if state.st_nlink > 1:
        raise InputError(f"the fleet's token {path} has {state.st_nlink} names (hard links), not one", fix=_ANOTHER)


def _refuse_unlikely(path: Path, content: bytes) -> None:
    """Refuse a content that is no token."""
    token = content.strip()
    if len(content) > LONGEST:
        raise InputError(f"{path} is no token of a fleet: it has more than {LONGEST} characters", fix=_ANOTHER)
    if len(token) < SHORTEST:
        fault = f"it has {len(token)} characters" if token else "it is empty"
        raise InputError(
            f"{path} is no token of a fleet: {fault}, and {SHORTEST} are the fewest",
            fix=f"`rm {path}` and `bench fleet up` make a new one",
        )
    if not all(33 <= byte <= 126 for byte in token):
        raise InputError(f"{path} is no token of a fleet: it has other characters than those of ASCII", fix=_ANOTHER)
