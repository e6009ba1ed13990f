"""Lines for a person who waits: what a command is doing, where that takes longer than three seconds."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

FIRST_S, EVERY_S = 3.0, 30.0
"""Time until the first line, and from each line to the next."""


@contextlib.contextmanager
def said(what: str, tell: Callable[[str], None], *, first_s: float = FIRST_S) -> Iterator[None]:
    """Tell what the statements in the `with` block do, if they take long.

    Args:
        what: what they do, such as `reading the stored results`.
        tell: called with each line, in another thread.
        first_s: time until the first line, in seconds.
    """
    done, began_s = threading.Event(), time.monotonic()

    def tell_while_waiting() -> None:
        wait_s = first_s
        while not done.wait(wait_s):
            tell(f"{what}, for {time.monotonic() - began_s:.0f} s so far")
            wait_s = EVERY_S

    thread = threading.Thread(target=tell_while_waiting, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
