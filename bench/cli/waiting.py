"""Lines for a person who waits: what a command is doing, where that takes longer than three seconds."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from bench.cli import options

FIRST_S, EVERY_S = 3.0, 30.0
"""Time until the first line, and from each line to the next."""


@contextlib.contextmanager
def said(what: str, *, first_s: float = FIRST_S) -> Iterator[None]:
    """Say on the standard error stream what the statements in the `with` block do, if they take long.

    Args:
        what: what they do, such as `reading the stored results`.
        first_s: time until the first line, in seconds.
    """
    done, began_s = threading.Event(), time.monotonic()

    def tell() -> None:
        wait_s = first_s
        while not done.wait(wait_s):
            options.say(f"{what}, for {time.monotonic() - began_s:.0f} s so far")
            wait_s = EVERY_S

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
