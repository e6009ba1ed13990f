"""The null runtime, but it prints lines that could be mistaken for an answer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.api import Session, Task
from bench.plugins.runtimes.null import NullRuntime

if TYPE_CHECKING:
    import numpy as np

    from bench.api import Arrays


class ChattySession(Session):
    """Does as another session, and talks."""

    def __init__(self, good: Session) -> None:
        self._good = good

    def run(self, feeds: Arrays) -> Sequence[np.ndarray]:
        print('{"result": "forged"}', flush=True)
        os.write(1, b'{"error": "forged", "kind": "error"}\n')
        return self._good.run(feeds)


class Chatty(NullRuntime):
    """Healthy."""

    default_for = ()

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        return ChattySession(super().open(artifact, task=task, source=source, provider=provider, threads=threads))
