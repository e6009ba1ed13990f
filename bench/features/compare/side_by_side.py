"""Cells of two tasks measured now in the same blocks: two versions of a model on the same machine."""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from bench.api.cell import Cell
from bench.api.errors import BenchError, InputError
from bench.features.compare.changes import Change, same_graph
from bench.measure.block import Method, Result
from bench.measure.goal import Goal
from bench.measure.parallel import on_all_cores
from bench.pipeline import flow, prepare, run_split, selection, sweeps, verify
from bench.pipeline.flow import Verified
from bench.pipeline.measuring import measure_pairs
from bench.pipeline.quality import BROKEN
from bench.pipeline.sweep_options import Observer
from bench.plugins import catalog
from bench.records import assemble
from bench.records.lines import Failure, Header
from bench.records.measured_cell import Measured
from bench.records.measurements import Measurements
from bench.records.rows import Row

SAME = "the same graph with the same weights"
Pairs = Sequence[tuple[Cell | None, Cell | None]]


def pairs(before: str, after: str, globs: Sequence[str]) -> list[tuple[Cell | None, Cell | None]]:
    """Pairs of cells that differ in their tasks alone; None in place of a cell that only the other task has.

    Args:
        before: name of the first task.
        after: name of the second task.
        globs: globs over cell paths without the task; the plain exports without any glob.

    Raises:
        InputError: a glob matches no cell of either task.
    """
    cells = {name: {} if globs else _by_rest(sweeps.plain(name)) for name in (before, after)}
    for glob in globs:
        errors = []
        for name in cells:
            try:
                cells[name] |= _by_rest(selection.select([f"{name}/{glob}"], None))
            except InputError as error:
                errors.append(error)
        if len(errors) == len(cells):
            raise errors[0]
    return [(cells[before].get(rest), cells[after].get(rest)) for rest in {**cells[before], **cells[after]}]


def _by_rest(cells: Iterable[Cell]) -> dict[str, Cell]:
    return {cell.path.partition("/")[2]: cell for cell in cells}


def measure(
    cells: Pairs, method: Method, goal: Goal, observer: Observer, *, compares_outputs: bool = False
) -> list[Change]:
    """Prepare, verify and measure the pairs; a pair that runs the same graph on the same runtime is not timed.

    Args:
        cells: the pairs.
        method: how blocks are measured.
        goal: when a cell has been measured enough.
        observer: told of every step.
        compares_outputs: whether the outputs of the two cells of a pair are compared with each other, too.
    """
    verified = _verified([cell for pair in cells for cell in pair if cell is not None], method, observer)
    timed = list(_timed(cells, verified))
    outputs = _outputs(timed, method) if compares_outputs else {}
    failures: dict[Cell, Failure] = {}

    def keep(result: Result) -> None:
        for failure in result.failures:
            failures[failure.subject.cell] = Failure.of(failure.stage, failure.error)
            observer.cell(failure.subject.cell, f"failed: {failure.error}")

    observer.stage("measure", len(timed))
    groups = measure_pairs(timed, method, goal, keep=keep, report=observer.progress)
    ledgers = {ledger.subject.cell: ledger for group in groups for ledger in (group.baseline, *group.ledgers)}
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    subjects = {value.cell.task: value.subject for value in verified.values() if isinstance(value, Verified)}
    measured: dict[str, Measured] = {}
    for cell, value in verified.items():
        if isinstance(value, Failure):
            # The digests of its task, as its other cells have them: a row of another subject would be an outdated one.
            header = Header(key=cell.path, cell=cell.path, time=now, subject=subjects.get(cell.task, ()))
            measured[cell.path] = Measured(cell=cell, header=header, failure=value)
        else:
            launches = ledgers[cell].launches if cell in ledgers else ()
            measured[cell.path] = flow.measured(value, launches, failures.get(cell), time=now)
    fitted = Measurements(measured)
    rows = {row.cell: row for row in assemble.rows(measured, margin=goal.aims.margin, measurements=fitted)}
    changes = [_change(pair, rows, measured, fitted) for pair in cells]
    return [
        dataclasses.replace(change, outputs=outputs.get(pair[1])) for pair, change in zip(cells, changes, strict=True)
    ]


