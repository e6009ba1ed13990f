"""The two pipes between a client and the workers that serve it: one of requests, one of answers.

All workers read one pipe, so the system hands each request to a worker that waits, first come, first served, and no
process stands between. Records have a fixed size below `PIPE_BUF`, so each is written and read whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

REQUEST = struct.Struct("<qq")
"""Number of the request, and the row of the sample that it asks about."""
STOP = -1
"""Number of a request at which a worker stops serving."""
OTHER_WORK = -1
"""In place of a row: the worker is to do other work, which leaves nothing of the model in the caches."""
ANSWER = np.dtype(
    [
        ("number", "<i8"),
        ("start_ns", "<i8"),
        ("end_ns", "<i8"),
        ("worker", "<i4"),
        ("batch", "<i4"),
    ]
)
"""Number of the request that is answered; when the inference began and ended, by the clock that all processes share;
which worker ran it; and how many requests the inference answered, or `FIRST_TOKEN`."""
FIRST_TOKEN = 0
"""In place of the number of requests: no answer yet, but its first token was there at `end_ns`."""
ANSWER_STRUCT = struct.Struct("<qqqii")
PIPE_BYTES = 1 << 20
"""Room for the requests that wait: 65,536 of them."""
READ_BYTES = 1 << 16


def make(folder: Path) -> tuple[Path, Path]:
    """Make the pipes of requests and of answers in a folder."""
    paths = folder / "requests", folder / "answers"
    for path in paths:
        os.mkfifo(path, 0o600)
    return paths


@contextlib.contextmanager
def opened(path: Path, *, blocking: bool) -> Iterator[int]:
    """A descriptor of a pipe, to read and to write, so that opening waits for nobody and the pipe has no end."""
    descriptor = os.open(path, os.O_RDWR | (0 if blocking else os.O_NONBLOCK))
    try:
        with contextlib.suppress(OSError):  # a user may have no more room left
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        yield descriptor
    finally:
        os.close(descriptor)


def drop_waiting(descriptor: int) -> int:
    """Take the requests that wait out of a pipe that does not block; returns how many."""
    num_bytes = 0
    with contextlib.suppress(BlockingIOError):
        while data := os.read(descriptor, READ_BYTES):
            num_bytes += len(data)
    return num_bytes // REQUEST.size


def stop(descriptor: int, workers: int) -> None:
    """Tell so many workers to stop, after the requests that wait."""
    for _ in range(workers):
        os.write(descriptor, REQUEST.pack(STOP, 0))
