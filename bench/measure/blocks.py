"""The places where the blocks of a sweep run: on this machine one after the other, or on several machines at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

import psutil

from bench.measure.block import Method, Repeats, Result, run_block
from bench.measure.subject import Subject


class Blocks(Protocol):
    """Runs blocks."""

    def most_at_once(self) -> int:
        """How many blocks run at the same time, each on a machine of its own."""

    def free_bytes(self) -> int:
        """Memory that the workers of a block can take."""

    def begin(
        self, baseline: Subject, subjects: Sequence[Subject], method: Method, left_s: Callable[[], float]
    ) -> Future[Result]:
        """Begin a block: see `run_block`.

        Args:
            baseline: the cell with which the others are compared.
            subjects: the other cells.
            method: how the block measures.
            left_s: seconds after which it is to end early, as they are when it is called, from any thread.
        """


class BlocksHere:
    """Runs blocks on this machine, each before the next begins."""

    def __init__(self) -> None:
        self._repeats = Repeats()

    def most_at_once(self) -> int:
        """See `Blocks`."""
        return 1

    def free_bytes(self) -> int:
        """See `Blocks`."""
        return int(psutil.virtual_memory().available)

    def begin(
        self, baseline: Subject, subjects: Sequence[Subject], method: Method, left_s: Callable[[], float]
    ) -> Future[Result]:
        """Run a block to its end, in this thread, so that Ctrl-C ends it."""
        future: Future[Result] = Future()
        future.set_result(
            run_block(baseline, subjects, method, out_of_time=lambda: left_s() <= 0, repeats=self._repeats)
        )
        return future
