"""The explanation of `bench explain`: why a measured cell is as fast and as accurate as it is, beside another cell.

Child processes open all artifacts. Where a child process fails, the explanation has its error instead of its result.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from bench.api import NodeTime, Task
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import ChildError, InputError
from bench.api.features import ExplanationTable
from bench.decisions import deployment
from bench.features.explain import inspection, operator_times
from bench.measure import machine
from bench.measure.comparison import Comparison
from bench.measure.limits import Limits
from bench.pipeline import node_matches, profiling, provenance
from bench.plugins import catalog
from bench.records.folder import Results
from bench.records.measurements import Measurements
from bench.records.rows import Row
from bench.records.store import Record

ONNX = "onnx"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two cells.

    Attributes:
        cell: the cell.
        row: its stored figures; None where the cell was not measured.
        artifact: the artifact that the cell runs.
        nodes: the nodes that ran, by the runtime's own profiler; None where the profiler gave no result.
        reason: why there are no nodes.
    """

    cell: Cell
    row: Row | None
    artifact: Artifact
    nodes: Sequence[NodeTime] | None
    reason: str | None = None

    @property
    def profiled_ns(self) -> float | None:
        """Total time of all nodes in nanoseconds; None where there are no nodes."""
        return None if self.nodes is None else sum(node.time_ns for node in self.nodes)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """The result of one step of a chain, and its changes to the graph.

    Attributes:
        step: name of the exporter or variant.
        path: path of the step's artifact.
        size_bytes: size of the artifact.
        num_nodes: number of nodes of the graph; None where it is unknown.
        removed, added: number of removed and added nodes by operator; None where the operators are unknown.
        changed_nodes: number of nodes with a changed attribute or weight.
        changed_weights: number of changed and added weights.
        is_same: whether the graph and its weights are the same as before the step.
        note: a line that the step tells of its artifact, such as a raised operator set.
    """

    step: str
    path: str
    size_bytes: int
    num_nodes: int | None
    removed: Mapping[str, int] | None = None
    added: Mapping[str, int] | None = None
    changed_nodes: int | None = None
    changed_weights: int | None = None
    is_same: bool = False
    note: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explanation:
    """The explanation of a cell.

    Attributes:
        after: the explained cell.
        before: the cell that it is compared with; None where there is no such cell.
        names: names of the tensors that both files share, from the explained cell's file to the other file; None where
            they are unknown.
        measured: comparison of the stored latencies; None where the two cells did not run side by side.
        steps: the steps of the explained cell.
        drift: see `bench.onnxfile.diff.drift.Drift`; None where there is no result.
        drift_reason: why there is no drift.
        notes: remarks on the machine and the packages, each on a line.
        additions: what features add, see `bench.api.features`.
    """

    after: Side
    before: Side | None
    names: Mapping[str, str] | None
    measured: Comparison | None
    steps: Sequence[Step]
    drift: Mapping[str, Any] | None
    drift_reason: str | None
    notes: Sequence[str]
    additions: Sequence[ExplanationTable] = ()

    def operators(self) -> list[operator_times.OperatorTime]:
        """Time by operator of the explained cell and of the other cell; empty where the cell's nodes are unknown."""
        if self.after.nodes is None:
            return []
        return operator_times.by_operator(self.before.nodes if self.before else None, self.after.nodes)

    def changes(self) -> list[operator_times.Change]:
        """Groups of nodes that do the same work in both cells; empty where the nodes of a cell are unknown."""
        if self.after.nodes is None or self.before is None or self.before.nodes is None:
            return []
        return operator_times.changes(node_matches.match(self.before.nodes, self.after.nodes, self.names))


def explain(stored: Results, cell: str, versus: str | None, *, tolerance: float | None, limits: Limits) -> Explanation:
    """Explain one stored cell.

    Args:
        stored: the stored results of one machine.
        cell: path of the cell to explain.
        versus: path of the stored cell to compare with; None for the same cell without its variants.
        tolerance: tolerance of drift, as a share of the largest magnitude; None for the task's tolerance.
        limits: time and memory of the child processes.

    Raises:
        InputError: the artifact that is made now is not the artifact that was measured, or the cells are of two tasks.
        ArtifactError: an artifact cannot be made again.
    """
    rows, records = {row.cell: row for row in stored.rows}, stored.records
    record = records[cell]
    task = deployment.task_of(record)
    steps = deployment.measured_steps(record, limits)
    other = _other(record.cell, versus)
    if versus == cell:
        raise InputError(f"{cell} cannot be held against itself; name another cell with --vs, or none")
    if other is not None and other.task != record.cell.task:
        raise InputError(f"{other} is of another task than {cell}; name a cell of {record.cell.task} with --vs")
    after = _side(record.cell, rows[cell], task, steps[-1], limits)
    before = None
    if other is not None:
        other_record = records.get(other.path)
        is_made = other_record is not None and (versus is not None or other_record.header.artifact is not None)
        artifact = (
            deployment.measured_steps(other_record, limits)[-1] if other_record is not None and is_made else steps[0]
        )
        before = _side(other, rows.get(other.path), task, artifact, limits)
    names = None
    if before is not None:
        names = _names([*steps] if before.artifact == steps[0] else [before.artifact, steps[-1]], limits)
    tolerance = task.close if tolerance is None else tolerance
    names_of_steps = map(str, (record.cell.exporter, *record.cell.chain))
    drift, drift_reason = _drift(task, before, after, names, tolerance, limits)
    return Explanation(
        after=after,
        before=before,
        names=names,
        measured=_measured(stored.measurements, cell, other),
        steps=[_step(*step, limits) for step in zip(names_of_steps, [None, *steps], steps, strict=False)],
        drift=drift,
        drift_reason=drift_reason,
        notes=_notes(record),
    )


