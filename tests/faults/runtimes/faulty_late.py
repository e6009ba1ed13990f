"""The null runtime with providers that fail only after some inferences: verified well, they fail while measured."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.api import Session, Task
from bench.plugins.runtimes.null import NullRuntime

if TYPE_CHECKING:
    import numpy as np

    from bench.api import Arrays

NUM_GOOD_RUNS = 30  # more than a verification's 16


class LateSession(Session):
    """Does as another session, until it has done enough."""

    def __init__(self, good: Session, fault: str) -> None:
        self._good = good
        self._fault = fault
        self._left = NUM_GOOD_RUNS

    def run(self, feeds: Arrays) -> Sequence[np.ndarray]:
        self._left -= 1
        if self._left < 0:
            self._fail()
        return self._good.run(feeds)

    def _fail(self) -> None:
        if self._fault == "raise":
            raise RuntimeError("tired")
        if self._fault == "exit":
            os._exit(5)
        if self._fault == "segfault":
            ctypes.string_at(0)
        if self._fault == "hang":
            time.sleep(600)
        if self._fault == "memory":
            self.kept = bytearray(b"\1") * 2**30


class FaultyLate(NullRuntime):
    """Each provider is a fault."""

    default_for = ()

    def providers(self) -> tuple[str, ...]:
        return ("raise", "exit", "segfault", "hang", "memory")

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        return LateSession(
            super().open(artifact, task=task, source=source, provider=provider, threads=threads), provider
        )
