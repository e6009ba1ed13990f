"""How a cell's worker is started and what it is asked to open: the same for verifying it and for measuring it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.api.cell import Cell
from bench.measure.process import Child, thread_environment
from bench.plugins import catalog


def worker(cell: Cell, *, memory_bytes: int | None = None) -> Child:
    """A new process with what the cell's runtime reads from the environment."""
    environment = thread_environment(cell.threads) | catalog.runtime(cell.runtime).environment(cell.threads)
    return Child(environment=environment, memory_bytes=memory_bytes)


def subject(cell: Cell, artifact: Path) -> dict[str, Any]:
    """The part of a request that says which artifact to open, and how."""
    return {
        "task": cell.task,
        "source": cell.source,
        "runtime": cell.runtime,
        "provider": cell.provider,
        "artifact": str(artifact),
        "batch": cell.batch,
        "threads": cell.threads,
    }
