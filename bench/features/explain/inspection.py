"""Inspection of artifacts in child processes: the differences between two files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.api import Task
from bench.api.artifact import Artifact
from bench.features.explain import worker_requests
from bench.measure.limits import Limits
from bench.measure.process import ask_once
from bench.onnxfile import requests
from bench.pipeline import prepare


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
