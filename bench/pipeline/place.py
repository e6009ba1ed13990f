"""The place where the cells of a sweep run: all stages that need the machine, its packages and its cache."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Protocol

from msgspec import UNSET

from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import BenchError
from bench.api.names import TaskName
from bench.measure import lease, machine
from bench.measure.blocks import Blocks, BlocksHere
from bench.measure.limits import Limits
from bench.measure.parallel import on_all_cores
from bench.measure.subject import Subject
from bench.pipeline import environments, opening, prepare, provenance, verify
from bench.pipeline.flow import Prepared, Verified
from bench.pipeline.looks import Until
from bench.pipeline.verify import Reference
from bench.plugins import catalog
from bench.records.lines import SCHEMA, Failure, Header, Quality
from bench.records.measured_cell import what_answers, what_runs
from bench.tasks import adopt

Judged = tuple[Sequence[Prepared], Verified | Failure]
"""Cells that run the same graph, and the quality that they share, or what stopped them."""
_WAIT_S = 20.0
"""Time that a sweep waits for another to end, such as a step of a fleet."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Begun:
    """A cell that was prepared, or the failure that stopped it, with the first line of its record."""

    cell: Cell
    header: Header
    outcome: Prepared | Failure


class Place(Protocol):
    """A machine, or several machines of one kind that share the work."""

    def lease(self) -> AbstractContextManager[None]:
        """The lease of the place for a whole sweep, where it is held by the sweep and not by each of its steps.

        Raises:
            LeaseError: another process prepares or measures there.
        """

    def skip_reasons(self, cells: Sequence[Cell]) -> list[str | None]:
        """Why each cell cannot work there; None where it can."""

    def prepare(self, cells: Sequence[Cell], limits: Limits, report: Callable[[Begun], None]) -> None:
        """Make the cells' artifacts, and tell of each cell as soon as it is prepared or has failed."""

    def verify(
        self,
        cells: Sequence[Prepared],
        known: Mapping[str, Quality],
        limits: Limits,
        until: Until | None,
        report: Callable[[Sequence[Prepared], Verified | Failure], None],
    ) -> None:
        """Judge prepared cells.

        Args:
            cells: the cells.
            known: qualities that earlier runs stored, by the cells' keys.
            limits: time and memory of each worker.
            until: when the verification of a cell has decided; None for whole splits.
            report: called with cells that run the same graph, and the quality that they share, or what stopped them.
        """

    def subject(self, value: Verified) -> Subject:
        """A verified cell in the form that the blocks of this place measure."""

    def blocks(self) -> Blocks:
        """The blocks of this place."""


class Here:
    """This machine."""

    def __init__(self) -> None:
        self._failed_steps: prepare.FailedSteps = {}

    def lease(self) -> AbstractContextManager[None]:
        """See `Place`."""
        return lease.hold(wait_s=_WAIT_S)

    def skip_reasons(self, cells: Sequence[Cell]) -> list[str | None]:
        """See `Place`."""
        return [prepare.skip_reason(cell) for cell in cells]

    def prepare(self, cells: Sequence[Cell], limits: Limits, report: Callable[[Begun], None]) -> None:
        """See `Place`."""
        sharing: dict[tuple[str, str], list[Cell]] = {}
        for cell, reason in zip(cells, self.skip_reasons(cells), strict=True):
            if reason is not None:
                report(_begun(cell, Failure(stage="skip", reason=reason)))
                continue
            # The environment of a runtime is made here, too, and concerns no other runtime of the artifact.
            is_elsewhere = environments.is_elsewhere("runtimes", cell.runtime)
            there = str(cell.runtime) if is_elsewhere else ""
            sharing.setdefault((cell.artifact_path, there), []).append(cell)

        def make(shared: tuple[str, str]) -> Prepared | Failure:
            return prepare.prepared(sharing[shared][0], limits, self._failed_steps)

        def report_all(shared: tuple[str, str], outcome: Prepared | Failure | BenchError) -> None:
            assert not isinstance(outcome, BenchError)
            for cell in sharing[shared]:
                report(_begun(cell, outcome))

        def when(shared: tuple[str, str]) -> tuple[int, str]:
            """Exports before the variants that need them; steps of a kind share the packages that are imported."""
            cell = sharing[shared][0]
            return len(cell.chain), cell.variant if cell.chain else str(cell.exporter)

        on_all_cores(make, sorted(sharing, key=when), report_all)

    def verify(
        self,
        cells: Sequence[Prepared],
        known: Mapping[str, Quality],
        limits: Limits,
        until: Until | None,
        report: Callable[[Sequence[Prepared], Verified | Failure], None],
    ) -> None:
        """See `Place`."""
        references: dict[TaskName, Future[Reference]] = {value.cell.task: Future() for value in cells}
        same: dict[object, list[Prepared]] = {}
        for value in cells:
            same.setdefault(what_runs(value.cell, value.artifact) or value.cell, []).append(value)
        alike: dict[object, list[list[Prepared]]] = {}
        for values in sorted(same.values(), key=lambda values: values[0].cell.group):
            alike.setdefault(what_answers(values[0].cell, values[0].artifact), []).append(values)

        def refer(name: TaskName) -> list[Judged]:
            try:
                references[name].set_result(verify.reference_of(catalog.task(name), limits, self._failed_steps))
            except BaseException as error:
                references[name].set_exception(error)
            return []

        def judge(group: list[list[Prepared]]) -> list[Judged]:
            """Judge cells that differ in batch and threads alone; cells that run the same graph are judged once."""
            try:
                reference = references[group[0][0].cell.task].result()
            except BenchError as error:
                return [(values, Failure.of("verify", error)) for values in group]
            first = [next((value for value in values if value.cell == reference.cell), values[0]) for values in group]
            stored = {
                leader.cell: [known[value.key] for value in values if value.key in known]
                for leader, values in zip(first, group, strict=True)
            }
            return [*zip(group, verify.verified(first, reference, limits, stored, until), strict=True)]

        def done(_: object, outcomes: list[Judged] | BenchError) -> None:
            assert not isinstance(outcomes, BenchError)
            for values, outcome in outcomes:
                report(values, outcome)

        # Cells wait for their own task's reference alone, each of which has begun when the first of them begins.
        steps: list[Callable[[], list[Judged]]] = [functools.partial(refer, name) for name in references]
        steps += [functools.partial(judge, group) for group in alike.values()]
        on_all_cores(lambda step: step(), steps, done)  # not as many as have a core for each thread: nothing is timed

    def subject(self, value: Verified) -> Subject:
        """See `Place`."""
        return opening.subject(value)

    def blocks(self) -> Blocks:
        """See `Place`."""
        return BlocksHere()


def _begun(cell: Cell, outcome: Prepared | Failure) -> Begun:
    if isinstance(outcome, Failure):
        return Begun(cell=cell, header=header_of(cell, None), outcome=outcome)
    header = header_of(cell, outcome.artifact)
    return Begun(cell=cell, header=header, outcome=dataclasses.replace(outcome, cell=cell, key=header.key))


def header_of(cell: Cell, artifact: Artifact | None) -> Header:
    """The first line of the record of a cell that runs on this machine."""
    task = catalog.task(cell.task)
    return Header(
        schema=SCHEMA,
        key=provenance.record_key(cell, artifact),
        cell=cell.path,
        machine=machine.describe(),
        versions=provenance.versions_run(cell),
        subject=provenance.subject(task),
        family=provenance.task_digest(catalog.task(cell.task.model)),
        artifact=artifact.facts if artifact is not None else None,
        origin=adopt.origin_of(task) or UNSET,
    )
