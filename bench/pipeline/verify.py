"""Verify before timing: a whole held-out split through each artifact on each runtime, against the reference outputs."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from bench.api import Task, cache
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import ArtifactError, BenchError, ChildError
from bench.measure.limits import Limits
from bench.pipeline import opening, operations, prepare, provenance, quality, sweeps
from bench.pipeline.flow import Prepared, Verified
from bench.plugins import catalog
from bench.records.lines import Failure, Quality

INSPECTED = ("placement", "warning", "precision")
"""Fields of `Quality` that a runtime tells; see `Runtime.inspect`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reference:
    """The cell whose outputs define the right outputs of a task.

    Attributes:
        cell: the reference cell.
        outputs: `.npz` file with its outputs.
        digest: digest of all that the outputs depend on.
    """

    cell: Cell
    outputs: Path
    digest: str


def reference_of(task: Task, limits: Limits, failed: prepare.FailedSteps | None = None) -> Reference:
    """The plain native cell of the first source whose packages are here, at batch 1 and one thread.

    Raises:
        ArtifactError: there is no such cell, or it does not run.
    """
    reasons = []
    for cell in sweeps.baselines(task.name, 1, 1):
        if (reason := catalog.skip_reason(cell)) is None:
            break
        reasons.append(reason)
    else:
        raise ArtifactError(f"no source of {task.name} works here: {'; '.join(reasons) or 'none is defined'}")
    artifact, runtime = prepare.artifact_of(cell, limits, failed), catalog.runtime(cell.runtime)

    def make(target: Path) -> dict[str, Any]:
        try:
            judged = verify(cell, artifact, None, limits, save_outputs=target)
        except ChildError as error:
            raise ArtifactError(f"reference {cell}: {error.reason}") from error
        if judged.fidelity != quality.EXACT:
            raise ArtifactError(f"reference {cell}: {judged.reason}")
        return {"cell": cell.path}

    code = [provenance.plugin_digest(runtime), provenance.code_digest(operations.verify)]
    parts = [cell.path, artifact.sha256, provenance.versions(runtime.requires), *code, *provenance.subject(task)]
    digest = cache.digest([provenance.SCHEMA, "reference", *parts])
    return Reference(cell=cell, outputs=cache.obtain(digest, "outputs.npz", make)[0], digest=digest)


def from_name(cell: Cell, limits: Limits, failed: prepare.FailedSteps | None = None) -> Verified | Failure:
    """Prepare and verify one cell.

    Args:
        cell: the cell.
        limits: time and memory of the child processes.
        failed: see `prepare.prepared`.
    """
    if (reason := prepare.skip_reason(cell)) is not None:
        return Failure(stage="skip", reason=reason)
    value = prepare.prepared(cell, limits, failed)
    if isinstance(value, Failure):
        return value
    try:
        reference = reference_of(catalog.task(cell.task), limits, failed)
    except BenchError as error:
        return Failure.of("verify", error)
    return verified(value, reference, limits)


def verified(
    value: Prepared, reference: Reference, limits: Limits, stored: Sequence[Quality] = ()
) -> Verified | Failure:
    """Judge a prepared cell's outputs against the reference.

    Args:
        value: the prepared cell.
        reference: the reference of the cell's task.
        limits: time and memory of the worker.
        stored: qualities of the same outputs that earlier runs stored; the first that was judged by the code of now,
            against the reference of now, is reused.

    Returns:
        The verified cell, or the failure that stopped it.
    """
    try:
        inputs = prepare.inputs_of(catalog.task(value.cell.task), limits)
        judge = provenance.judge_digest(value.cell)
        known = next((quality for quality in stored if quality.judges == (judge, reference.digest)), None)
        if known is None:
            judged = verify(value.cell, value.artifact, reference.outputs, limits)
            origin = {"reference": reference.cell.path, "reference_digest": reference.digest}
            known = replace(judged, **origin, judged_by=judge)
    except BenchError as error:
        return Failure.of("verify", error)
    return Verified(**vars(value), quality=known, inputs=inputs)


def verify(
    cell: Cell, artifact: Artifact, reference: Path | None, limits: Limits, *, save_outputs: Path | None = None
) -> Quality:
    """Run the held-out split through an artifact in a worker of its own, and judge the outputs.

    Args:
        cell: the cell whose runtime runs the artifact.
        artifact: the artifact to judge.
        reference: `.npz` file with the right outputs; None where this cell defines them.
        limits: time and memory of the worker.
        save_outputs: `.npz` file to write the outputs to.

    Returns:
        The quality without the fields on the comparison: `reference`, `reference_digest` and `judged_by`.

    Raises:
        ChildError: the artifact does not run.
    """
    with opening.worker(cell, memory_bytes=limits.memory_bytes) as child:
        ask = functools.partial(child.request, timeout_s=limits.verify_s)
        opened = opening.arguments(cell, artifact.path)
        paths = {"reference": reference, "save_outputs": save_outputs}
        files: dict[str, Any] = {name: str(path) if path else None for name, path in paths.items()}
        fields = ask(operations.verify, **opened, **files)
        shapes = fields["input_shapes"]
        if artifact.format == "onnx":
            with contextlib.suppress(ChildError):  # the outputs of a file that cannot be analysed are no less right
                fields["cost"] = ask(operations.cost, artifact=str(artifact.path), shapes=shapes)
        judged = _quality(fields)
        try:
            told = ask(operations.inspect, **opened, shapes=shapes)
            return _quality({**fields, **{name: told[name] for name in INSPECTED if name in told}})
        except ChildError as error:
            warning = f"its precision, and where its nodes run, cannot be told: {error.reason}"
            return replace(judged, precision=None, warning=warning)


def _quality(fields: Mapping[str, Any]) -> Quality:
    """Check the types of the fields that a worker sent, some of which come from a plugin.

    Raises:
        ChildError: a field has the wrong type.
    """
    try:
        return msgspec.convert(fields, Quality)
    except msgspec.ValidationError as error:
        raise ChildError("error", f"its answer cannot be read: {error}") from error
