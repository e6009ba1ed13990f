"""Verify before timing: the held-out split through each artifact on each runtime, against the reference outputs."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
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
from bench.measure.scratch import Scratch
from bench.pipeline import (
    code_digests,
    environments,
    first_outputs,
    opening,
    operations,
    prepare,
    provenance,
    quality,
    remarks,
    rounding,
    sweeps,
)
from bench.pipeline.flow import Prepared, Verified
from bench.pipeline.looks import Until
from bench.pipeline.run_split import beside, inspected
from bench.plugins import catalog
from bench.records.lines import Failure, Quality


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reference:
    """The cell whose outputs define the right outputs of a task.

    Attributes:
        cell: the reference cell.
        outputs: `.npz` file with its outputs.
        digest: digest of all that the outputs and their quality depend on.
        quality: the quality that was told when the outputs were made.
        in_place_of: the cell that would be the reference if its runtime ran the model; None where it does.
    """

    cell: Cell
    outputs: Path
    digest: str
    quality: Quality
    in_place_of: Cell | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Judged:
    """A cell whose own outputs were judged, with the `.npz` file of the outputs, for the samples that it ran."""

    cell: Cell
    quality: Quality
    outputs: Path


def reference_of(task: Task, limits: Limits, failed: prepare.FailedSteps | None = None) -> Reference:
    """The plain native cell of the first source whose packages are here, at batch 1 and one thread.

    Where its runtime refuses the model or crashes, as one without a kernel that the model needs, it is the same cell on
    the first other runtime that runs it, see `sweeps.in_place_of`: then the cells fail that cannot run the model, and
    no others.

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
    artifact = prepare.artifact_of(cell, limits, failed)
    try:
        return _reference(cell, artifact, limits)
    except ArtifactError as error:
        if not isinstance(error.__cause__, ChildError) or error.__cause__.kind not in remarks.REFUSES:
            raise
        for other in sweeps.in_place_of(cell):
            if catalog.skip_reason(other) is None:
                with contextlib.suppress(BenchError):
                    return dataclasses.replace(_reference(other, artifact, limits), in_place_of=cell)
        raise


def _reference(cell: Cell, artifact: Artifact, limits: Limits) -> Reference:
    """The outputs of a cell, from the cache or made now.

    Raises:
        ArtifactError: the cell does not run, or its outputs are no numbers.
    """
    runtime, subject = catalog.runtime(cell.runtime), provenance.subject(catalog.task(cell.task))

    def make(target: Path) -> dict[str, Any]:
        try:
            judged = verify(cell, artifact, None, limits, save_outputs=target)
        except ChildError as error:
            raise ArtifactError(f"reference {cell}: {error.reason}") from error
        if judged.fidelity != quality.EXACT:
            raise ArtifactError(f"reference {cell}: {judged.reason}")
        return {"cell": cell.path, "quality": msgspec.to_builtins(judged)}

    code = [code_digests.of_plugin(runtime), provenance.judge_digest(cell)]
    ran_with = (provenance.versions_run(cell), *provenance.environment("runtimes", cell.runtime))
    parts = [cell.path, artifact.sha256, *ran_with, *code, *subject]
    digest = cache.digest([provenance.SCHEMA, "reference", *parts])
    outputs, entry = cache.obtain(digest, "outputs.npz", make)
    return Reference(cell=cell, outputs=outputs, digest=digest, quality=msgspec.convert(entry["quality"], Quality))


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
    return verified([value], reference, limits)[0]


