"""The held-out split through one artifact: it runs in a worker of its own, or in the environment of a version."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import ChildError
from bench.measure.limits import Limits
from bench.measure.process import ask_once
from bench.measure.scratch import Scratch
from bench.pipeline import environments, opening, operations, prepare, reading, rounding
from bench.pipeline.flow import Verified
from bench.pipeline.looks import Until
from bench.plugins import catalog
from bench.records.lines import Quality

_INSPECTED = ("placement", "warning", "precision")
"""Fields of `Quality` that a runtime tells; see `Runtime.inspect`."""


def beside(
    cell: Cell,
    artifact: Artifact,
    reference: Path | None,
    limits: Limits,
    *,
    save_outputs: Path | None = None,
    judge: Cell | None = None,
    until: Until | None = None,
    known: Quality | None = None,
    begun_outputs: Path | None = None,
) -> tuple[Quality, rounding.Shares]:
    """Run the held-out split through an artifact, and judge the outputs against others by the task's limits alone.

    Args:
        cell, artifact, limits, save_outputs: as for `bench.pipeline.verify.verify`.
        reference: `.npz` file with the outputs to compare with; None where this cell defines the right outputs.
        judge: a cell of the task whose samples are run and whose metric judges, where that is another task than that of
            `cell`: the same inputs then go through two models of one interface.
        until: when the verification has decided; None for the whole split, which runs in any case in the environment of
            a version, and for the task of another cell.
        known: the quality of the reference, where `until` is given.
        begun_outputs: as for `bench.pipeline.verify.verify`.

    Returns:
        The quality, and by output how far it differs.

    Raises:
        As `bench.pipeline.verify.verify`.
    """
    if environments.is_elsewhere("runtimes", cell.runtime) or judge is not None:
        return _verify_there(cell, artifact, reference, limits, save_outputs, judge or cell)
    with opening.worker(cell, memory_bytes=limits.memory_bytes) as child:
        ask = functools.partial(child.request, timeout_s=limits.verify_s)
        opened = opening.arguments(cell, artifact.path)
        paths = {"reference": reference, "save_outputs": save_outputs}
        files: dict[str, Any] = {name: str(path) if path else None for name, path in paths.items()}
        if until is not None:
            files |= {"until": dataclasses.asdict(until), "known": msgspec.to_builtins(known)}
            files["begun"] = str(begun_outputs) if begun_outputs else None
        answer = ask(operations.verify, **opened, **files)
        return inspected(answer, artifact, ask, opened), answer["shares"]


def _verify_there(
    cell: Cell, artifact: Artifact, reference: Path | None, limits: Limits, save_outputs: Path | None, judge: Cell
) -> tuple[Quality, rounding.Shares]:
    """Run the held-out split through an artifact in its own environment, and judge the outputs in this one.

    Takes, returns and raises what `beside` does.
    """
    opened = opening.arguments(cell, artifact.path)
    inputs = prepare.inputs_of(catalog.task(judge.task), limits)
    here = _judging(limits)
    with Scratch() as folder, opening.worker(cell, memory_bytes=limits.memory_bytes) as child:
        outputs = str(save_outputs or Path(folder, "outputs.npz"))
        ask = functools.partial(child.request, timeout_s=limits.verify_s)
        answer = ask(operations.run_split, **opened, inputs=str(inputs), save_outputs=outputs)
        judging: dict[str, Any] = {"outputs": outputs, "reference": str(reference) if reference else None}
        judged = here(operations.judge, cell=judge.path, precision=answer["precision"], **judging)
        return inspected({**judged, **answer}, artifact, ask, opened, count=here), judged["shares"]


def between(candidate: Verified, other: Verified, limits: Limits) -> str:
    """How close the outputs of one cell are to those of another for the held-out split: see `Quality.fidelity`.

    Args:
        candidate: the cell whose outputs are judged.
        other: the cell whose outputs count as right.
        limits: time and memory of each worker.

    Raises:
        ChildError: an artifact does not run.
        ArtifactError: an environment cannot be made.
    """
    with Scratch() as folder:
        paths: dict[str, Any] = {}
        precisions: dict[str, Any] = {}
        for name, value in (("outputs", candidate), ("reference", other)):
            paths[name] = str(Path(folder, f"{name}.npz"))
            opened = opening.arguments(value.cell, value.artifact.path)
            with opening.worker(value.cell, memory_bytes=limits.memory_bytes) as child:
                arguments = {
                    **opened,
                    "inputs": str(value.inputs),
                    "save_outputs": paths[name],
                    "is_reference": name == "reference",
                }
                answer = child.request(operations.run_split, timeout_s=limits.verify_s, **arguments)
                precisions[name] = answer["precision"]
        asking = _judging(limits)
        return str(
            asking(operations.judge, cell=candidate.cell.path, precision=precisions["outputs"], **paths)["fidelity"]
        )


def _judging(limits: Limits) -> Callable[..., dict[str, Any]]:
    """Sends a request to a worker that runs no runtime, in the environment of this process."""
    place = opening.process()
    return functools.partial(ask_once, timeout_s=limits.verify_s, memory_bytes=limits.memory_bytes, **place)


def inspected(
    fields: Mapping[str, Any],
    artifact: Artifact,
    ask: Callable[..., dict[str, Any]],
    opened: Mapping[str, Any],
    *,
    count: Callable[..., dict[str, Any]] | None = None,
) -> Quality:
    """A quality with the artifact's cost, and with what the runtime tells of how it runs the artifact.

    Args:
        fields: fields of `Quality` that the worker sent.
        artifact: the artifact.
        ask: sends a request to the worker.
        opened: see `opening.arguments`.
        count: sends a request to a worker that can count costs; `ask` by default.

    Raises:
        ChildError: the fields cannot be read.
    """
    shapes = fields["input_shapes"]
    cost: dict[str, Any] | None = None
    if artifact.format == "onnx":
        with contextlib.suppress(ChildError):  # the outputs of a file that cannot be analysed are no less right
            cost = (count or ask)(operations.cost, artifact=str(artifact.path), shapes=shapes)
    fields = {**fields, "cost": cost}
    judged = _quality(fields)
    request = catalog.task(Cell.from_path(opened["cell"]).task).request
    try:
        answer = ask(operations.inspect, **opened, shapes=shapes)
        judged = _quality({**fields, **{name: answer[name] for name in _INSPECTED if name in answer}})
    except ChildError as error:
        unsure = f"its precision, and where its nodes run, cannot be told: {error.reason}"
        judged = replace(judged, precision=None, warning=unsure)
    if request is None:
        return judged
    stored = None
    if artifact.format == "onnx":
        with contextlib.suppress(ChildError):  # then the size of the file and the precision bound it
            stored = (count or ask)(operations.bytes_read, artifact=str(artifact.path))["num_bytes"]
    return reading.bounded(judged, artifact, request, Cell.from_path(opened["cell"]).threads, stored)


def _quality(fields: Mapping[str, Any]) -> Quality:
    """Check the types of the fields that a worker sent, some of which come from a plugin.

    Raises:
        ChildError: a field has the wrong type.
    """
    try:
        return msgspec.convert(fields, Quality)
    except msgspec.ValidationError as error:
        raise ChildError("error", f"its answer cannot be read: {error}") from error
