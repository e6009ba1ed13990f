"""What a figure depends on, as digests: code, weights, data, package versions and the machine."""

from __future__ import annotations

import functools
import importlib.metadata
import sys
from collections.abc import Mapping

from bench.api import Task, cache, loading
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.measure import machine
from bench.plugins import catalog, fingerprint
from bench.records import store

SCHEMA = 3  # raise it when the same recipe would make another file, or other facts about it


NOT_SOURCE = ("README.md", "train.py")


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
    used = [loading.task_path(name).parent for name in task.uses]
    code = [
        fingerprint.digest_files(path for path in folder.glob("*.py") if path.name not in NOT_SOURCE) for folder in used
    ]
    return cache.digest(
        [
            fingerprint.digest_folder(task.folder, without=NOT_SOURCE),
            fingerprint.digest_code(task.path),
            *code,
            versions(task.packages),
        ]
    )


@functools.cache
def dataset_digest(task: Task) -> str | None:
    """Hash of the dataset's folder that a task reads, but for what tells about it and what made it."""
    if task.dataset is None:
        return None
    folder = loading.dataset_path(task.dataset).parent
    return fingerprint.digest_folder(folder, without=(*NOT_SOURCE, "LICENSE", "make.py"))


@functools.cache
def judges() -> str:
    """Hash of the code that judges outputs and inspects artifacts: what it said before it changed is asked again."""
    engine = "plugins/engines/onnxruntime"
    names = (*(f"pipeline/{name}" for name in ("quality", "verify", "feeding", "operations")), f"{engine}/precision")
    files = [loading.PACKAGE / f"{name}.py" for name in (*names, f"{engine}/placement")]
    files += (loading.PACKAGE / "graphs").rglob("*.py")
    return fingerprint.digest_files(files, root=loading.PACKAGE)


def record_key(cell: Cell, artifact: Artifact | None) -> str:
    """Hash of all that a cell's figures depend on."""
    task, runtime = catalog.task(cell.task), catalog.runtime(cell.runtime)
    parts = [
        store.SCHEMA,
        machine.describe(),
        cell.path,
        # The graph rather than the file: some exporters never write the same bytes twice.
        (artifact.canonical or artifact.sha256, artifact.size_bytes) if artifact else None,
        fingerprint.digest_code(runtime.path),
        versions(runtime.packages(cell.provider)),
        task_digest(task),
        dataset_digest(task),
    ]
    return cache.digest(parts)
