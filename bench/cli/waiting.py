"""Lines for a person who waits: what a command is doing, where that takes longer than three seconds."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

FIRST_S, EVERY_S = 3.0, 30.0
"""Time until the first line, and from each line to the next."""


@contextlib.contextmanager
def reporting(what: str, tell: Callable[[str], None], *, first_s: float = FIRST_S) -> Iterator[None]:
    """Tell what the statements in the `with` block do, if they take long.

    Args:
        what: what they do, such as `reading the stored results`.
        tell: called with each line, in another thread.
        first_s: time until the first line, in seconds.
    """
    done = threading.Event()
    thread = threading.Thread(target=report, args=(what, tell, done.wait), kwargs={"first_s": first_s}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def report(
    what: str,
    tell: Callable[[str], None],
    wait: Callable[[float], bool],
    *,
    first_s: float = FIRST_S,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Tell what is done, now and then, until it is done; see `reporting`.

    Args:
        what, tell, first_s: see `reporting`.
        wait: waits for so many seconds, or until it is done, and returns whether it is.
        clock: the time in seconds.
    """
    began_s, wait_s = clock(), first_s
    while not wait(wait_s):
        tell(f"{what}, for {clock() - began_s:.0f} s so far")
        wait_s = EVERY_S
