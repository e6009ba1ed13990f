"""Two tasks' cells measured in the same blocks: what a model was and what it is, on the machine as it is now."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from bench.api.cell import Cell
from bench.api.errors import BenchError, InputError, RefusedError
from bench.decisions.compare import Change
from bench.measure import comparison, machine, rounds
from bench.measure.at_once import at_once
from bench.measure.block import Method, Result, Subject
from bench.measure.rounds import Goal, Group, Ledger
from bench.pipeline import sweeps
from bench.pipeline.quality import BROKEN
from bench.pipeline.subjects import judged_subject
from bench.pipeline.sweep import Observer
from bench.plugins import catalog
from bench.records import assemble
from bench.records.lines import Failure, Header, Quality
from bench.records.rows import Row
from bench.records.store import Record

SAME = "the same graph with the same weights"


@dataclasses.dataclass(kw_only=True)
class _Half:
    """A cell of one of the two tasks on its way: made and judged, or with the reason why not."""

    cell: Cell
    subject: Subject | None = None
    quality: Quality | None = None
    failure: Failure | None = None
    ledger: Ledger | None = None

    @property
    def is_right(self) -> bool:
        """Whether it may be timed, or was without failing."""
        return self.failure is None and self.quality is not None and self.quality.fidelity != BROKEN

    def fail(self, error: BenchError) -> None:
        stage = "skip" if isinstance(error, RefusedError) else "measure"
        self.failure = Failure(stage=stage, reason=str(error))

    def record(self) -> Record:
        """What a sweep would have stored of it."""
        artifact = self.subject.artifact.facts if self.subject else None
        return Record(
            key=self.cell.path,
            cell=self.cell,
            header=Header(key=self.cell.path, cell=self.cell.path, artifact=artifact),
            quality=self.quality,
            launches=tuple(self.ledger.launches) if self.ledger else (),
            failure=self.failure,
        )


def pairs(before: str, after: str, globs: Sequence[str]) -> list[tuple[Cell | None, Cell | None]]:
    """Cells of two tasks that differ in nothing else; None where only one of them has such a cell.

    Args:
        before: name of a task.
        after: of the other.
        globs: over paths without the task; the plain exports without any.

    Raises:
        InputError: a glob matches no cell of either.
    """
    found: dict[str, dict[str, Cell]] = {name: {} for name in (before, after)}
    for name in () if globs else found:
        found[name] = _by_rest(sweeps.plain(name))
    for glob in globs:
        errors = []
        for name in found:
            try:
                found[name] |= _by_rest(sweeps.select([f"{name}/{glob}"], None))
            except InputError as error:
                errors.append(error)
        if len(errors) == len(found):
            raise errors[0]
    return [(found[before].get(rest), found[after].get(rest)) for rest in {**found[before], **found[after]}]


def _by_rest(cells: Iterable[Cell]) -> dict[str, Cell]:
    return {cell.path.partition("/")[2]: cell for cell in cells}


def measure(
    found: Sequence[tuple[Cell | None, Cell | None]], method: Method, goal: Goal, observer: Observer
) -> list[Change]:
    """Make, judge and measure the pairs; what is the same graph in both is not timed."""
    halves = {cell: _Half(cell=cell) for pair in found for cell in pair if cell is not None}
    _prepare(list(halves.values()), method, observer)
    twins = [(halves[one], halves[other]) for one, other in found if one is not None and other is not None]
    groups = [
        _group(one, other) for one, other in twins if one.is_right and other.is_right and not _same_file(one, other)
    ]

    def keep(result: Result) -> None:
        for failure in result.failures:
            halves[failure.subject.cell].fail(failure.error)
            observer.cell(failure.subject.cell, f"failed: {failure.error}")

    observer.stage("measure", len(groups))
    rounds.measure(groups, method, goal, keep=keep, report=observer.progress)
    records = {half.cell.path: half.record() for half in halves.values()}
    rows = {row.cell: row for row in assemble.rows(records, margin=goal.margin)}
    changes = []
    for one, other in found:
        name = (one or other).path.partition("/")[2]  # type: ignore[union-attr]
        before, after = (rows[cell.path] if cell is not None else None for cell in (one, other))
        change = Change(cell=name, before=before, after=after)
        if one is not None and other is not None:
            change = _compared(change, halves[one], halves[other])
        changes.append(change)
    return changes


def _prepare(halves: Sequence[_Half], method: Method, observer: Observer) -> None:
    observer.stage("prepare", len(halves))

    def done(half: _Half, outcome: tuple[Subject, Quality] | BenchError) -> None:
        if isinstance(outcome, BenchError):
            half.fail(outcome)
            assert half.failure is not None
            observer.cell(half.cell, f"{'skipped' if half.failure.stage == 'skip' else 'failed'}: {outcome}")
        else:
            half.subject, half.quality = outcome
            observer.cell(half.cell, half.quality.fidelity)

    for threads in sorted({half.cell.threads for half in halves}):
        alike = [half for half in halves if half.cell.threads == threads]
        workers = max(1, machine.num_cores() // threads)
        at_once(lambda half: judged_subject(half.cell, method.limits), alike, workers=workers, done=done)


def _group(one: _Half, other: _Half) -> Group:
    assert one.subject is not None
    assert other.subject is not None
    one.ledger, other.ledger = (Ledger(subject=subject, launches=[]) for subject in (one.subject, other.subject))
    return Group(baseline=one.ledger, ledgers=[other.ledger])


def _same_file(one: _Half, other: _Half) -> bool | None:
    """Whether both are proved to run the very same thing, or proved not to; None where it cannot be told."""
    digests = [half.subject.artifact.canonical if half.subject else None for half in (one, other)]
    return None if None in digests else digests[0] == digests[1]


def _compared(change: Change, one: _Half, other: _Half) -> Change:
    if not (one.is_right and other.is_right):
        return dataclasses.replace(change, note=_reason(change))
    change = dataclasses.replace(change, same_file=_same_file(one, other))
    if change.same_file:
        return dataclasses.replace(change, note=SAME)
    assert one.ledger is not None
    assert other.ledger is not None
    found = comparison.against_baseline(other.ledger.launches, one.ledger.launches)
    if found.effect is None:
        return dataclasses.replace(change, note=_reason(change))
    return dataclasses.replace(change, comparison=found)


def _reason(change: Change) -> str:
    sides: list[tuple[Row | None, str]] = [(change.before, "A"), (change.after, "B")]
    for row, side in sides:
        if row is not None and row.status != "ok":
            return f"{row.status} in {side}"
        if row is not None and row.fidelity == BROKEN:
            return f"broken in {side}"
    return "the time was up before its first block"


def differing_inputs(before: str, after: str) -> str | None:
    """A remark where two tasks do not take the same inputs: then their latencies are of different requests."""
    one, other = (catalog.task(name).inputs for name in (before, after))
    if one == other:
        return None
    texts = ["; ".join(f"{spec.name} {spec.dtype} {spec.shape}" for spec in specs) for specs in (one, other)]
    return f"warning: the inputs differ, so these are different requests: {texts[0]} in A, {texts[1]} in B"
