"""Make artifacts, inputs and reference outputs: each step in a child process, each result cached by its content."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from bench import cache, plugins
from bench.api import Plugin, Task
from bench.cell import Cell
from bench.errors import ArtifactError, ChildError, RefusedError
from bench.measure import clock, machine
from bench.measure.process import ask_once

SCHEMA = 3  # raise it when the same recipe would make another file, or other facts about it
NOT_SOURCE = ("README.md", "train.py")
_FAILED: dict[tuple[Path, str, Limits], ArtifactError] = {}
"""Steps that failed in this process, which would fail again."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """What one child may take; None is no limit."""

    prepare_s: float = 600
    verify_s: float = 300
    open_s: float = 180
    burst_s: float = 60
    memory_bytes: int | None = None

    @classmethod
    def of(cls, *, step_s: float | None, memory_bytes: int | None) -> Limits:
        """The same time for every step, or each step's default; half of the machine's memory by default."""
        memory_bytes = memory_bytes or psutil.virtual_memory().total // 2
        if step_s is None:
            return cls(memory_bytes=memory_bytes)
        return cls(prepare_s=step_s, verify_s=step_s, open_s=step_s, burst_s=step_s, memory_bytes=memory_bytes)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Artifact:
    """A file with a format, and how it was made.

    Attributes:
        sha256: of the file.
        canonical: equal for two files that are the same graph with the same weights; None where it cannot be told.
        num_params: parameters stored, each once; None where it cannot be told from the file.
        operators: how many nodes of each operator there are; None where it cannot be told.
        info: what its maker wrote down, with the seconds taken and the versions used.
    """

    path: Path
    format: str
    sha256: str
    size_bytes: int
    canonical: str | None
    num_params: int | None
    operators: Mapping[str, int] | None = None
    info: Mapping[str, Any]


@functools.cache
def versions(requires: tuple[str, ...]) -> dict[str, str | None]:
    """Versions of the distributions that provide these import names, and of Python.

    Several may share a package, such as the compiler and the runtime of one name: then all of them.
    """
    found: dict[str, str | None] = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in requires:
        for distribution in dict.fromkeys(_distributions().get(name.partition(".")[0], [name])):
            try:
                found[distribution] = importlib.metadata.version(distribution)
            except importlib.metadata.PackageNotFoundError:
                found[distribution] = None
    return found


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


@functools.cache
def task_digest(task: Task) -> str:
    """Hash of a task's folder (code and weights, not its README and training script) and of the code it builds on."""
    used = [plugins.task_path(name).parent for name in task.uses]
    code = [
        plugins.digest_files(path for path in folder.glob("*.py") if path.name not in NOT_SOURCE) for folder in used
    ]
    return cache.digest(
        [
            plugins.digest_folder(task.folder, without=NOT_SOURCE),
            plugins.digest_code(task.path),
            *code,
            versions(task.packages),
        ]
    )


@functools.cache
def dataset_digest(task: Task) -> str | None:
    """Hash of the dataset's folder that a task reads, but for what tells about it and what made it."""
    if task.dataset is None:
        return None
    folder = plugins.dataset_path(task.dataset).parent
    return plugins.digest_folder(folder, without=(*NOT_SOURCE, "LICENSE", "make.py"))


def _recipe(plugin: Plugin, **more: Any) -> dict[str, Any]:
    code = plugins.digest_code(plugin.path)
    here = machine.describe()  # some optimizers write for the processor they run on
    return {"schema": SCHEMA, "plugin": code, "versions": versions(plugin.requires), "machine": here, **more}


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
    exporter = plugins.exporter(cell.exporter)
    task = [task_digest(plugins.task(cell.task)), dataset_digest(plugins.task(cell.task))]
    artifact = _made(
        step=cell.exporter,
        format_=exporter.format(cell.source),
        recipe=_recipe(exporter, task=task, source=cell.source),
        limits=limits,
        operation="export",
        request={"task": cell.task, "source": cell.source, "exporter": cell.exporter},
    )
    steps = [artifact]
    for name in cell.chain:
        named = plugins.variant(name)
        if artifact.format not in named.variant.formats:
            raise ArtifactError(f"{name} takes {' or '.join(named.variant.formats)}, not {artifact.format}")
        artifact = _made(
            step=name,
            format_=artifact.format,
            recipe=_recipe(named.variant, task=task, option=named.option, source=artifact.sha256),
            limits=limits,
            operation="transform",
            request={"task": cell.task, "variant": name, "source": str(artifact.path)},
        )
        steps.append(artifact)
    return steps


def _made(
    *, step: str, format_: str, recipe: dict[str, Any], limits: Limits, operation: str, request: dict[str, str]
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


def _ask(step: str, operation: str, timeout_s: float, limits: Limits, **request: Any) -> dict[str, Any]:
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
        return _ask(step, "save_inputs", limits.prepare_s, limits, task=task.name, split="test", target=str(target))

    key = cache.digest([SCHEMA, "inputs", task_digest(task), dataset_digest(task)])
    return cache.obtain(key, "inputs.npz", make)[0]
