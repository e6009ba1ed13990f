"""The null runtime with providers that fail at the first inference, or give wrong outputs."""

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


class FaultySession(Session):
    """Doubles its input, with a fault."""

    def __init__(self, fault: str) -> None:
        self._fault = fault

    def run(self, feeds: Arrays) -> Sequence[np.ndarray]:
        doubled = feeds["x"] * 2
        if self._fault == "raise":
            raise RuntimeError("cannot run")
        if self._fault == "exit":
            os._exit(4)
        if self._fault == "segfault":
            ctypes.string_at(0)
        if self._fault == "hang":
            time.sleep(600)
        if self._fault == "memory":
            self.kept = bytearray(b"\1") * 2**30
        if self._fault == "nan":
            doubled[0, 3] = float("nan")
        if self._fault == "scale3":
            doubled = feeds["x"] * 3
        if self._fault == "shape":
            doubled = doubled[:, :7]
        if self._fault == "more":
            return [doubled, doubled]
        return [doubled]


class FaultyRun(NullRuntime):
    """Each provider is a fault."""

    default_for = ()

    def providers(self) -> tuple[str, ...]:
        return ("raise", "exit", "segfault", "hang", "memory", "nan", "scale3", "shape", "more")

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        return FaultySession(provider)
