"""How a cell's worker is started and what it is asked to open: the same for verifying it and for measuring it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.api.cell import Cell
from bench.measure.block import Request, Subject
from bench.measure.process import Child, thread_environment
from bench.pipeline import operations
from bench.pipeline.flow import Verified
from bench.plugins import catalog


def environment(cell: Cell) -> Mapping[str, str]:
    """What the cell's runtime and the numeric libraries read from the environment."""
    return thread_environment(cell.threads) | catalog.runtime(cell.runtime).environment(cell.threads)


def worker(cell: Cell, *, memory_bytes: int | None = None) -> Child:
    """A new process for a cell."""
    return Child(environment=environment(cell), memory_bytes=memory_bytes)


def arguments(cell: Cell, artifact: Path) -> dict[str, Any]:
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


def subject(value: Verified) -> Subject:
    """A verified cell as a block measures it: which needs to know no plugin."""
    opened = {**arguments(value.cell, value.artifact.path), "inputs": str(value.inputs)}
    return Subject(
        cell=value.cell,
        key=value.key,
        environment=environment(value.cell),
        imports=Request(operation=operations.import_packages, arguments={"runtime": value.cell.runtime}),
        opening=Request(operation=operations.open_session, arguments=opened),
        rss_bytes=value.quality.rss_bytes,
    )
