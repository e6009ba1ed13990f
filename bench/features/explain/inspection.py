"""Inspection of artifacts in child processes: the time of each node, and the differences between two files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from bench.api import NodeTime, Task
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import ChildError
from bench.features.explain import worker_requests
from bench.measure.limits import Limits
from bench.measure.process import ask_once
from bench.onnxfile import requests
from bench.pipeline import opening, prepare

NUM_RUNS = 20
"""Number of inferences that a profiler measures."""


def profile_nodes(cell: Cell, artifact: Artifact, task: Task, limits: Limits) -> list[NodeTime] | None:
    """The nodes that run, in their order, by the runtime's own profiler; None where the runtime has no profiler.

    Raises:
        ChildError: the profiler failed, or a plugin's answer has a field of the wrong type.
    """
    opened = {**opening.arguments(cell, artifact.path), "inputs": str(prepare.inputs_of(task, limits))}
    with opening.worker(cell, memory_bytes=limits.memory_bytes) as child:
        answer = child.request(worker_requests.profile_nodes, timeout_s=limits.verify_s, **opened, num_runs=NUM_RUNS)
    try:
        return msgspec.convert(answer["nodes"], list[NodeTime] | None)
    except msgspec.ValidationError as error:
        raise ChildError("error", f"its answer cannot be read: {error}") from error


def common_tensors(before: Path, after: Path, limits: Limits) -> dict[str, str]:
    """Names of the tensors that two ONNX files share, from the second file to the first.

    Raises:
        ChildError: a file cannot be read.
    """
    return dict(_ask(requests.common_tensors, limits, path=str(before), other=str(after))["names"])


def differences(before: Path, after: Path, limits: Limits) -> dict[str, Any]:
    """See `bench.onnxfile.requests.diff`.

    Raises:
        ChildError: a file cannot be read.
    """
    return _ask(requests.diff, limits, path=str(before), other=str(after))


def drift(
    task: Task,
    before: Artifact,
    after: Artifact,
    *,
    batch: int,
    tolerance: float,
    names: Mapping[str, str] | None,
    limits: Limits,
) -> dict[str, Any]:
    """See `bench.onnxfile.diff.drift.Drift`.

    Args:
        task: the task whose inputs are fed.
        before: the first ONNX file.
        after: the second ONNX file.
        batch: number of samples in the inference.
        tolerance: largest difference that is no drift, as a share of the largest magnitude.
        names: names of the tensors that both files share, from `after` to `before`; None for equal names.
        limits: time and memory of the child process.

    Raises:
        ChildError: the two files cannot be compared.
    """
    return _ask(
        worker_requests.drift,
        limits,
        task=task.name,
        before=str(before.path),
        after=str(after.path),
        inputs=str(prepare.inputs_of(task, limits)),
        batch=batch,
        tolerance=tolerance,
        names=names,
    )


def _ask(operation: Any, limits: Limits, **arguments: Any) -> dict[str, Any]:
    return ask_once(operation, timeout_s=limits.verify_s, memory_bytes=limits.memory_bytes, **arguments)
