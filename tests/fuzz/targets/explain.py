"""The decision of `bench explain`: stored results and the files of two cells, whose names reach what is printed."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import numpy as np

from bench.api import NodeTime
from bench.api.artifact import Artifact
from bench.api.errors import BenchError, ChildError, InputError
from bench.decisions import deployment
from bench.features.explain import inspection
from bench.features.explain import render as report
from bench.features.explain.explanation import explain
from bench.measure.limits import Limits
from bench.onnxfile.diff import drift
from bench.onnxfile.file import foreign, lazy
from bench.onnxfile.file.digest import all_nodes
from bench.pipeline import operations, profiling
from bench.plugins import catalog
from bench.records import folder
from bench.records.store import Record
from fuzz import beside, folders, models, workplace
from fuzz.watch import check_printed, each

INSTRUMENTED = (
    "bench.decisions",
    "bench.onnxfile.diff",
    "bench.features.explain.render",
    "bench.report.writing",
    "bench.records",
)
LIMITS = Limits.of(step_s=60, memory_bytes=None)
MOST_CELLS = 3
VARIANTS = {b"/halve/": b"/onnxsim/", b"/prune/": b"/fp16+dedup/"}
"""In place of the variants of made-up records, variants that there are."""
changed, smaller = beside.changed, beside.smaller


def seeds() -> Iterator[bytes]:
    for text in folders.seeds():
        for name, known in VARIANTS.items():
            text = text.replace(name, known)
        yield from (beside.joined(text, model) for model in models.alike())


def check(content: bytes) -> None:
    text, model = beside.parts(content)
    with workplace.folder() as path, workplace.compiled_once(), workplace.model_file(model) as given:
        (path / "machine").mkdir()
        folders.write(text, path / "machine")
        stored = folder.read(path)
        after, before = path / "after.onnx", path / "before.onnx"
        foreign.write(given, after)
        before.write_bytes(next(models.alike()))
        cells = [*stored.records][:MOST_CELLS]
        with _answered(_artifact(before), _artifact(after), path / "cache"):
            each(
                *(lambda cell=cell: deployment.task_of(stored.records[cell]) for cell in cells),  # type: ignore[misc]
                *(lambda cell=cell: _explained(stored, cell, None) for cell in cells),  # type: ignore[misc]
                *(lambda cell=cell: _explained(stored, cell, cells[0]) for cell in cells),  # type: ignore[misc]
            )


def _explained(stored: folder.Results, cell: str, versus: str | None) -> None:
    with mock.patch.object(deployment, "task_of", return_value=catalog.task("toy")):
        found = explain(stored, cell, versus, tolerance=0.01, limits=LIMITS)
    for format in ("table", "md", "json"):
        check_printed(report.render(found, format=format))


def _artifact(path: Path) -> Artifact:
    facts = operations.facts({"note": path.name}, path)
    return Artifact(path=path, format="onnx", sha256=path.name, size_bytes=path.stat().st_size, **facts)


@contextlib.contextmanager
def _answered(before: Artifact, after: Artifact, cache: Path) -> Iterator[None]:
    """Let this process answer what child processes are asked, about two files that nothing makes and nothing runs."""

    def steps(record: Record, limits: Limits) -> list[Artifact]:
        if record.header.artifact is None:
            raise InputError("there is no artifact")
        chain = [dataclasses.replace(after, info=record.header.artifact.info) for _ in record.cell.chain]
        return [before, *chain]

    def profiled(cell: object, artifact: Artifact, task: object, limits: Limits) -> list[NodeTime] | None:
        nodes = [
            {"name": node.name, "operator": node.op_type, "provider": "CPU", "time_ns": 1000.0 + at}
            | {"makes": [*node.output], "covers": [node.name, *node.input]}
            for at, node in enumerate(all_nodes(lazy.read(artifact.path).model))
        ]
        return msgspec.convert(json.loads(json.dumps(nodes)), list[NodeTime] | None)

    with (
        mock.patch.dict(os.environ, {"BENCH_CACHE": str(cache)}),
        mock.patch.object(deployment, "measured_steps", steps),
        mock.patch.object(profiling, "profile_nodes", profiled),
        mock.patch.object(inspection, "drift", _drift),
        mock.patch.object(inspection, "_ask", lambda operation, limits, **more: _asked(lambda: operation(**more))),
        mock.patch.object(drift, "outputs_of", _made_up),
    ):
        yield


def _drift(
    task: object, before: Artifact, after: Artifact, *, tolerance: float, names: Mapping[str, str] | None, **_: object
) -> dict[str, Any]:
    outputs = [value.name for value in lazy.read(before.path).model.graph.output]
    feeds: Any = collections.defaultdict(lambda: np.zeros(1))

    def find() -> dict[str, Any]:
        found = drift.find(before.path, after.path, feeds=feeds, outputs=outputs, tolerance=tolerance, names=names)
        return dataclasses.asdict(found)

    return _asked(find)


def _asked(operation: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The answer as the parent of a child process gets it: JSON, or the error with which the child refuses."""
    try:
        return dict(json.loads(json.dumps(operation())))
    except BenchError as error:
        raise ChildError("error", str(error)) from error


def _made_up(model: object, feeds: object, names: Sequence[str], *, optimized: bool = False) -> list[np.ndarray]:
    """Values that differ from model to model and, for every second model, with optimizations; for some of the names."""
    num_nodes = len(model.graph.node)  # type: ignore[attr-defined]
    seed = (num_nodes + (optimized and num_nodes % 2)) % 3
    return [np.array([zlib.crc32(name.encode(errors="replace")) % 5 * seed], np.float32) for name in names]
