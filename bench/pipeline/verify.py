"""Verify before timing: a whole held-out split through each artifact on each runtime, against the reference outputs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from bench.api import Task, cache
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import ArtifactError, ChildError
from bench.measure.limits import Limits
from bench.measure.process import Child
from bench.pipeline import opening, operations, prepare, provenance, sweeps
from bench.plugins import catalog


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reference:
    """What defines a task's right outputs.

    Attributes:
        outputs: `.npz` file.
        digest: of all that the outputs depend on.
    """

    cell: Cell
    outputs: Path
    digest: str


def reference_of(task: Task, limits: Limits) -> Reference:
    """The plain native cell of the first source whose packages are here, at batch 1 and one thread.

    Raises:
        ArtifactError: there is none, or it does not run.
    """
    reasons = []
    for cell in sweeps.baselines(task.name, 1, 1):
        if (reason := catalog.skip_reason(cell)) is not None:
            reasons.append(reason)
            continue
        artifact = prepare.artifact_of(cell, limits)

        def make(target: Path, cell: Cell = cell, artifact: Artifact = artifact) -> dict[str, Any]:
            try:
                judged = verify(cell, artifact, None, limits, save_outputs=target)
            except ChildError as error:
                raise ArtifactError(f"reference {cell}: {error.reason}") from error
            if judged["fidelity"] != "exact":
                raise ArtifactError(f"reference {cell}: {judged['reason']}")
            return {"cell": cell.path}

        runtime = catalog.runtime(cell.runtime)
        parts = [
            provenance.SCHEMA,
            "reference",
            cell.path,
            artifact.sha256,
            provenance.versions(runtime.requires),
            provenance.task_digest(task),
            provenance.dataset_digest(task),
        ]
        digest = cache.digest(parts)
        return Reference(cell=cell, outputs=cache.obtain(digest, "outputs.npz", make)[0], digest=digest)
    raise ArtifactError(f"no source of {task.name} works here: {'; '.join(reasons) or 'none is defined'}")


def verify(
    cell: Cell, artifact: Artifact, reference: Path | None, limits: Limits, *, save_outputs: Path | None = None
) -> dict[str, Any]:
    """Run the held-out split and judge the outputs: see `quality.judge`; with `precision` and the worker's `rss_bytes`.

    Raises:
        ChildError: the artifact does not run.
    """
    with opening.worker(cell, memory_bytes=limits.memory_bytes) as child:
        judged: dict[str, Any] = child.request(
            operations.verify,
            timeout_s=limits.verify_s,
            **opening.subject(cell, artifact.path),
            reference=str(reference) if reference else None,
            save_outputs=str(save_outputs) if save_outputs else None,
        )
        cost = _cost(child, artifact, judged, limits)
        inspected = _inspect(child, cell, artifact, judged, limits)
        return {**judged, "cost": cost, "placement": None, "warning": None, **inspected}


def _cost(child: Child, artifact: Artifact, judged: dict[str, Any], limits: Limits) -> dict[str, Any] | None:
    """MACs and bytes of weights of a file that can be analysed; it is right without them, too."""
    if artifact.format != "onnx":
        return None
    try:
        found: dict[str, Any] = child.request(
            operations.cost, timeout_s=limits.verify_s, artifact=str(artifact.path), shapes=judged["input_shapes"]
        )
    except ChildError:
        return None
    return found


def _inspect(child: Child, cell: Cell, artifact: Artifact, judged: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """What the runtime tells of the artifact. Without it the outputs are as right, but their precision is not known."""
    try:
        found: dict[str, Any] = child.request(
            operations.inspect,
            timeout_s=limits.verify_s,
            runtime=cell.runtime,
            artifact=str(artifact.path),
            provider=cell.provider,
            shapes=judged["input_shapes"],
        )
    except ChildError as error:
        return {"precision": None, "warning": f"its precision, and where its nodes run, cannot be told: {error.reason}"}
    return found