def verified(
    values: Sequence[Prepared],
    reference: Reference,
    limits: Limits,
    stored: Mapping[Cell, Sequence[Quality]] | None = None,
    until: Until | None = None,
) -> list[Verified | Failure]:
    """Judge cells that run the same graph on the same runtime and provider, with other batches and numbers of threads.

    The whole split goes through the first cell that has no quality yet; if the reference is one of these cells but for
    its batch and threads, it has gone through the reference. Each further cell runs a few samples, and the whole split
    only where its outputs are not those of the first cell, see `bench.pipeline.spot`.

    Args:
        values: the prepared cells, those with the smallest batch and the fewest threads first.
        reference: the reference of the cells' task.
        limits: time and memory of each worker.
        stored: by cell, qualities of the same outputs that earlier runs stored; the first that was judged by the code
            of now, against the reference of now, is reused if it tells enough.
        until: when a verification has decided; None for the whole split.

    Returns:
        In the order of the cells, the verified cell or the failure that stopped it.
    """
    outcomes: list[Verified | Failure] = []
    whole: _Judged | None = None
    if any(_runs_like(value.cell, reference.cell) for value in values):
        whole = _Judged(cell=reference.cell, quality=reference.quality, outputs=reference.outputs)
    with Scratch() as folder:
        for value in values:
            try:
                inputs = prepare.inputs_of(catalog.task(value.cell.task), limits)
                judges = provenance.judge_digest(value.cell), reference.digest
                qualities = [item for item in (stored or {}).get(value.cell, ()) if item.judges == judges]
                enough = (item for item in qualities if (item.is_whole if until is None else until.is_met(item)))
                known = next(enough, None)
                if value.cell == reference.cell:
                    known = known or reference.quality
                if (
                    known is None
                    and whole is not None
                    and not environments.is_elsewhere("runtimes", value.cell.runtime)
                ):
                    known = spot_check(value, inputs, whole, reference, limits)
                if known is None:
                    # Where a part was looked at, the bound of the whole split is one of several.
                    ends = Until(limit=0.0) if until is None and qualities else until
                    parts = (first_outputs.of(value, item, judges) for item in qualities)
                    is_needed = ends is not None or (whole is None and value is not values[-1])
                    outputs = Path(folder, f"{len(outcomes)}.npz") if is_needed else None
                    known = verify(
                        value.cell,
                        value.artifact,
                        reference,
                        limits,
                        save_outputs=outputs,
                        until=ends,
                        begun_outputs=next(filter(None, parts), None),
                    )
                    if outputs is not None:
                        first_outputs.keep(value, known, judges, outputs)
                    if whole is None and outputs is not None and known.fidelity != quality.BROKEN:
                        whole = _Judged(cell=value.cell, quality=known, outputs=outputs)
            except BenchError as error:
                outcomes.append(
                    remarks.failed(Failure.of("verify", error), value.cell, reference.cell, reference.in_place_of)
                )
                continue
            origin = {"reference": reference.cell.path, "reference_digest": reference.digest, "judged_by": judges[0]}
            counted = {"reference_params": reference.quality.num_params}
            known = replace(known, **origin, **counted)
            known = remarks.with_remarks(known, value.cell, reference.cell, reference.in_place_of)
            outcomes.append(Verified.of(value, quality=known, inputs=inputs))
    return outcomes


def _runs_like(cell: Cell, other: Cell) -> bool:
    """Whether two cells differ in their batch and threads alone."""
    return dataclasses.replace(cell, batch=other.batch, threads=other.threads) == other


def spot_check(value: Prepared, inputs: Path, whole: _Judged, reference: Reference, limits: Limits) -> Quality | None:
    """Run a few samples through a cell, and compare its outputs with those of the same artifact in a verified cell.

    Returns:
        The cell's quality, or None where the whole split must tell it.

    Raises:
        ChildError: the artifact does not run.
    """
    cell, artifact = value.cell, value.artifact
    with opening.worker(cell, memory_bytes=limits.memory_bytes) as child:
        ask = functools.partial(child.request, timeout_s=limits.verify_s)
        opened = opening.arguments(cell, artifact.path)
        verified = {
            "inputs": str(inputs),
            "verified": msgspec.to_builtins(whole.quality),
            "by": whole.cell.path,
            "outputs": str(whole.outputs),
        }
        fields = ask(operations.spot_check, **opened, **verified, reference=str(reference.outputs))["quality"]
        return None if fields is None else inspected(fields, artifact, ask, opened)


