"""The null runtime with providers that fail while a model is opened."""

from __future__ import annotations

import ctypes
import sys
import time
from pathlib import Path

from bench.api import Session, Task
from bench.plugins.runtimes.null import NullRuntime


class FaultyOpen(NullRuntime):
    """Each provider is a fault."""

    default_for = ()

    def providers(self) -> tuple[str, ...]:
        return ("raise", "exit", "segfault", "hang", "memory")

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        if provider == "raise":
            raise RuntimeError("cannot open\nthis model")
        if provider == "exit":
            sys.exit(3)
        if provider == "segfault":
            ctypes.string_at(0)
        if provider == "hang":
            time.sleep(600)
        if provider == "memory":
            self.kept = bytearray(b"\1") * 2**30
        raise AssertionError(provider)
