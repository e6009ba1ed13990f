"""Digests of everything that a figure depends on: code, weights, data, package versions and the machine.

A stored figure is valid as long as its digest is the same. Which code counts, `bench.pipeline.code_digests` says.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import sys
from collections.abc import Callable, Iterable, Mapping

from bench.api import Exporter, Task, Variant, cache, loading, npm
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import ArtifactError
from bench.api.names import PluginName
from bench.api.plugin import NPM
from bench.api.program import ProgramRuntime
from bench.measure import machine
from bench.pipeline import code_digests, environments, operations, rounding
from bench.plugins import catalog
from bench.plugins.generating import Generating, Stepping, generating, step
from bench.plugins.other_sizes import Resized, resized
from bench.plugins.tuning import Confirming, Tuning, confirming, tuning
from bench.plugins.view import View
from bench.records import store

SCHEMA = 3  # raise it when the same recipe would make another file, or other facts about it
_NOT_SOURCE = ("README.md", "train.py")
_MAKERS: Mapping[type[View], Callable[..., Task]] = {
    Resized: resized,
    Tuning: tuning,
    Confirming: confirming,
    Generating: generating,
    Stepping: step,
}
"""The function that makes each kind of view, whose code decides what a figure is of."""


@functools.cache
def versions(requires: tuple[str, ...]) -> dict[str, str | None]:
    """Versions of the distributions that provide these import names, and of Python.

    Several distributions may share a package, such as a compiler and its runtime; each of them is then included.

    Returns:
        Versions by distribution; None for a distribution that is not installed.
    """
    packages: dict[str, str | None] = {"python": ".".join(map(str, sys.version_info[:3]))}
    packages |= _of_npm(requires)
    for name in requires:
        if name in packages:
            continue
        for distribution in dict.fromkeys(_distributions().get(name.partition(".")[0], [name])):
            packages[distribution] = None
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                packages[distribution] = importlib.metadata.version(distribution)
    return packages


def _of_npm(requires: Iterable[str]) -> dict[str, str | None]:
    """Versions of the packages of npm among those that a plugin requires."""
    return {name: npm.version(name.removeprefix(NPM)) for name in requires if name.startswith(NPM)}


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


@functools.cache
def task_digest(task: Task) -> str:
    """Hash of a task's folder (code and weights, without `_NOT_SOURCE`) and of the code it builds on."""
    if isinstance(task, View):
        maker = code_digests.of_function(_MAKERS[type(task)])
        return cache.digest([task_digest(task.of), maker, task.differs_by])
    used = [loading.task_path(name).parent for name in task.uses]
    code = [cache.digest_files(path for path in folder.glob("*.py") if path.name not in _NOT_SOURCE) for folder in used]
    folder = cache.digest_folder(task.folder, without=_NOT_SOURCE)
    parts = [folder, code_digests.of_plugin(task), *code, versions(task.packages)]
    return cache.digest(parts)


@functools.cache
def _dataset_digest(task: Task) -> str | None:
    """Hash of the folder of a task's dataset, without its README and the script that made the data."""
    if task.dataset is None:
        return None
    folder = loading.dataset_path(task.dataset).parent
    return cache.digest_folder(folder, without=(*_NOT_SOURCE, "LICENSE", "make.py"))


def subject(task: Task) -> tuple[str, str | None]:
    """Digests of a task and of its dataset; figures of cells with different digests cannot be compared."""
    return (task_digest(task), _dataset_digest(task))


def _versions_with(kind: str, name: PluginName, requires: tuple[str, ...]) -> dict[str, str | None]:
    """Versions of the packages that a plugin runs with: those of `versions`, or of its own environment.

    Args:
        kind: `runtimes`, `exporters` or `variants`.
        name: the plugin's name in a cell.
        requires: import names of the packages.

    Raises:
        ArtifactError: the environment cannot be made.
    """
    if not environments.is_elsewhere(kind, name):
        return versions(requires)
    of_npm = _of_npm(requires)  # they are this environment's for each interpreter
    return environments.versions_of(kind, name, [each for each in requires if each not in of_npm]) | of_npm