def _other(cell: Cell, versus: str | None) -> Cell | None:
    """The cell to compare with; None where it would be the cell itself."""
    other = Cell.from_path(versus) if versus is not None else dataclasses.replace(cell, chain=())
    return None if other == cell else other


def _measured(measurements: Measurements, cell: str, other: Cell | None) -> Comparison | None:
    return measurements.between(cell, other.path) if other is not None else None


def _side(cell: Cell, row: Row | None, task: Task, artifact: Artifact, limits: Limits) -> Side:
    nodes, reason = None, catalog.skip_reason(cell)
    if reason is None:
        try:
            nodes = profiling.profile_nodes(cell, artifact, task, limits)
            reason = f"{cell.runtime} has no profiler that can be asked" if nodes is None else None
        except ChildError as error:
            reason = f"the profiler of {cell.runtime} tells nothing: {error.reason}"
    return Side(cell=cell, row=row, artifact=artifact, nodes=nodes, reason=reason)


def _names(steps: Sequence[Artifact], limits: Limits) -> dict[str, str] | None:
    """Names of the last file's tensors in the first file, found step by step, since one step changes less than all."""
    if any(step.format != ONNX for step in steps):
        return None
    names: dict[str, str] | None = None
    for before, after in itertools.pairwise(steps):
        if before.sha256 == after.sha256:
            continue
        try:
            common_names = inspection.common_tensors(before.path, after.path, limits)
        except ChildError:  # then by their names alone
            return None
        names = {
            new: old if names is None else names[old]
            for new, old in common_names.items()
            if names is None or old in names
        }
    return names


def _step(name: str, before: Artifact | None, after: Artifact, limits: Limits) -> Step:
    number = None if after.operators is None else sum(after.operators.values())
    note = after.info.get("note")
    step = Step(step=name, path=str(after.path), size_bytes=after.size_bytes, num_nodes=number, note=note)
    if before is None:
        return step
    if before.canonical is not None and before.canonical == after.canonical:
        return dataclasses.replace(step, is_same=True, removed={}, added={}, changed_nodes=0, changed_weights=0)
    if before.operators is None or after.operators is None:
        return step
    old, new = collections.Counter(before.operators), collections.Counter(after.operators)
    step = dataclasses.replace(step, removed=dict((old - new).most_common()), added=dict((new - old).most_common()))
    try:
        differences = inspection.differences(before.path, after.path, limits)
    except ChildError:  # the operators are told without it
        return step
    return dataclasses.replace(
        step,
        changed_nodes=sum(not change["rewired_only"] for change in differences["changed"]),
        changed_weights=len(differences["changed_weights"]) + len(differences["added_weights"]),
    )


def _drift(
    task: Task, before: Side | None, after: Side, names: Mapping[str, str] | None, tolerance: float, limits: Limits
) -> tuple[dict[str, Any] | None, str | None]:
    """Where the cell's values first differ from the other cell's; or None, and the reason for no result."""
    if before is None:
        return None, "there is nothing to hold it against: it has no variants; name another cell with --vs"
    if before.artifact.sha256 == after.artifact.sha256:
        return None, "both run the same file"
    for side in (before, after):
        if (format_ := side.artifact.format) != ONNX:
            return None, f"{side.cell} runs no ONNX file but {format_}, of which no tensor can be looked at"
    pair, batch = (before.artifact, after.artifact), after.cell.batch
    try:
        return inspection.drift(task, *pair, batch=batch, tolerance=tolerance, names=names, limits=limits), None
    except ChildError as error:
        return None, f"the two files cannot be compared: {error.reason}"


def _notes(record: Record) -> list[str]:
    """Remarks on differences between the measurement and the present: the machine and the versions of packages."""
    notes = []
    if record.header.machine != machine.describe():
        notes.append("measured on another machine than the one that was asked now")
    now = provenance.versions_run(record.cell)
    measured = record.header.versions
    if differing := [name for name in now if measured.get(name) != now[name]]:
        texts = [f"{name} {measured.get(name)}, now {now[name]}" for name in differing]
        notes.append(f"measured with other versions: {', '.join(texts)}")
    return notes
