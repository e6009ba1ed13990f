"""The ONNX file of a model in any format, for the commands that read graphs: the file itself, or its plain export."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.api import Task
from bench.api.cell import RAW
from bench.api.errors import BenchError, InputError
from bench.measure.limits import Limits
from bench.pipeline import prepare, sweeps
from bench.plugins import catalog
from bench.tasks import adopt


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphFile:
    """An ONNX file to read.

    Attributes:
        path: the file.
        shapes: shapes of its inputs by name, as the model was tried; empty for a file that was not tried.
        notes: lines to tell the user.
    """

    path: Path
    shapes: Mapping[str, Sequence[int]]
    notes: tuple[str, ...]


def of_model(path: Path, options: adopt.Options, limits: Limits) -> GraphFile:
    """The ONNX file of a model: an `.onnx` file as it is, of another format what the first exporter makes that can.

    Raises:
        InputError: there is no such model, it needs `--trust`, or no exporter makes an ONNX file of it.
    """
    if not path.is_dir() and path.suffix.lower() == ".onnx":
        return GraphFile(path=path, shapes={}, notes=())
    adopted = adopt.adopt(path, options)
    task = catalog.task(adopted.name)
    reasons = []
    for cell in sweeps.cells_of((task.name,), variants=(RAW,)):
        exporter = catalog.exporter(cell.exporter)
        if exporter.format(cell.source) != "onnx":
            continue
        reason = exporter.skip() or exporter.refusal(task)
        try:
            if reason is None:
                artifact = prepare.artifact_of(cell, limits)
                notes = (*adopted.notes, f"this is its export by {cell.exporter}")
                return GraphFile(path=artifact.path, shapes=_shapes(task), notes=notes)
        except BenchError as error:
            reason = str(error)
        reasons.append(f"{cell.exporter}: {reason}")
    told = "; ".join(dict.fromkeys(reasons)) or "no exporter takes its format"
    raise InputError(f"no ONNX file can be made of {path}: {told}")


def _shapes(task: Task) -> dict[str, tuple[int, ...]]:
    """Shapes of one request: the first sample's, with a batch of 1."""
    inputs = task.samples("test").inputs
    return {
        spec.name: (1, *inputs[spec.name].shape[1:]) if task.batched else inputs[spec.name].shape[1:]
        for spec in task.inputs
    }
