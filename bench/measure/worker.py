"""The main program of a child process with limits: it performs one request at a time.

Requests come as lines of JSON on standard input and are answered as lines of JSON on the original standard output;
the output of packages goes to standard error, which the parent keeps as the log of a failure.
Run as `python -P -m bench.measure.worker SETTINGS KEEPER`, where KEEPER is the process identifier of its parent.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import re
import signal
import sys
import traceback
from collections.abc import Iterator

from bench.api import containment
from bench.api.errors import BenchError, RefusedError
from bench.api.messages import FULL_DISK, LONGEST, MOST_CHARACTERS, is_full_disk, shortened, without_places
from bench.measure.confine import confine
from bench.measure.session import Worker

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""Escape sequences with which some packages colour their messages for a terminal."""
_LONGEST_TIMER_S = 1e6
"""About as long as some systems let a timer run."""


def answer(worker: Worker, line: str) -> str:
    """The reply to one request: its result, or the error that it raised."""
    request = json.loads(line)
    number = {"id": request.get("id")}
    try:
        with _stack_told_after(request["timeout_s"]):
            result = worker.do(request["operation"], request["arguments"])
        return json.dumps({**number, "result": result}, allow_nan=False)  # a plugin may return anything
    except BaseException as error:  # a worker is stopped by signals alone; a task may raise whatever it likes
        kinds = {"memory": MemoryError, "refused": RefusedError}
        kind = next((name for name, type_ in kinds.items() if isinstance(error, type_)), "error")
        return json.dumps({**number, "error": _one_line(error), "kind": kind, "traceback": traceback.format_exc()})


@contextlib.contextmanager
def _stack_told_after(timeout_s: float) -> Iterator[None]:
    """Write the stack to the log shortly before the parent's patience ends: it says which code gave no answer.

    By a signal rather than a thread, which would be beside what is measured.
    """
    signal.setitimer(signal.ITIMER_REAL, min(max(0.8 * timeout_s, timeout_s - 0.2), _LONGEST_TIMER_S))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _one_line(error: BaseException) -> str:
    """The kind and the text of an error; the middle of a long text is left out, for its end says what went wrong."""
    if is_full_disk(error):
        return FULL_DISK
    is_told = isinstance(error, Exception)
    text = shortened(COLOURS.sub("", str(error) if is_told else containment.description(error)), MOST_CHARACTERS)
    text = shortened(" ".join(without_places(text).split()), LONGEST)
    if isinstance(error, BenchError) or not is_told:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def main() -> None:
    """Answer requests until the parent closes the pipe."""
    settings = json.loads(sys.argv[1])
    serve(parent_pid=int(sys.argv[2]), memory_bytes=settings["memory_bytes"], is_timed=settings["is_timed"])


def serve(*, parent_pid: int, memory_bytes: int | None, is_timed: bool) -> None:
    """Confine this process, and answer requests until its input ends.

    Args:
        parent_pid: identifier of the parent process, with which this process dies.
        memory_bytes: limit on private writable memory; None for no limit.
        is_timed: whether this process is to run before others.
    """
    worker = Worker(confine(parent_pid=parent_pid, memory_bytes=memory_bytes, is_timed=is_timed))
    requests, replies = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    faulthandler.register(signal.SIGALRM, file=2, all_threads=False)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # a model that reads its input is not to take the requests
    os.close(nothing)
    for line in requests:
        replies.write(answer(worker, line) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
