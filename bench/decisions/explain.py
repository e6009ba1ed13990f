"""Why a measured cell is as fast and as right as it is, beside another: what `bench explain` tells.

Everything that opens an artifact is asked of a child process; what a child fails at is told in its place.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from bench.api import NodeTime, Task
from bench.api.artifact import Artifact
from bench.api.cell import RAW, Cell
from bench.api.errors import ChildError, InputError
from bench.decisions import deployment, operator_times
from bench.measure import machine
from bench.measure.comparison import Comparison
from bench.measure.limits import Limits
from bench.pipeline import inspection, provenance
from bench.plugins import catalog
from bench.records import assemble
from bench.records.rows import Row
from bench.records.store import Record

ONNX = "onnx"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two cells.

    Attributes:
        row: its stored figures; None where it was not measured.
        artifact: what it runs.
        nodes: what ran, by its runtime's own profiler; None where that cannot be told, and `reason` says why.
    """

    cell: Cell
    row: Row | None
    artifact: Artifact
    nodes: Sequence[NodeTime] | None
    reason: str | None = None

    @property
    def profiled_ns(self) -> float | None:
        """Time of all nodes together."""
        return None if self.nodes is None else sum(node.time_ns for node in self.nodes)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """What one step of a chain made, and what it changed.

    Attributes:
        removed, added: operators of which there are fewer or more than before, by how many; None where that cannot be
            told.
        changed_nodes: nodes that are there as before, but for an attribute or a weight.
        changed_weights: weights that are not as they were, or were not there.
        is_same: whether it is the same graph with the same weights as before.
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explanation:
    """What is to be said of a cell.

    Attributes:
        before: the cell that it is held against; None if there is none.
        names: of tensors of the cell's file that the other one's has, too, with their names there; None where that
            cannot be told.
        measured: how the two compare by what is stored of them; None where they did not run side by side.
        drift: see `bench.graphs.diff.drift.Drift`; None where it cannot be told, and `drift_reason` says why.
        notes: what is to be known beside, a line each.
    """

    after: Side
    before: Side | None
    names: Mapping[str, str] | None
    measured: Comparison | None
    steps: Sequence[Step]
    drift: Mapping[str, Any] | None
    drift_reason: str | None
    notes: Sequence[str]

    def operators(self) -> list[operator_times.OperatorTime]:
        """Time by operator, where the cell's is known; that of the other one, where it is known, too."""
        if self.after.nodes is None:
            return []
        return operator_times.by_operator(self.before.nodes if self.before else None, self.after.nodes)

    def changes(self) -> list[operator_times.Change]:
        """What became of what, where both are known."""
        if self.after.nodes is None or self.before is None or self.before.nodes is None:
            return []
        return operator_times.changes(operator_times.match(self.before.nodes, self.after.nodes, self.names))


def explain(
    rows: Mapping[str, Row],
    records: Mapping[str, Record],
    cell: str,
    versus: str | None,
    *,
    tolerance: float | None,
    limits: Limits,
) -> Explanation:
    """Explain one stored cell.

    Args:
        rows, records: by cell path.
        versus: the stored cell to hold it against; None for the same without its variants.
        tolerance: of drift, as a share of the largest magnitude; None for the task's own.

    Raises:
        InputError: what can be made now is not what was measured, or the cells are not of one task.
        ArtifactError: an artifact cannot be made again.
    """
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
        found = records.get(other.path)
        is_made = found is not None and (versus is not None or found.header.artifact is not None)
        artifact = deployment.measured_steps(found, limits)[-1] if found is not None and is_made else steps[0]
        before = _side(other, rows.get(other.path), task, artifact, limits)
    names = None
    if before is not None:
        names = _names([*steps] if before.artifact == steps[0] else [before.artifact, steps[-1]], limits)
    tolerance = task.close if tolerance is None else tolerance
    drift, drift_reason = _drift(task, before, after, names, tolerance, limits)
    return Explanation(
        after=after,
        before=before,
        names=names,
        measured=_measured(records, cell, other),
        steps=[_step(*step, limits) for step in _walked(record.cell, steps)],
        drift=drift,
        drift_reason=drift_reason,
        notes=_notes(record),
    )


