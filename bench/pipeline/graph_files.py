"""The ONNX file of a model in any format, for the commands that read graphs: itself, its plain export or its graph."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api import Task, cache
from bench.api.artifact import Artifact
from bench.api.cell import RAW, Cell
from bench.api.errors import BenchError, ChildError, InputError
from bench.measure.limits import Limits
from bench.measure.process import ask_once
from bench.onnxfile.shapes import size_options
from bench.pipeline import code_digests, isolated, operations, prepare, provenance, sweeps
from bench.plugins import catalog, declarations
from bench.tasks import adopt, formats

_SUFFIX = ".onnx"
_TORCH = "torch"
"""The source of models whose framework tells their parameters by name."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphFile:
    """An ONNX file to read.

    Attributes:
        path: the file.
        model: the model that the user named.
        exporter: name of the exporter that made the file, or of the format whose module wrote it; None for a file that
            is the model itself.
        shapes: shapes of its inputs by name: as given, or of an export as the model was tried.
        dims: sizes of its dynamic dimensions by name, as given; of an export they are in the shapes.
        notes: lines to tell the user.
    """

    path: Path
    model: Path
    exporter: str | None = None
    shapes: Mapping[str, Sequence[int]]
    dims: Mapping[str, int]
    notes: tuple[str, ...] = ()


def of_model(path: Path, options: adopt.Options, limits: Limits) -> GraphFile:
    """The ONNX file of a model: an `.onnx` file as it is, of another format what the first exporter makes that can.

    Of a format that no exporter takes, it is the graph that the module of the format writes.

    Raises:
        InputError: there is no such model, it needs `--trust`, or nothing makes an ONNX file of it.
    """
    shapes = {name: shape.sizes for name, shape in size_options.shapes_from(options.shapes).items()}
    dims = size_options.dims_from(options.dims)
    if path.suffix.lower() == _SUFFIX and not path.is_dir():
        formats.format_of(path)  # refuses a file that is not there in the words of every format
        return GraphFile(path=path, model=path, shapes=shapes, dims=dims)
    adopted = adopt.adopt(path, options, limits=limits)
    task = catalog.task(adopted.name)
    reasons, failed = [], prepare.FailedSteps()
    for cell in isolated.usable(sweeps.cells_of((task.name,), variants=(RAW,))):
        exporter = catalog.exporter(cell.exporter)
        if exporter.format(cell.source) != "onnx":
            continue
        reason = catalog.reason_of(exporter) or declarations.ask(exporter, "refusal", task)
        try:
            if reason is None:
                artifact = prepare.artifact_of(cell, limits, failed)
                notes = (*adopted.notes, f"{path} is read as its export by {cell.exporter}")
                notes += _parameters(cell, artifact, limits)
                tried = {**_shapes(task, dims), **shapes}
                return GraphFile(
                    path=artifact.path, model=path, exporter=str(cell.exporter), shapes=tried, dims={}, notes=notes
                )
        except BenchError as error:
            reason = str(error).removeprefix(f"{cell.exporter}: ")
        reasons.append(f"{cell.exporter}: {reason}")
    name = None if path.is_dir() and (path / "task.py").is_file() else formats.format_of(path)
    if name is not None and hasattr(formats.module_of(name), "write_graph"):
        tried = {**_shapes(task, dims), **shapes}
        file = _written(name, task, tried, limits)
        notes = (*adopted.notes, f"{path} is read as its own operations, with the shapes that its framework states")
        return GraphFile(path=file, model=path, exporter=name, shapes=tried, dims={}, notes=notes)
    explanation = "; ".join(dict.fromkeys(reasons)) or "no exporter takes its format"
    raise InputError(f"no ONNX file can be made of {path}: {explanation}")


def _parameters(cell: Cell, artifact: Artifact, limits: Limits) -> tuple[str, ...]:
    """A line that explains why an export has more or fewer parameters than the model, from the cache or made now.

    There is none where both have as many, and where the child process that compares them fails.
    """
    if cell.source != _TORCH:
        return ()
    request: dict[str, Any] = {"task": str(cell.task), "source": cell.source, "artifact": str(artifact.path)}
    code = code_digests.of_function(operations.parameters_beside_source)
    key = cache.digest(["parameters", provenance.subject(catalog.task(cell.task)), artifact.sha256, code])

    def make(target: Path) -> dict[str, Any]:
        ask = functools.partial(ask_once, timeout_s=limits.prepare_s, memory_bytes=limits.memory_bytes)
        answer: dict[str, Any] = ask(operations.parameters_beside_source, **request)
        target.write_text(json.dumps(answer))
        return answer

    try:
        _, entry = cache.obtain(key, "parameters.json", make)
    except BenchError:
        return ()
    return () if entry["note"] is None else (entry["note"],)


def _written(name: str, task: Task, shapes: Mapping[str, Sequence[int]], limits: Limits) -> Path:
    """The graph of a task's model as its format writes it, from the cache or made now.

    Raises:
        InputError: the graph cannot be written; the message says why.
    """
    sizes = {key: list(shape) for key, shape in shapes.items()}
    code = code_digests.of_function(formats.module_of(name).write_graph)
    key = cache.digest(["graph", provenance.subject(task), sizes, code, provenance.versions(tuple(task.requires))])

    def make(target: Path) -> dict[str, Any]:
        answer: dict[str, Any] = ask_once(
            operations.write_graph,
            timeout_s=limits.prepare_s,
            memory_bytes=limits.memory_bytes,
            format=name,
            weights=str(task.weights_path),
            target=str(target),
            shapes=sizes,
        )
        return answer

    try:
        path, _ = cache.obtain(key, "graph.onnx", make)
    except ChildError as error:
        raise InputError(f"no graph can be made of {task.name}: {error.reason}") from error
    return path


def _shapes(task: Task, dims: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Shapes of one request: the first sample's, with a batch of 1, and with the sizes in `dims`."""
    inputs = task.samples("test").inputs
    shapes = {}
    for spec in task.inputs:
        sample = inputs[spec.name].shape[1:]
        sizes = (1, *sample) if task.batched else sample
        shapes[spec.name] = tuple(
            dims[dim] if isinstance(dim, str) and dim in dims else size
            for dim, size in zip(spec.shape, sizes, strict=True)
        )
    return shapes
