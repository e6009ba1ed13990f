"""Make artifacts, inputs and reference outputs: each step in a child process, each result cached by its content."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.api import Task, cache
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import ArtifactError, BenchError, ChildError, PluginError, RefusedError
from bench.measure import clock
from bench.measure.limits import Limits
from bench.measure.process import ask_once
from bench.pipeline import operations, provenance
from bench.pipeline.flow import Prepared
from bench.plugins import catalog
from bench.records.lines import Failure

FailedSteps = dict[str, ArtifactError]
"""By the key of a step that failed, its error: a sweep hands one on, for an export is the first step of many cells."""


def skip_reason(cell: Cell) -> str | None:
    """Why a cell cannot work here, broken plugin files included; None where it can."""
    try:
        return catalog.skip_reason(cell)
    except PluginError as error:
        return str(error)


def prepared(cell: Cell, limits: Limits, failed: FailedSteps | None = None) -> Prepared | Failure:
    """Make a cell's artifact, or take it from the cache.

    Args:
        failed: steps that failed before and are not tried again; those that fail now are added.
    """
    if (reason := skip_reason(cell)) is not None:
        return Failure(stage="skip", reason=reason)
    try:
        artifact = artifact_of(cell, limits, failed)
    except RefusedError as error:
        return Failure(stage="skip", reason=str(error))
    except BenchError as error:
        return Failure.of("prepare", error)
    key, subject = provenance.record_key(cell, artifact), provenance.subject(catalog.task(cell.task))
    return Prepared(cell=cell, artifact=artifact, key=key, subject=subject)


def artifact_of(cell: Cell, limits: Limits, failed: FailedSteps | None = None) -> Artifact:
    """The artifact that a cell runs, from the cache or made now, with every step before it.

    Raises:
        ArtifactError: a step failed; the message names it.
    """
    return steps_of(cell, limits, failed)[-1]


def steps_of(cell: Cell, limits: Limits, failed: FailedSteps | None = None) -> list[Artifact]:
    """Every step's artifact: what the exporter wrote, and what each variant made of it.

    Raises:
        ArtifactError: a step failed; the message names it.
    """
    exporter = catalog.exporter(cell.exporter)
    task = provenance.subject(catalog.task(cell.task))
    artifact = _made(
        step=cell.exporter,
        format_=exporter.format(cell.source),
        recipe=provenance.recipe(exporter, task=task, source=cell.source),
        limits=limits,
        failed=failed,
        operation=operations.export,
        request={"task": cell.task, "source": cell.source, "exporter": cell.exporter},
    )
    steps = [artifact]
    for name in cell.chain:
        named = catalog.variant(name)
        if artifact.format not in named.variant.formats:
            raise ArtifactError(f"{name} takes {' or '.join(named.variant.formats)}, not {artifact.format}")
        artifact = _made(
            step=name,
            format_=artifact.format,
            recipe=provenance.recipe(named.variant, task=task, option=named.option, source=artifact.sha256),
            limits=limits,
            failed=failed,
            operation=operations.transform,
            request={"task": cell.task, "variant": name, "source": str(artifact.path)},
        )
        steps.append(artifact)
    return steps


def _made(
    *,
    step: str,
    format_: str,
    recipe: dict[str, Any],
    limits: Limits,
    failed: FailedSteps | None,
    operation: Callable[..., Any],
    request: dict[str, str],
) -> Artifact:
    key = cache.digest(recipe)
    failed = {} if failed is None else failed

    def make(target: Path) -> dict[str, Any]:
        if key in failed:
            raise failed[key]
        start = clock.now_ns()
        try:
            facts = _ask(step, operation, limits, target=str(target), **request)
        except ArtifactError as error:
            failed[key] = error
            raise
        facts["info"] |= {"seconds": round((clock.now_ns() - start) / 1e9, 3), "versions": recipe["versions"]}
        return {"format": format_, **facts}

    path, entry = cache.obtain(key, f"artifact.{format_}", make)
    return Artifact(path=path, **entry)


def _ask(step: str, operation: Callable[..., Any], limits: Limits, **request: Any) -> dict[str, Any]:
    try:
        return ask_once(operation, timeout_s=limits.prepare_s, memory_bytes=limits.memory_bytes, **request)
    except ChildError as error:
        kind = RefusedError if error.kind == "refused" else ArtifactError
        raise kind(f"{step}: {error.reason}") from error


def inputs_of(task: Task, limits: Limits) -> Path:
    """The held-out split's inputs as an `.npz` file.

    Raises:
        ArtifactError: the dataset cannot be read.
    """

    def make(target: Path) -> dict[str, Any]:
        step = f"dataset of {task.name}"
        return _ask(step, operations.save_inputs, limits, task=task.name, split="test", target=str(target))

    key = cache.digest([provenance.SCHEMA, "inputs", *provenance.subject(task)])
    return cache.obtain(key, "inputs.npz", make)[0]
