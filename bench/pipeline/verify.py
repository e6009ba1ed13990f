"""Verify before timing: a whole held-out split through each artifact on each runtime, against the reference outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from bench.api import Task, cache
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import ArtifactError, BenchError, ChildError
from bench.measure.limits import Limits
from bench.measure.process import Child
from bench.pipeline import opening, operations, prepare, provenance, quality, sweeps
from bench.pipeline.flow import Prepared, Verified
from bench.plugins import catalog
from bench.records.lines import Failure, Quality


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


def reference_of(task: Task, limits: Limits, failed: prepare.FailedSteps | None = None) -> Reference:
    """The plain native cell of the first source whose packages are here, at batch 1 and one thread.

    Raises:
        ArtifactError: there is none, or it does not run.
    """
    reasons = []
    for cell in sweeps.baselines(task.name, 1, 1):
        if (reason := catalog.skip_reason(cell)) is not None:
            reasons.append(reason)
            continue
        artifact = prepare.artifact_of(cell, limits, failed)

        def make(target: Path, cell: Cell = cell, artifact: Artifact = artifact) -> dict[str, Any]:
            try:
                judged = verify(cell, artifact, None, limits, save_outputs=target)
            except ChildError as error:
                raise ArtifactError(f"reference {cell}: {error.reason}") from error
            if judged.fidelity != quality.EXACT:
                raise ArtifactError(f"reference {cell}: {judged.reason}")
            return {"cell": cell.path}

        runtime = catalog.runtime(cell.runtime)
        parts = [
            provenance.SCHEMA,
            "reference",
            cell.path,
            artifact.sha256,
            provenance.versions(runtime.requires),
            *provenance.subject(task),
        ]
        digest = cache.digest(parts)
        return Reference(cell=cell, outputs=cache.obtain(digest, "outputs.npz", make)[0], digest=digest)
    raise ArtifactError(f"no source of {task.name} works here: {'; '.join(reasons) or 'none is defined'}")


def from_name(cell: Cell, limits: Limits, failed: prepare.FailedSteps | None = None) -> Verified | Failure:
    """Prepare and verify one cell.

    Args:
        failed: see `prepare.prepared`.
    """
    value = prepare.prepared(cell, limits, failed)
    if isinstance(value, Failure):
        return value
    try:
        reference = reference_of(catalog.task(cell.task), limits, failed)
    except BenchError as error:
        return Failure.of("verify", error)
    return verified(value, reference, limits)


def verified(value: Prepared, reference: Reference, limits: Limits, known: Quality | None = None) -> Verified | Failure:
    """Judge a prepared cell's outputs against the reference.

    Args:
        known: the quality that an earlier run stored; it is taken as it is where it still holds (see `is_current`).
    """
    try:
        inputs = prepare.inputs_of(catalog.task(value.cell.task), limits)
        if known is None or not is_current(known, value, reference):
            judged = verify(value.cell, value.artifact, reference.outputs, limits)
            origin = {"reference": reference.cell.path, "reference_digest": reference.digest}
            known = replace(judged, **origin, judged_by=provenance.judge_digest(value.cell))
    except BenchError as error:
        return Failure.of("verify", error)
    return Verified(**vars(value), quality=known, inputs=inputs)


def is_current(quality: Quality, value: Prepared, reference: Reference) -> bool:
    """Whether a stored quality was judged by the code of now, against the reference of now."""
    now = (provenance.judge_digest(value.cell), reference.digest)
    return (quality.judged_by, quality.reference_digest) == now


def verify(
    cell: Cell, artifact: Artifact, reference: Path | None, limits: Limits, *, save_outputs: Path | None = None
) -> Quality:
    """Run the held-out split through an artifact in a worker of its own, and judge the outputs.

    Args:
        reference: `.npz` file with the right outputs; None where this cell defines them.
        save_outputs: `.npz` file to write the outputs to.

    Returns:
        All but what the outputs were compared with: `reference`, `reference_digest` and `judged_by`.

    Raises:
        ChildError: the artifact does not run.
    """
    with opening.worker(cell, memory_bytes=limits.memory_bytes) as child:
        reply = child.request(
            operations.verify,
            timeout_s=limits.verify_s,
            **opening.arguments(cell, artifact.path),
            reference=str(reference) if reference else None,
            save_outputs=str(save_outputs) if save_outputs else None,
        )
        cost = _cost(child, artifact, reply["input_shapes"], limits)
        return _inspected(child, cell, artifact, _quality({**reply, "cost": cost}), limits)


def _quality(fields: Mapping[str, Any]) -> Quality:
    """Fields that a worker sent, checked: some of them are what a plugin said.

    Raises:
        ChildError: one has the wrong type.
    """
    try:
        return msgspec.convert(fields, Quality)
    except msgspec.ValidationError as error:
        raise ChildError("error", f"its answer cannot be read: {error}") from error


def _cost(child: Child, artifact: Artifact, shapes: dict[str, list[int]], limits: Limits) -> dict[str, Any] | None:
    """The fields of `Cost` for a file that can be analysed; the outputs are as right without it."""
    if artifact.format != "onnx":
        return None
    try:
        return child.request(operations.cost, timeout_s=limits.verify_s, artifact=str(artifact.path), shapes=shapes)
    except ChildError:
        return None


def _inspected(child: Child, cell: Cell, artifact: Artifact, judged: Quality, limits: Limits) -> Quality:
    """The same with what the runtime tells; without that the outputs are as right, but their precision is unknown."""
    fields = msgspec.to_builtins(judged)
    try:
        told = child.request(
            operations.inspect,
            timeout_s=limits.verify_s,
            runtime=cell.runtime,
            artifact=str(artifact.path),
            provider=cell.provider,
            shapes=fields["input_shapes"],
        )
        return _quality({**fields, **told})
    except ChildError as error:
        warning = f"its precision, and where its nodes run, cannot be told: {error.reason}"
        return replace(judged, precision=None, warning=warning)
