"""The null runtime, which cannot open a model while the file named by `$BENCH_TEST_FAULT` exists."""

from __future__ import annotations

import os
from pathlib import Path

from bench.api import Session, Task
from bench.plugins.runtimes.null import NullRuntime


class Flaky(NullRuntime):
    """Well or ill, as a test wants it."""

    default_for = ()

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        if Path(os.environ["BENCH_TEST_FAULT"]).exists():
            raise RuntimeError("not today")
        return super().open(artifact, task=task, source=source, provider=provider, threads=threads)
