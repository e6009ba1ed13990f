"""Make artifacts, inputs and reference outputs: each step in a child process, each result cached by its content."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.api import Task, cache
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import ArtifactError, ChildError, RefusedError
from bench.measure import clock
from bench.measure.limits import Limits
from bench.measure.process import ask_once
from bench.pipeline import operations, provenance
from bench.plugins import catalog

_FAILED: dict[tuple[Path, str, Limits], ArtifactError] = {}
"""Steps that failed in this process, which would fail again."""


def artifact_of(cell: Cell, limits: Limits) -> Artifact:
    """The artifact that a cell runs, from the cache or made now, with every step before it.

    Raises:
        ArtifactError: a step failed; the message names it.
    """
    return steps_of(cell, limits)[-1]


def steps_of(cell: Cell, limits: Limits) -> list[Artifact]:
    """Every step's artifact: what the exporter wrote, and what each variant made of it.

    Raises:
        ArtifactError: a step failed; the message names it.
    """
    exporter = catalog.exporter(cell.exporter)
    task = [provenance.task_digest(catalog.task(cell.task)), provenance.dataset_digest(catalog.task(cell.task))]
    artifact = _made(
        step=cell.exporter,
        format_=exporter.format(cell.source),
        recipe=provenance.recipe(exporter, task=task, source=cell.source),
        limits=limits,
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
    operation: Callable[..., Any],
    request: dict[str, str],
) -> Artifact:
    key = cache.digest(recipe)
    attempt = (cache.folder(), key, limits)

    def make(target: Path) -> dict[str, Any]:
        if attempt in _FAILED:  # an export that fails is the first step of a score of cells
            raise _FAILED[attempt]
        start = clock.now_ns()
        try:
            facts = _ask(step, operation, limits.prepare_s, limits, target=str(target), **request)
        except ArtifactError as error:
            _FAILED[attempt] = error
            raise
        facts["info"] |= {"seconds": round((clock.now_ns() - start) / 1e9, 3), "versions": recipe["versions"]}
        return {"format": format_, **facts}

    path, entry = cache.obtain(key, f"artifact.{format_}", make)
    return Artifact(path=path, **entry)


def _ask(step: str, operation: Callable[..., Any], timeout_s: float, limits: Limits, **request: Any) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = ask_once(operation, timeout_s=timeout_s, memory_bytes=limits.memory_bytes, **request)
    except ChildError as error:
        kind = RefusedError if error.kind == "refused" else ArtifactError
        raise kind(f"{step}: {error.reason}") from error
    return answer


def inputs_of(task: Task, limits: Limits) -> Path:
    """The held-out split's inputs as an `.npz` file.

    Raises:
        ArtifactError: the dataset cannot be read.
    """

    def make(target: Path) -> dict[str, Any]:
        step = f"dataset of {task.name}"
        return _ask(
            step, operations.save_inputs, limits.prepare_s, limits, task=task.name, split="test", target=str(target)
        )

    key = cache.digest([provenance.SCHEMA, "inputs", provenance.task_digest(task), provenance.dataset_digest(task)])
    return cache.obtain(key, "inputs.npz", make)[0]
