"""A cell made ready to be measured: its artifact made, and its outputs judged against its task's reference."""

from __future__ import annotations

from bench.api.cell import Cell
from bench.api.errors import ArtifactError, RefusedError
from bench.measure.block import Subject
from bench.measure.limits import Limits
from bench.pipeline import prepare, verify
from bench.pipeline.provenance import record_key
from bench.pipeline.quality import BROKEN
from bench.plugins import catalog
from bench.records.lines import Quality


def subject_of(cell: Cell, limits: Limits) -> Subject:
    """A cell that runs and is right, from the cache or made now.

    Raises:
        RefusedError: it cannot run on this machine, or a variant has nothing to work on.
        ArtifactError: it could not be made, there is no reference, or its outputs are broken.
        ChildError: it does not run.
    """
    subject, quality = judged_subject(cell, limits)
    if quality.fidelity == BROKEN:
        raise ArtifactError(f"{cell} is broken: {quality.reason}")
    return subject


def judged_subject(cell: Cell, limits: Limits) -> tuple[Subject, Quality]:
    """The same with its quality (see `verify.verify`), which may be broken.

    Raises:
        As `subject_of`, but for broken outputs.
    """
    if (reason := catalog.skip_reason(cell)) is not None:
        raise RefusedError(reason)
    task = catalog.task(cell.task)
    artifact = prepare.artifact_of(cell, limits)
    reference = verify.reference_of(task, limits)
    quality = verify.verify(cell, artifact, reference.outputs, limits)
    subject = Subject(
        cell=cell,
        key=record_key(cell, artifact),
        artifact=artifact,
        inputs=prepare.inputs_of(task, limits),
        rss_bytes=quality.rss_bytes,
    )
    return subject, quality
