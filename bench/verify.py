"""Verify before timing: a whole held-out split through each artifact on each runtime, against the reference outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench import cache, plugins, prepare, sweeps
from bench.api import Task
from bench.cell import Cell
from bench.errors import ArtifactError, ChildError
from bench.measure.process import Child, thread_environment
from bench.prepare import Artifact, Limits


def reference_of(task: Task, limits: Limits) -> tuple[Cell, Path]:
    """The cell that defines the task's right outputs, and those outputs as an `.npz` file.

    It is the plain native cell of the first source that works here, at batch 1 and one thread.

    Raises:
        ArtifactError: no source works here.
    """
    reasons = []
    for cell in sweeps.baselines(task.name, 1, 1):
        if (reason := plugins.skip_reason(cell)) is not None:
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

        runtime = plugins.runtime(cell.runtime)
        parts = [
            prepare.SCHEMA,
            "reference",
            cell.path,
            artifact.sha256,
            prepare.versions(runtime.requires),
            prepare.task_digest(task),
            prepare.dataset_digest(task),
        ]
        return cell, cache.obtain(cache.digest(parts), "outputs.npz", make)[0]
    raise ArtifactError(f"no source of {task.name} works here: {'; '.join(reasons) or 'none is defined'}")


def verify(
    cell: Cell, artifact: Artifact, reference: Path | None, limits: Limits, *, save_outputs: Path | None = None
) -> dict[str, Any]:
    """Run the held-out split and judge the outputs: see `quality.judge`; with `precision` and the worker's `rss_bytes`.

    Raises:
        ChildError: the artifact does not run.
    """
    environment = thread_environment(cell.threads) | plugins.runtime(cell.runtime).environment(cell.threads)
    with Child(environment=environment, memory_bytes=limits.memory_bytes) as child:
        return child.request(
            "verify",
            timeout_s=limits.verify_s,
            task=cell.task,
            source=cell.source,
            runtime=cell.runtime,
            provider=cell.provider,
            artifact=str(artifact.path),
            batch=cell.batch,
            threads=cell.threads,
            reference=str(reference) if reference else None,
            save_outputs=str(save_outputs) if save_outputs else None,
        )
