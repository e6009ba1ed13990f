"""A block: comparable cells alive in parked workers at the same time, run in short bursts in random order.

Every block holds the baseline twice, once as the common reference and once as the A/A control. Workers start and load
on all cores at once; then one worker runs at a time, and a parked worker waits for its next request and uses no CPU.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import random
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from bench.api.cell import Cell
from bench.api.errors import BenchError, ChildError
from bench.measure import machine
from bench.measure.at_once import on_all_cores
from bench.measure.clock import BurstPlan
from bench.measure.comparison import CELL, CONTROL, REFERENCE
from bench.measure.launch import Launch, median_ns
from bench.measure.levels import levels
from bench.measure.limits import Limits
from bench.measure.process import Child
from bench.measure.session import Worker


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """A request to a worker: the operation and its arguments, as `Child.request` takes them."""

    operation: Callable[..., Any]
    arguments: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
    """A cell that is ready to be measured, described without its plugins.

    Attributes:
        cell: the cell.
        key: key of the cell's record.
        environment: environment variables of the worker's process.
        imports: the request that imports the packages of the cell's runtime.
        opening: the request that opens the cell's session and leaves it open.
        rss_bytes: resident memory of a worker that runs the cell, as the verification measured it.
    """

    cell: Cell
    key: str
    environment: Mapping[str, str]
    imports: Request
    opening: Request
    rss_bytes: int


MOST_FIRST = 1 << 16
FINISH = Request(operation=Worker.finish, arguments={})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method:
    """How a block measures.

    Attributes:
        fewest_passes: least number of bursts of each worker when the time of the sweep or of the block is up.
        min_passes: least number of bursts of each worker while there is time.
        max_passes: largest number of bursts of each worker.
        pass_error: passes go on until no cell's log-ratio has a larger standard error within its launch.
        max_s: seconds after which the block's time is up, since slow cells gain more by launches than by passes.
    """

    fewest_passes: int = 5
    min_passes: int = 15
    max_passes: int = 60
    pass_error: float = 0.004
    max_s: float = 8.0
    burst: BurstPlan = BurstPlan()
    limits: Limits = Limits()


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Burst:
    """A worker's reply to `Worker.burst`: its samples in nanoseconds, and whether it came to rest afterwards."""

    cold_ns: tuple[int, ...]
    steady_ns: tuple[int, ...]
    quiet: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Seat:
    """One worker of a block and its replies so far.

    Attributes:
        machine: state of the machine just before the worker was started.
        loaded_beside: see `Launch`.
        replies: fields of `Launch` that the worker sent when it imported, opened and finished.
        bursts: replies to the bursts; the first burst is a warm-up, because runtimes tune themselves in their first
            inferences.
        medians_ns: medians of the steady samples, one for each burst after the first.
    """

    subject: Subject
    role: str
    child: Child
    machine: machine.State
    loaded_beside: int
    replies: dict[str, Any] = dataclasses.field(default_factory=dict)
    bursts: list[_Burst] = dataclasses.field(default_factory=list)
    medians_ns: list[float] = dataclasses.field(default_factory=list)

    def ask(self, request: Request, timeout_s: float) -> None:
        """Send a request whose reply holds fields of `Launch`."""
        self.replies.update(self.child.request(request.operation, timeout_s=timeout_s, **request.arguments))

    def burst(self, method: Method, request: int) -> None:
        """Run one burst of inferences that answer the same request."""
        plan = method.burst
        if self.bursts:  # by the warm-up alone, so that all passes are alike
            plan = plan.for_inference(median_ns(self.bursts[0].steady_ns))
        arguments = dataclasses.asdict(plan)
        reply = self.child.request(Worker.burst, timeout_s=method.limits.burst_s, request=request, **arguments)
        self.bursts.append(msgspec.convert(reply, _Burst))
        if len(self.bursts) > 1:
            self.medians_ns.append(median_ns(self.bursts[-1].steady_ns))

    def launch(self, block: str, reference: str, first_request: int) -> Launch:
        """The launch of a worker that has finished."""
        warmup, *passes = self.bursts
        measured = {
            "launch": uuid.uuid4().hex[:16],
            "block": block,
            "role": self.role,
            "reference": reference,
            "machine": self.machine,
            "loaded_beside": self.loaded_beside,
            "warmup_ns": warmup.cold_ns + warmup.steady_ns,
            "cold_ns": [burst.cold_ns for burst in passes],
            "steady_ns": [burst.steady_ns for burst in passes],
            "first_request": first_request,
            "num_restless": sum(not burst.quiet for burst in self.bursts),
        }
        return msgspec.convert({**measured, **self.replies}, Launch)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Failure:
    """A cell that failed in a block, the stage (`open` or `measure`) and the error."""

    subject: Subject
    stage: str
    error: ChildError


