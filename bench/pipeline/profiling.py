"""The nodes that a runtime runs for an artifact with the time of each, asked of a child process."""

from __future__ import annotations

import msgspec

from bench.api import NodeTime, Task
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import ChildError
from bench.measure.limits import Limits
from bench.pipeline import opening, prepare, profile_requests

NUM_RUNS = 20
"""Number of inferences that a profiler measures."""


def profile_nodes(cell: Cell, artifact: Artifact, task: Task, limits: Limits) -> list[NodeTime] | None:
    """The nodes that run, in their order, by the runtime's own profiler; None where the runtime has no profiler.

    Raises:
        ChildError: the profiler failed, or a plugin's answer has a field of the wrong type.
    """
    opened = {**opening.arguments(cell, artifact.path), "inputs": str(prepare.inputs_of(task, limits))}
    with opening.worker(cell, memory_bytes=limits.memory_bytes) as child:
        answer = child.request(profile_requests.profile_nodes, timeout_s=limits.verify_s, **opened, num_runs=NUM_RUNS)
    try:
        return msgspec.convert(answer["nodes"], list[NodeTime] | None)
    except msgspec.ValidationError as error:
        raise ChildError("error", f"its answer cannot be read: {error}") from error
