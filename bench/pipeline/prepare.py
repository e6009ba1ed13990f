"""Preparation of a cell: artifacts and inputs are made in child processes, and cached by all that they depend on."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from bench.api import Part, Task, cache
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import ArtifactError, BenchError, ChildError, PluginError, RefusedError
from bench.api.names import PluginName, Role
from bench.measure import clock
from bench.measure.limits import Limits
from bench.measure.process import ask_once
from bench.pipeline import environments, opening, operations, provenance
from bench.pipeline.flow import Prepared
from bench.plugins import catalog
from bench.records.lines import Failure

_REFUSAL = "refusal.txt"
FailedSteps = dict[str, ArtifactError]
"""The errors of failed steps by the steps' keys, which a sweep shares: an export is the first step of many cells."""


def skip_reason(cell: Cell) -> str | None:
    """Why a cell cannot work here, broken plugin files included; None where it can."""
    try:
        return catalog.skip_reason(cell)
    except PluginError as error:
        return str(error)


def prepared(cell: Cell, limits: Limits, failed: FailedSteps | None = None) -> Prepared | Failure:
    """Make a cell's artifact, or take it from the cache.

    Args:
        cell: a cell that can work here, see `skip_reason`.
        limits: time and memory of the child processes.
        failed: steps that failed before and are not tried again; those that fail now are added.
    """
    try:
        for kind, name in environments.names_of(cell):
            environments.of(kind, name)
        artifact = artifact_of(cell, limits, failed)
    except RefusedError as error:
        return Failure(stage="skip", reason=str(error))
    except BenchError as error:
        return Failure.of("prepare", error)
    key, subject = provenance.record_key(cell, artifact), provenance.subject(catalog.task(cell.task))
    return Prepared(cell=cell, artifact=artifact, key=key, subject=subject)


def artifact_of(cell: Cell, limits: Limits, failed: FailedSteps | None = None) -> Artifact:
    """The artifact that a cell runs, from the cache or made now, with every step before it.

    Its `note`, if any, is the notes of all steps, each after the name of its step. One of them is that a step which
    stores numbers in fewer bits made the file larger, as it does of models of few weights.

    Raises:
        ArtifactError: a step failed; the message names it.
    """
    steps = steps_of(cell, limits, failed)
    names = (cell.exporter, *cell.chain)
    notes = [f"{name}: {step.info['note']}" for name, step in zip(names, steps, strict=True) if "note" in step.info]
    changes = zip(cell.chain, itertools.pairwise(steps), strict=True)
    notes += [f"{name}: {note}" for name, (before, after) in changes if (note := _told_if_grown(name, before, after))]
    last = steps[-1]
    return dataclasses.replace(last, info={**last.info, "note": "; ".join(notes)}) if notes else last


def _told_if_grown(variant: PluginName, before: Artifact, after: Artifact) -> str | None:
    """A sentence about a variant of fewer bits whose file is larger than the file before it; None for any other."""
    if not catalog.variant(variant).variant.lossy or after.size_bytes <= before.size_bytes:
        return None
    return (
        f"its file is larger than the file before it, {after.size_bytes:,} B of {before.size_bytes:,} B: it adds more "
        "operators and scales than its narrower numbers save"
    )