def recipe(kind: str, name: PluginName, plugin: Exporter | Variant, **more: object) -> dict[str, object]:
    """Everything that an artifact depends on: its plugin, the plugin's packages, the source, and mostly this machine.

    Args:
        kind: `exporters` or `variants`.
        name: the plugin's name in a cell.
        plugin: the plugin.
        more: what it makes the artifact of.

    Raises:
        ArtifactError: the plugin's environment cannot be made.
    """
    here = None if plugin.portable else machine.describe()  # some optimizers write for the processor they run on
    facts = code_digests.of_function(operations.facts)
    made_by: dict[str, object] = {
        "plugin": code_digests.of_plugin(plugin),
        "versions": _versions_with(kind, name, plugin.requires),
    }
    if name.label:  # builds of one version, and interpreters, differ in it alone
        made_by["environment"] = name.label
    elif own := environment(kind, name):
        made_by["environment"] = own
    return {"schema": SCHEMA, **made_by, "facts": facts, "machine": here, **more}


def environment(kind: str, name: PluginName) -> list[str]:
    """The digest of all packages of the environment of a plugin's own; empty where it runs here, or by a label."""
    if name.label or not environments.is_elsewhere(kind, name):
        return []
    return [environments.digest_of(kind, name)]


def versions_run(cell: Cell) -> dict[str, str | None]:
    """Versions of what a cell runs with, packages and program; of an environment that cannot be made, none."""
    runtime = catalog.runtime(cell.runtime)
    try:
        versions = _versions_with("runtimes", cell.runtime, runtime.packages(str(cell.provider)))
    except ArtifactError:
        return {}
    return {**versions, **(runtime.program_versions() if isinstance(runtime, ProgramRuntime) else {})}


def record_key(cell: Cell, artifact: Artifact | None) -> str:
    """Hash of everything that a cell's latency depends on."""
    task, runtime = catalog.task(cell.task), catalog.runtime(cell.runtime)
    parts = [
        store.SCHEMA,
        machine.describe(),
        cell.path,
        # The graph rather than the file: some exporters never write the same bytes twice.
        (artifact.canonical or artifact.sha256, artifact.size_bytes) if artifact else None,
        code_digests.of_plugin(runtime),
        versions_run(cell),
        *environment("runtimes", cell.runtime),
        *subject(task),
    ]
    return cache.digest(parts)


def judge_digest(cell: Cell) -> str:
    """Hash of what judges a cell's outputs, counts its costs and inspects its artifact, and of the cell's claim."""
    judges = (operations.verify, operations.spot_check, operations.cost, operations.inspect, rounding.judged)
    functions = [code_digests.of_function(function) for function in judges]
    claim = rounding.claims_nothing_lost(cell)
    inspecting = _versions_inspecting(cell)
    return cache.digest(
        [
            *functions,
            explaining_digest(),
            claim,
            code_digests.of_plugin(catalog.runtime(cell.runtime), counted=frozenset({"inspect"})),
            *([inspecting] if inspecting else []),
        ]
    )


def _versions_inspecting(cell: Cell) -> dict[str, str | None]:
    """Versions of the packages that inspect a cell's artifact without running it; none for most cells."""
    runtime = catalog.runtime(cell.runtime)
    if not isinstance(runtime, ProgramRuntime) or not runtime.inspects_with:
        return {}
    try:
        return _versions_with("runtimes", cell.runtime, runtime.inspects_with)
    except ArtifactError:
        return {}


def explaining_digest() -> str:
    """Hash of the code that measures what rounding explains."""
    measured = (operations.explained, rounding.num_runs, rounding.largest)
    return cache.digest([code_digests.of_function(each) for each in measured])