class _NothingToKeepError(Exception):
    """The baseline failed, or the time was up before the first pass."""


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
    """Measure some cells beside their baseline, with one launch of each cell.

    A cell that fails leaves the block, which goes on; when the baseline fails there is nothing to compare with and
    nothing is kept.

    Args:
        baseline: the cell with which the others are compared; it runs twice.
        subjects: the other cells; none for the baseline alone.
        method: how the block measures.
        out_of_time: asked, from any thread, before each worker is started and before each pass; once it is true, the
            block ends early.
    """
    block, limits = uuid.uuid4().hex[:16], method.limits
    roles = [(baseline, REFERENCE), (baseline, CONTROL), *((subject, CELL) for subject in subjects)]
    seats: list[_Seat] = []
    failures: list[Failure] = []
    loaded_beside = min(machine.num_cores(), len(roles)) - 1

    def started(subject: Subject, role: str) -> _Seat:
        state = machine.state()
        child = workers.enter_context(Child(environment=subject.environment, memory_bytes=limits.memory_bytes))
        return _Seat(subject=subject, role=role, child=child, machine=state, loaded_beside=loaded_beside)

    def open_session(seat: _Seat) -> None:
        if out_of_time():
            raise _NothingToKeepError
        seat.ask(seat.subject.imports, limits.open_s)
        seat.ask(seat.subject.opening, limits.open_s)

    def drop(seat: _Seat, stage: str, error: ChildError) -> None:
        failures.append(Failure(subject=seat.subject, stage=stage, error=error))
        seat.child.kill()
        seats.remove(seat)
        if seat.subject.key == baseline.key:
            raise _NothingToKeepError

    def opened(seat: _Seat, outcome: BenchError | None) -> None:
        if isinstance(outcome, ChildError):
            drop(seat, "open", outcome)

    def attempt(seat: _Seat, step: Callable[[_Seat], None]) -> None:
        try:
            step(seat)
        except ChildError as error:
            drop(seat, "measure", error)

    with contextlib.ExitStack() as workers, contextlib.suppress(_NothingToKeepError):
        # By this thread: a worker dies with the thread that started it.
        seats += [started(subject, role) for subject, role in random.sample(roles, len(roles))]
        on_all_cores(open_session, list(seats), opened)
        first_request = random.randrange(MOST_FIRST)  # so that few passes of many blocks see all requests
        start = time.monotonic()
        for number in range(method.max_passes + 1):
            is_late = time.monotonic() - start > method.max_s
            if number > method.fewest_passes and (is_late or out_of_time()):
                break
            if number > method.min_passes and _is_precise(seats, method):
                break
            request = first_request + max(0, number - 1)  # the warm-up runs that of the first pass
            for seat in random.sample(seats, len(seats)):
                attempt(seat, functools.partial(_Seat.burst, method=method, request=request))
        for seat in list(seats):
            attempt(seat, lambda seat: seat.ask(FINISH, limits.burst_s))
        order = (REFERENCE, CONTROL, CELL)
        seats.sort(key=lambda seat: (order.index(seat.role), seat.subject.cell))
        launches = tuple((seat.subject, seat.launch(block, baseline.cell.path, first_request)) for seat in seats)
        return Result(launches=launches, failures=tuple(failures))
    return Result(launches=(), failures=tuple(failures))


def _is_precise(seats: Sequence[_Seat], method: Method) -> bool:
    """Whether the level of each worker is known so well that further passes would tell little."""
    found = levels(np.array([seat.medians_ns for seat in seats]))
    return bool(np.all(found.variances <= method.pass_error**2))