def _other(cell: Cell, versus: str | None) -> Cell | None:
    """The cell to hold one against."""
    other = Cell.from_path(versus) if versus is not None else dataclasses.replace(cell, variant=RAW)
    return None if other == cell else other


def _measured(records: Mapping[str, Record], cell: str, other: Cell | None) -> Comparison | None:
    if other is None or other.path not in records or other.group != records[cell].cell.group:
        return None
    found = assemble.between(records, cell, other.path)
    return found if found and found.ratio and math.isfinite(found.ratio.high) else None  # of one launch it is not


def _side(cell: Cell, row: Row | None, task: Task, artifact: Artifact, limits: Limits) -> Side:
    nodes, reason = None, catalog.skip_reason(cell)
    if reason is None:
        try:
            nodes = inspection.profile_nodes(cell, artifact, task, limits)
            reason = f"{cell.runtime} has no profiler that can be asked" if nodes is None else None
        except ChildError as error:
            reason = f"the profiler of {cell.runtime} tells nothing: {error.reason}"
    return Side(cell=cell, row=row, artifact=artifact, nodes=nodes, reason=reason)


def _names(steps: Sequence[Artifact], limits: Limits) -> dict[str, str] | None:
    """What the last file's tensors are called in the first, through those between: one step changes less than all."""
    if any(step.format != ONNX for step in steps):
        return None
    names: dict[str, str] | None = None
    for before, after in itertools.pairwise(steps):
        if before.sha256 == after.sha256:
            continue
        try:
            found = inspection.common_tensors(before.path, after.path, limits)
        except ChildError:  # then by their names alone
            return None
        names = {
            new: old if names is None else names[old] for new, old in found.items() if names is None or old in names
        }
    return names


def _walked(cell: Cell, steps: Sequence[Artifact]) -> list[tuple[str, Artifact | None, Artifact]]:
    """Each step's name, with what it was given and what it made."""
    return list(zip((cell.exporter, *cell.chain), (None, *steps), steps, strict=False))


def _step(name: str, before: Artifact | None, after: Artifact, limits: Limits) -> Step:
    number = None if after.operators is None else sum(after.operators.values())
    step = Step(step=name, path=str(after.path), size_bytes=after.size_bytes, num_nodes=number)
    if before is None:
        return step
    if before.canonical is not None and before.canonical == after.canonical:
        return dataclasses.replace(step, is_same=True, removed={}, added={}, changed_nodes=0, changed_weights=0)
    if before.operators is None or after.operators is None:
        return step
    old, new = collections.Counter(before.operators), collections.Counter(after.operators)
    step = dataclasses.replace(step, removed=dict((old - new).most_common()), added=dict((new - old).most_common()))
    try:
        found = inspection.differences(before.path, after.path, limits)
    except ChildError:  # the operators are told without it
        return step
    return dataclasses.replace(
        step,
        changed_nodes=sum(not change["rewired_only"] for change in found["changed"]),
        changed_weights=len(found["changed_weights"]) + len(found["added_weights"]),
    )


def _drift(
    task: Task, before: Side | None, after: Side, names: Mapping[str, str] | None, tolerance: float, limits: Limits
) -> tuple[dict[str, Any] | None, str | None]:
    """Where the cell's values part from the other's; or None, and why that cannot be told."""
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
    """What is to be known of what was measured."""
    notes = []
    if record.header.machine != machine.describe():
        notes.append("measured on another machine than the one that was asked now")
    now = provenance.versions(catalog.runtime(record.cell.runtime).packages(record.cell.provider))
    measured = record.header.versions
    if differing := [name for name in now if measured.get(name) != now[name]]:
        texts = [f"{name} {measured.get(name)}, now {now[name]}" for name in differing]
        notes.append(f"measured with other versions: {', '.join(texts)}")
    return notes