def steps_of(cell: Cell, limits: Limits, failed: FailedSteps | None = None) -> list[Artifact]:
    """The artifact of every step: the file that the exporter wrote, and the file that each variant made of it.

    A task at other sizes shares the files of the task at its own sizes, up to a step that fixes sizes. The tasks of a
    search share all files of the task that they judge: a file does not depend on the samples that judge it.

    Raises:
        ArtifactError: a step failed; the message names it.
    """
    maker = functools.partial(_made, limits, {} if failed is None else failed)
    exporter = catalog.exporter(cell.exporter)
    task = cell.task.exported
    is_generation = cell.task.role is Role.GENERATION  # whose passes have no fixed size
    fixed = task if is_generation else dataclasses.replace(task, sizes=cell.task.sizes)
    task = fixed if exporter.freezes else task
    subject = provenance.subject(catalog.task(task))
    recipe = provenance.recipe("exporters", cell.exporter, exporter, task=subject, source=cell.source)
    request = {"task": str(task), "source": cell.source, "exporter": str(cell.exporter)}
    place = opening.process(exporter, kind="exporters", name=cell.exporter)
    steps = [maker(str(cell.exporter), exporter.format(cell.source), recipe, place, operations.export, request)]
    for name in cell.chain:
        named, before = catalog.variant(name), steps[-1]
        if before.format not in named.variant.formats:
            raise ArtifactError(f"{name} takes {' or '.join(named.variant.formats)}, not {before.format}")
        task = fixed if named.variant.freezes else task
        subject = provenance.subject(catalog.task(task))
        more = {"task": subject, "option": named.option, "source": before.sha256}
        recipe = provenance.recipe("variants", name, named.variant, **more)
        request = {"task": str(task), "variant": str(name), "source": str(before.path)}
        place = opening.process(named.variant, kind="variants", name=name)
        steps.append(maker(str(name), before.format, recipe, place, operations.transform, request))
    return steps


def portable_of(cell: Cell, limits: Limits) -> list[Path]:
    """The files of a cell's steps that serve every processor, from the cache or made now.

    Raises:
        ArtifactError: a step failed.
    """
    variants = (catalog.variant(name).variant.portable for name in cell.chain)
    portable = (catalog.exporter(cell.exporter).portable, *variants)
    return [step.path for step, serves_all in zip(steps_of(cell, limits), portable, strict=True) if serves_all]


def parts_of(cell: Cell, variant: str, limits: Limits) -> list[Part]:
    """The parts of a cell's artifact that a variant treats each in its own way: see `Variant.parts`.

    Raises:
        ArtifactError: the artifact cannot be made, or its parts cannot be told.
    """
    artifact = artifact_of(cell, limits)
    request = {"task": str(cell.task.exported), "variant": variant, "source": str(artifact.path)}
    name = PluginName.parse(variant)
    place = opening.process(catalog.variant_file(variant), kind="variants", name=name)
    parts = _ask(variant, place, operations.parts, limits, **request)["parts"]
    return msgspec.convert(parts, list[Part])


def _made(
    limits: Limits,
    failed: FailedSteps,
    step: str,
    format_: str,
    recipe: dict[str, Any],
    place: Mapping[str, Any],
    operation: Callable[..., Any],
    request: dict[str, str],
) -> Artifact:
    """The artifact of one step, from the cache or made now by a child process."""
    key = cache.digest(recipe)
    refusal = cache.digest([key, "refusal"])

    def make(target: Path) -> dict[str, Any]:
        if key in failed:
            raise failed[key]
        if (refused := cache.entry_of(refusal, _REFUSAL)) is not None:
            raise RefusedError(refused["reason"])
        try:
            taken_ns, facts = clock.time_call(
                lambda: _ask(step, place, operation, limits, target=str(target), **request)
            )
        except ArtifactError as error:
            failed[key] = error
            if isinstance(error, RefusedError):  # it follows from the recipe, as the file would
                cache.obtain(refusal, _REFUSAL, functools.partial(_written, reason=str(error)))
            raise
        facts["info"] |= {"seconds": round(taken_ns / 1e9, 3), "versions": recipe["versions"]}
        return {"format": format_, **facts}

    path, entry = cache.obtain(key, f"artifact.{format_}", make)
    return Artifact(path=path, **entry)


def _written(target: Path, *, reason: str) -> dict[str, Any]:
    target.write_text(reason)
    return {"reason": reason}


def _ask(
    step: str, place: Mapping[str, Any], operation: Callable[..., Any], limits: Limits, **request: Any
) -> dict[str, Any]:
    limited = functools.partial(ask_once, timeout_s=limits.prepare_s, memory_bytes=limits.memory_bytes)
    try:
        return limited(operation, **place, **request)
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
        place = opening.process()  # few tasks need what they require for their samples alone
        return _ask(step, place, operations.save_inputs, limits, task=task.name, split="test", target=str(target))

    key = cache.digest([provenance.SCHEMA, "inputs", *provenance.subject(task)])
    return cache.obtain(key, "inputs.npz", make)[0]