def verify(
    cell: Cell,
    artifact: Artifact,
    reference: Reference | Path | None,
    limits: Limits,
    *,
    save_outputs: Path | None = None,
    until: Until | None = None,
    begun_outputs: Path | None = None,
) -> Quality:
    """Run the held-out split through an artifact in a worker of its own, and judge the outputs.

    Args:
        cell: the cell whose runtime runs the artifact.
        artifact: the artifact to judge.
        reference: the reference, which limits what a cell may lose that claims to lose nothing; or an `.npz` file with
            outputs to compare with, which may be of another precision; None where this cell defines the right outputs.
        limits: time and memory of the worker.
        save_outputs: `.npz` file to write the outputs to.
        until: when the verification has decided, where there is a reference; None for the whole split.
        begun_outputs: `.npz` file with the outputs of the samples that an earlier verification ran.

    Returns:
        The quality without the fields on the comparison: `reference`, `reference_digest` and `judged_by`.

    Raises:
        ChildError: the artifact does not run.
        ArtifactError: the environment of the cell's runtime cannot be made.
    """
    expected = reference.outputs if isinstance(reference, Reference) else reference
    known = reference.quality if isinstance(reference, Reference) else None
    how: dict[str, Any] = {"until": until, "begun_outputs": begun_outputs} if known else {}
    judged, shares = beside(cell, artifact, expected, limits, save_outputs=save_outputs, known=known, **how)
    if not isinstance(reference, Reference) or not rounding.claims_nothing_lost(cell):
        return judged
    try:
        strict_quality = rounding.judged(
            catalog.task(cell.task), judged, shares, reference.quality, lambda: _explained(reference, limits)
        )
        if strict_quality.fidelity != quality.BROKEN or judged.fidelity == quality.BROKEN or judged.is_whole:
            return strict_quality
    except BenchError as error:
        unsure = f"whether rounding explains how far it drifted cannot be told: {error}"
        return replace(judged, doubts="; ".join(filter(None, (judged.doubts, unsure))))
    # One sample of a few may differ by more than rounding explains on the whole split, which alone tells.
    more: dict[str, Any] = {"until": Until(limit=0.0), "begun_outputs": begun_outputs}
    return verify(cell, artifact, reference, limits, save_outputs=save_outputs, **more)


_FAILURES: dict[tuple[str, Limits], BenchError] = {}
"""Why it is not known what rounding explains, by what would tell it: each cell of a reference would try again."""


def _explained(reference: Reference, limits: Limits) -> rounding.Shares | None:
    """The largest shares of a reference's outputs that rounding makes, from the cache or measured now.

    Raises:
        ArtifactError: the inputs or the artifact of the reference cannot be made.
        ChildError: the reference does not run with changed inputs and weights.
    """
    cell = reference.cell

    def make(target: Path) -> dict[str, Any]:
        task = catalog.task(cell.task)
        arguments = opening.arguments(cell, prepare.artifact_of(cell, limits).path)
        arguments |= {"inputs": str(prepare.inputs_of(task, limits)), "reference": str(reference.outputs)}
        with opening.worker(cell, memory_bytes=limits.memory_bytes) as child:
            ask = functools.partial(child.request, operations.explained, timeout_s=limits.verify_s, **arguments)
            runs = [ask(seed=seed)["shares"] for seed in range(rounding.num_runs(task))]
        answer = {"shares": None if None in runs else rounding.largest(runs)}
        target.write_text(json.dumps(answer))
        return answer

    key = cache.digest([reference.digest, provenance.explaining_digest()])
    if (failure := _FAILURES.get((key, limits))) is not None:
        raise failure
    try:
        _, entry = cache.obtain(key, "shares.json", make)
    except BenchError as error:
        _FAILURES[key, limits] = error
        raise
    shares: rounding.Shares | None = entry["shares"]
    return shares
