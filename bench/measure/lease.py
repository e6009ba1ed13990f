"""The lease of a machine: whoever prepares or measures on it holds a lock file, for two at once disturb each other.

The lock is that of the kernel (flock), so it is free again when its holder ends, however that ends. The file is
`$BENCH_LEASE`, or `inferometer.lock` in the folder for temporary files, which all users of a machine share.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.api.errors import BenchError

FREE_FOR_ALL = 0o666
POLL_S = 0.05


class LeaseError(BenchError):
    """The machine is in use."""


def path() -> Path:
    """The lock file of this machine."""
    return Path(os.environ.get("BENCH_LEASE") or Path(tempfile.gettempdir(), "inferometer.lock"))


@contextlib.contextmanager
def hold(*, wait_s: float = 0.0) -> Iterator[None]:
    """Hold this machine's lease.

    Args:
        wait_s: how long to wait for another holder to end.

    Raises:
        LeaseError: another process holds it for longer, or the file cannot be opened.
    """
    ends_s = time.monotonic() + wait_s
    with contextlib.ExitStack() as opened:
        descriptor = _open(path())
        opened.callback(os.close, descriptor)
        while not _is_locked(descriptor):
            if time.monotonic() >= ends_s:
                raise LeaseError(
                    "another `bench` prepares or measures on this machine",
                    fix=f"wait for it to end; it holds the lock on {path()}",
                )
            time.sleep(POLL_S)
        yield


def _open(file: Path) -> int:
    """A descriptor of the lock file; of another user's file, one for reading, which suffices for a lock.

    Raises:
        LeaseError: there is no such file and none can be made, or it is no regular file.
    """
    try:
        with contextlib.suppress(FileNotFoundError):
            return os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        descriptor = os.open(file, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FREE_FOR_ALL)
        with contextlib.suppress(PermissionError):
            os.fchmod(descriptor, FREE_FOR_ALL)  # whatever the umask, for the next holder may be another user
        return descriptor
    except OSError as error:
        raise LeaseError(f"cannot open {file}: {error.strerror}", fix="choose another file by BENCH_LEASE") from error


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