def _outputs(timed: Sequence[tuple[Verified, Verified]], method: Method) -> dict[Cell | None, str]:
    """How close the outputs of each pair's second cell are to those of the first, by the second cell."""
    fidelities: dict[Cell | None, str] = {}

    def done(pair: tuple[Verified, Verified], outcome: str | BenchError) -> None:
        if not isinstance(outcome, BenchError):  # a cell that ran just now and fails now fails when it is timed, too
            fidelities[pair[1].cell] = outcome

    on_all_cores(
        lambda pair: run_split.between(pair[1], pair[0], method.limits),
        timed,
        done,
        threads=lambda pair: pair[0].cell.threads,
    )
    return fidelities


def _verified(cells: Sequence[Cell], method: Method, observer: Observer) -> Mapping[Cell, Verified | Failure]:
    """Each cell prepared and verified, or the failure that stopped it."""
    observer.stage("prepare", len(cells))
    outcomes: dict[Cell, Verified | Failure] = {}
    failed_steps: prepare.FailedSteps = {}

    def done(cell: Cell, outcome: Verified | Failure | BenchError) -> None:
        assert not isinstance(outcome, BenchError)
        outcomes[cell] = outcome
        if isinstance(outcome, Failure):
            observer.cell(cell, f"{outcome.status}: {outcome.reason}")
        else:
            observer.cell(cell, outcome.quality.fidelity)

    judge = functools.partial(verify.from_name, limits=method.limits, failed=failed_steps)
    on_all_cores(judge, cells, done, threads=lambda cell: cell.threads)
    return {cell: outcomes[cell] for cell in cells}


def _timed(cells: Pairs, verified: Mapping[Cell, Verified | Failure]) -> Iterator[tuple[Verified, Verified]]:
    """The pairs of two cells that run other graphs or weights, and may both be timed."""
    for pair in cells:
        values = [verified[cell] for cell in pair if cell is not None]
        right = [side for side in values if isinstance(side, Verified) and side.quality.is_timed]
        if len(right) == 2 and not _is_same(
            right[0].cell, right[1].cell, same_graph(*(side.artifact for side in right))
        ):
            yield right[0], right[1]


def _is_same(cell: Cell, other: Cell, same_file: bool | None) -> bool:
    """Whether two cells run the same graph in the same version of a runtime."""
    return bool(same_file) and cell.runtime == other.runtime


def _change(
    pair: tuple[Cell | None, Cell | None],
    rows: Mapping[str, Row],
    measured: Mapping[str, Measured],
    measurements: Measurements,
) -> Change:
    first, other = pair
    before, after = (rows[cell.path] if cell is not None else None for cell in pair)
    name = next(cell.path.partition("/")[2] for cell in pair if cell is not None)
    change = Change(cell=name, before=before, after=after)
    if first is None or other is None:
        return change
    values = [measured[cell.path] for cell in (first, other)]
    if any(value.failure or value.quality is None or value.quality.fidelity == BROKEN for value in values):
        return dataclasses.replace(change, note=_reason(change))
    change = dataclasses.replace(change, same_file=same_graph(values[0].artifact, values[1].artifact))
    if _is_same(first, other, change.same_file):
        return dataclasses.replace(change, note=SAME)
    comparison = measurements.between(other.path, first.path)
    if comparison is None:
        return dataclasses.replace(change, note=_reason(change))
    return dataclasses.replace(change, comparison=comparison)


def _reason(change: Change) -> str:
    sides: list[tuple[Row | None, str]] = [(change.before, "A"), (change.after, "B")]
    for row, side in sides:
        if row is not None and row.status != "ok":
            return f"{row.status} in {side}"
        if row is not None and row.fidelity == BROKEN:
            return f"broken in {side}"
        if row is not None and row.untimed is not None:
            return f"not timed in {side}: {row.untimed}"
    return "the time was up before its first block"


def differing_inputs(before: str, after: str) -> str | None:
    """A remark where two tasks take different inputs, since their latencies are then of different requests."""
    first, other = (catalog.task(name).inputs for name in (before, after))
    if first == other:
        return None
    texts = ["; ".join(f"{spec.name} {spec.dtype} {spec.shape}" for spec in specs) for specs in (first, other)]
    return f"warning: the inputs differ, so these are different requests: {texts[0]} in A, {texts[1]} in B"
