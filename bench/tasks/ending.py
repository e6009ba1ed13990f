"""Runs of a model that are given up at a deadline, for packages that cannot end a run and let other threads go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def within(try_s: float, deadline: float, run: Callable[[], Result]) -> Result:
    """What a run gives; at the deadline the run is left alone, and goes on for as long as this process.

    Args:
        try_s: the seconds from which the deadline follows, for the message.
        deadline: by `time.monotonic`; after it, nothing is run at all.
        run: is called in a thread of its own.

    Raises:
        TimeoutError: the deadline came before the end of the run.
    """
    results: list[Result] = []
    errors: list[BaseException] = []

    def keep() -> None:
        try:
            results.append(run())
        except BaseException as error:
            errors.append(error)

    left_s = min(deadline - time.monotonic(), threading.TIMEOUT_MAX)
    if left_s > 0:
        thread = threading.Thread(target=keep, daemon=True)
        thread.start()
        thread.join(left_s)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"its run did not end within {try_s:g} s")
    return results[0]
