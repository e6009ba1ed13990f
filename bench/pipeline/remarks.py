"""What a row says of its quality besides the figures: what it was judged by, and how large an error is."""

from __future__ import annotations

from msgspec.structs import replace

from bench.api import Task
from bench.api.cell import Cell
from bench.api.fidelity import SAME_DB, FidelityTask
from bench.pipeline import provenance, quality
from bench.plugins import catalog
from bench.records.lines import Failure, Quality

REFUSES = ("error", "exit", "signal")
"""How a worker fails whose runtime cannot run a model, and has time and memory enough: see `ChildError.kind`."""


def with_remarks(judged: Quality, cell: Cell, reference: Cell, in_place_of: Cell | None) -> Quality:
    """The quality of a cell with all remarks; a stored quality that has them stays as it is.

    Args:
        judged: the quality.
        cell: the cell.
        reference: the cell whose outputs are right.
        in_place_of: see `bench.pipeline.verify.Reference`.
    """
    task = catalog.task(cell.task)
    hints = [*getattr(task, "unsettled", ())]
    if in_place_of is not None and cell != reference:
        hints.append(
            f"{named(in_place_of)} cannot run the model as it is, so outputs are held against those of "
            f"{named(reference)}"
        )
    return quality.hinted(beside_signal(judged, task), hints)


def failed(failure: Failure, cell: Cell, reference: Cell, in_place_of: Cell | None) -> Failure:
    """The failure of a cell; where another runtime runs the same file, it says whose failure it is.

    Args:
        failure: the failure.
        cell: the cell.
        reference: the cell whose outputs are right.
        in_place_of: see `bench.pipeline.verify.Reference`.
    """
    if in_place_of is None or failure.how not in REFUSES or cell.artifact_path != reference.artifact_path:
        return failure
    return replace(failure, reason=f"{named(cell)} fails on a file that {named(reference)} runs: {failure.reason}")


def named(cell: Cell) -> str:
    """The runtime of a cell with the version of its first package, such as `ONNX Runtime 1.31.1`."""
    runtime, versions = catalog.runtime(cell.runtime), provenance.versions_run(cell)
    known_versions = (version for name, version in versions.items() if name != "python" and version)
    return " ".join(filter(None, (runtime.title or runtime.name, next(known_versions, ""))))


def beside_signal(judged: Quality, task: Task) -> Quality:
    """A quality that is broken for its distance from the reference, whose reason tells the error beside the signal.

    Where an output is not of floats it stays as it is, for classes have no distance; so it does where three digits do
    not tell the error from the limit.
    """
    lost, is_by_metric = judged.metric_loss, (judged.reason or "").startswith(f"{task.metric_name} is worse than")
    is_of_distance = getattr(task.metric_loss, "__func__", None) is FidelityTask.metric_loss
    if not (is_by_metric and is_of_distance and lost and all("float" in spec.dtype for spec in task.outputs)):
        return judged
    allowed = task.metric_loss(SAME_DB - task.max_metric_loss, SAME_DB)
    error, most = f"{100 * lost:.3g} %", f"{100 * allowed:.3g} %"
    if error == most:
        return judged
    times = f"{lost:.2g}" if lost < 10 else f"{lost:,.0f}"
    size = f"{error} of the signal" if lost < 1 else f"{times} times as large as the signal"
    size = "as large as the signal" if times == "1" else size
    return replace(judged, reason=f"the error of its outputs is {size}; at most {most} of it is allowed")
