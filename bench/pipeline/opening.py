"""How the worker of a cell is started, and which requests open the cell: the same for verifying and for measuring."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.api.cell import Cell
from bench.measure.block import Request, Subject
from bench.measure.process import Child, thread_environment
from bench.pipeline import environments, operations
from bench.pipeline.flow import Verified
from bench.plugins import catalog


def environment(cell: Cell) -> Mapping[str, str]:
    """The environment variables that set up the cell's runtime and the numeric libraries."""
    return thread_environment(cell.threads) | catalog.runtime(cell.runtime).environment(cell.threads)


def worker(cell: Cell, *, memory_bytes: int | None = None) -> Child:
    """Start a new process for a cell, in the environment of its runtime.

    Raises:
        ArtifactError: the environment cannot be made.
    """
    interpreter = environments.interpreter_of("runtimes", cell.runtime)
    return Child(environment=environment(cell), memory_bytes=memory_bytes, interpreter=interpreter)


def arguments(cell: Cell, artifact: Path) -> dict[str, Any]:
    """The arguments of a request that say which artifact to open, and how."""
    return {"cell": cell.path, "artifact": str(artifact)}


def subject(value: Verified) -> Subject:
    """A verified cell in the form that a block measures, which needs no knowledge of plugins."""
    known = arguments(value.cell, value.artifact.path)
    return Subject(
        cell=value.cell,
        key=value.key,
        environment=environment(value.cell),
        imports=Request(operation=operations.import_packages, arguments=known),
        opening=Request(operation=operations.open_session, arguments={**known, "inputs": str(value.inputs)}),
        rss_bytes=value.quality.rss_bytes,
        interpreter=environments.interpreter_of("runtimes", value.cell.runtime),
    )
