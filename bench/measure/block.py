"""A block: comparable cells alive in parked workers at the same time, run in short bursts in random order.

Every block holds the baseline twice, once as the common reference and once as the A/A control. One worker runs at a
time; a parked one waits for its next request and uses no CPU.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import BenchError, ChildError
from bench.measure import comparison, machine, stats
from bench.measure.at_once import at_once
from bench.measure.clock import BurstPlan
from bench.measure.comparison import CELL, CONTROL, REFERENCE, Launch
from bench.measure.limits import Limits
from bench.measure.process import Child
from bench.measure.session import Worker
from bench.pipeline import opening, operations


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
    """A cell ready to be measured.

    Attributes:
        inputs: `.npz` file with the held-out split's inputs.
        rss_bytes: what a worker with it holds, from its verification.
    """

    cell: Cell
    key: str
    artifact: Artifact
    inputs: Path
    rss_bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method:
    """How a block measures.

    Attributes:
        fewest_passes: bursts of each worker that make a launch, at least, when a time is up (the sweep's or its own);
        min_passes: and when it is not;
        max_passes: and most.
        pass_error: passes go on until the standard error of every cell's log-ratio within its launch is down to this,
        max_s: or they have taken this many seconds: further launches tell more of slow cells than further passes.
    """

    fewest_passes: int = 5
    min_passes: int = 15
    max_passes: int = 60
    pass_error: float = 0.004
    max_s: float = 8.0
    burst: BurstPlan = BurstPlan()
    limits: Limits = Limits()


@dataclasses.dataclass(kw_only=True)
class _Seat:
    """One worker of a block and what it has measured."""

    subject: Subject
    role: str
    child: Child
    line: Launch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Failure:
    """A cell that failed in a block, and how."""

    subject: Subject
    stage: str
    error: ChildError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """Launches by subject, the baseline's reference and control first, and the cells that failed."""

    launches: tuple[tuple[Subject, Launch], ...]
    failures: tuple[Failure, ...]


def run_block(
    baseline: Subject,
    subjects: Sequence[Subject],
    method: Method,
    *,
    out_of_time: Callable[[], bool] = lambda: False,
) -> Result:
    """Measure some cells beside their baseline.

    A cell that fails leaves the block, which goes on; when the baseline fails there is nothing to compare with and
    nothing is kept.
    """
    block = uuid.uuid4().hex[:16]
    roles = [(baseline, REFERENCE), (baseline, CONTROL), *((subject, CELL) for subject in subjects)]
    seats: list[_Seat] = []
    failures: list[Failure] = []
    with contextlib.ExitStack() as workers:

        def drop(seat: _Seat, stage: str, error: ChildError) -> None:
            failures.append(Failure(subject=seat.subject, stage=stage, error=error))
            seat.child.kill()
            if seat in seats:
                seats.remove(seat)

        def lost() -> bool:
            return any(failure.subject.key == baseline.key for failure in failures)

        def imported(seat: _Seat, outcome: BenchError | None) -> None:
            if isinstance(outcome, ChildError):
                drop(seat, "open", outcome)

        waiting = []
        for subject, role in random.sample(roles, len(roles)):
            waiting.append(_seat(subject, role, block, baseline, method.limits))
            workers.callback(waiting[-1].child.close)
        # Imports take most of the time before the first pass, and nothing of them is compared.
        at_once(lambda seat: _import(seat, method.limits), waiting, workers=machine.num_cores(), done=imported)
        for seat in waiting:
            if out_of_time() or lost():
                return Result(launches=(), failures=tuple(failures))
            if any(failure.subject is seat.subject for failure in failures):
                continue
            try:
                _open(seat, method.limits)
                seats.append(seat)
            except ChildError as error:
                drop(seat, "open", error)
            if lost():
                return Result(launches=(), failures=tuple(failures))
        start = time.monotonic()
        for number in range(method.max_passes + 1):
            is_late = time.monotonic() - start > method.max_s
            if number > method.fewest_passes and (is_late or out_of_time()):
                break
            if number > method.min_passes and _is_precise(seats, method):
                break
            for seat in random.sample(seats, len(seats)):
                try:
                    _burst(seat, method, warmup=number == 0)
                except ChildError as error:
                    drop(seat, "measure", error)
                if lost():
                    return Result(launches=(), failures=tuple(failures))
        for seat in list(seats):
            try:
                seat.line |= seat.child.request(Worker.finish, timeout_s=method.limits.burst_s)
            except ChildError as error:
                drop(seat, "measure", error)
    if lost():
        return Result(launches=(), failures=tuple(failures))
    order = {REFERENCE: 0, CONTROL: 1, CELL: 2}
    finished = sorted(seats, key=lambda seat: (order[seat.role], seat.subject.cell))
    return Result(launches=tuple((seat.subject, seat.line) for seat in finished), failures=tuple(failures))


def _is_precise(seats: Sequence[_Seat], method: Method) -> bool:
    """Whether further passes of these launches would tell little."""
    reference = next(seat.line for seat in seats if seat.role == REFERENCE)
    pairs = [comparison.pair(seat.line, reference) for seat in seats if seat.role != REFERENCE]
    return all(stats.centre_error(pair.log_ratios()) <= method.pass_error for pair in pairs)


def _seat(subject: Subject, role: str, block: str, baseline: Subject, limits: Limits) -> _Seat:
    line: Launch = {
        "kind": "launch",
        "launch": uuid.uuid4().hex[:16],
        "block": block,
        "role": role,
        "reference": baseline.cell.path,
        "machine": machine.state(),
        "warmup_ns": [],
        "cold_ns": [],
        "steady_ns": [],
        "num_restless": 0,
    }
    child = opening.worker(subject.cell, memory_bytes=limits.memory_bytes)
    return _Seat(subject=subject, role=role, child=child, line=line)


def _import(seat: _Seat, limits: Limits) -> None:
    seat.line |= seat.child.request(
        operations.import_packages, timeout_s=limits.open_s, runtime=seat.subject.cell.runtime
    )


def _open(seat: _Seat, limits: Limits) -> None:
    subject = seat.subject
    seat.line |= seat.child.request(
        operations.open_session,
        timeout_s=limits.open_s,
        **opening.subject(subject.cell, subject.artifact.path),
        inputs=str(subject.inputs),
    )


def _burst(seat: _Seat, method: Method, *, warmup: bool) -> None:
    """One burst. The first of a launch is a warm-up: runtimes tune themselves in their first inferences."""
    samples = seat.child.request(Worker.burst, timeout_s=method.limits.burst_s, **dataclasses.asdict(method.burst))
    seat.line["num_restless"] += not samples["quiet"]
    if warmup:
        seat.line["warmup_ns"] = samples["cold_ns"] + samples["steady_ns"]
    else:
        seat.line["cold_ns"].append(samples["cold_ns"])
        seat.line["steady_ns"].append(samples["steady_ns"])
