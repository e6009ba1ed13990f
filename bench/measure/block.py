"""A block: comparable cells alive in parked workers at the same time, run in short bursts in random order.

A block holds the baseline twice, once as the common reference and once as the A/A control, but for some blocks of
contenders for a choice, which are compared with one another. Workers start and load
on all cores at once; then one worker runs at a time, and a parked worker waits for its next request and uses no CPU.
Where others took a worker's processor time, the passes are repeated once, and those count that lost less.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from bench.api.cell import Cell
from bench.api.errors import BenchError, ChildError
from bench.measure import machine, passes, process, turns
from bench.measure.clock import BurstPlan
from bench.measure.comparison import CELL
from bench.measure.launch import Launch, median_ns
from bench.measure.limits import Limits
from bench.measure.lost_time import Lost, Watch
from bench.measure.parallel import on_all_cores
from bench.measure.prior import USUAL
from bench.measure.process import Child
from bench.measure.session import Worker
from bench.measure.subject import Request, Subject

_MOST_FIRST = 1 << 16
_FINISH = Request(operation=Worker.finish, arguments={})
_FEWEST = 2
"""Workers of a block: what is measured alone is compared with nothing."""
_LEAST_ROOM = 4
"""Cells of a block for which there is room in any case."""
SLOW_CELL_S = 1.0
"""Inferences of a launch that take less altogether are not worth another block, whose workers have to be started."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method:
    """How a block measures.

    Attributes:
        min_passes: least number of bursts of each worker.
        max_passes: largest number of bursts of each worker.
        max_s: seconds after which passes end, so that the launches of a cell are spread over a sweep.
        launch_sd: prior of how far launches of one cell lie apart that have no noise within them, as the standard
            deviation of their logarithms: the larger, the fewer passes and the more launches are worth their time.
        max_lost_share: passes are repeated if a worker lost more of its time to others.
        is_brief: whether a launch is to tell no more than whether the cell may be the fastest.
        has_baseline: whether the baseline takes part. Contenders that have each run beside it may run without it, whose
            copies take longer than they do; they are compared with it through the other blocks.
        room_s: seconds that there are for a block with a baseline; slow cells that do not fit are left out of it, the
            last first, but for `_LEAST_ROOM`. None for a block of all cells.
    """

    min_passes: int = 5
    max_passes: int = 200
    max_s: float = 20.0
    launch_sd: float = USUAL.launch
    max_lost_share: float = 0.05
    is_brief: bool = False
    has_baseline: bool = True
    room_s: float | None = None
    burst: BurstPlan = BurstPlan()
    limits: Limits = Limits()


class Repeats:
    """Whether to repeat passes: no more in a sweep once `MOST_IN_VAIN` repeats in a row lost too much as well."""

    MOST_IN_VAIN = 3

    def __init__(self) -> None:
        self._in_vain = 0

    @property
    def are_worthwhile(self) -> bool:
        """Whether any of the latest repeats lost little time to others."""
        return self._in_vain < self.MOST_IN_VAIN

    def note(self, *, helped: bool) -> None:
        """Note whether a repeat lost little time to others."""
        self._in_vain = 0 if helped else self._in_vain + 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Burst:
    """A worker's reply to `Worker.burst`: its samples in nanoseconds, and whether it came to rest afterwards."""

    cold_ns: tuple[int, ...]
    steady_ns: tuple[int, ...]
    quiet: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Part:
    """The passes of one worker that become one launch: its bursts, and the medians of their steady samples."""

    bursts: list[_Burst] = dataclasses.field(default_factory=list)
    medians_ns: list[float] = dataclasses.field(default_factory=list)

    def add(self, burst: _Burst) -> None:
        self.bursts.append(burst)
        self.medians_ns.append(median_ns(burst.steady_ns))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Seat:
    """One worker of a block and its replies so far.

    Attributes:
        machine: state of the machine just before the worker was started.
        replies: fields of `Launch` that the worker sent when it imported, opened and finished, and `loaded_beside`.
        parts: the first is the warm-up, a single burst, because runtimes tune themselves in their first inferences;
            then the passes, and these repeated.
        programs: the process of the program that runs the inferences, if the worker has one beside it.
    """

    subject: Subject
    role: str
    child: Child
    machine: machine.State
    replies: dict[str, Any] = dataclasses.field(default_factory=dict)
    parts: list[_Part] = dataclasses.field(default_factory=list)
    programs: list[int] = dataclasses.field(default_factory=list)

    @property
    def cell(self) -> Cell:
        """The cell of the subject."""
        return self.subject.cell

    @property
    def pid(self) -> int:
        """The process that runs the inferences: the worker, or the program beside it."""
        return self.programs[-1] if self.programs else self.child.pid

    def ask(self, request: Request, timeout_s: float) -> None:
        """Send a request whose reply holds fields of `Launch`."""
        reply = self.child.request(request.operation, timeout_s=timeout_s, **request.arguments)
        if (pid := reply.pop("pid", None)) is not None:
            self.programs.append(pid)
        self.replies.update(reply)

    def burst(self, method: Method, request: int) -> None:
        """Run one burst of inferences that answer the same request."""
        plan = method.burst
        if len(self.parts) > 1:  # by the warm-up alone, so that all passes are alike
            plan = plan.for_inference(self.parts[0].medians_ns[0])
        arguments = dataclasses.asdict(plan)
        reply = self.child.request(Worker.burst, timeout_s=method.limits.burst_s, request=request, **arguments)
        self.parts[-1].add(msgspec.convert(reply, _Burst))

    def launch(self, place: int, **shared: Any) -> Launch:
        """The launch of one part, when the worker has finished; `shared` are fields of it."""
        warmup, part = self.parts[0].bursts[0], self.parts[place]
        warmed = [warmup] if place == 1 else []
        measured = {
            "launch": turns.new_id(),
            "role": self.role,
            "machine": self.machine,
            "warmup_ns": [sample for burst in warmed for sample in (*burst.cold_ns, *burst.steady_ns)],
            "cold_ns": [burst.cold_ns for burst in part.bursts],
            "steady_ns": [burst.steady_ns for burst in part.bursts],
            "num_restless": sum(not burst.quiet for burst in [*warmed, *part.bursts]),
        }
        return msgspec.convert({**measured, **self.replies, **shared}, Launch)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Failure:
    """A cell that failed in a block, the stage (`open` or `measure`) and the error."""

    subject: Subject
    stage: str
    error: ChildError


class _NothingToKeepError(Exception):
    """The baseline failed, no two workers are left, or the time was up before the first pass."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """What a block brought.

    Attributes:
        launches: by subject, the baseline's reference and control first.
        failures: the cells that failed.
        superseded: launches that do not count, because the same workers lost less time to others in `launches`.
        again: failures of earlier blocks, of cells that have a launch in this one, which was under way.
    """

    launches: tuple[tuple[Subject, Launch], ...]
    failures: tuple[Failure, ...]
    superseded: tuple[tuple[Subject, Launch], ...] = ()
    again: tuple[Failure, ...] = ()


def run_block(
    baseline: Subject,
    subjects: Sequence[Subject],
    method: Method,
    *,
    out_of_time: Callable[[], bool] = lambda: False,
    repeats: Repeats | None = None,
) -> Result:
    """Measure some cells beside their baseline, with one launch of each cell.

    A cell that fails leaves the block, which goes on; when the baseline fails there is nothing to compare with and
    nothing is kept.

    Args:
        baseline: the cell with which the others are compared; it runs twice, unless the method has no baseline.
        subjects: the other cells; none for the baseline alone.
        method: how the block measures.
        out_of_time: asked, from any thread, before each worker is started and before each pass; once it is true, the
            block ends early.
        repeats: what the blocks of a sweep share, so that no pass is repeated in vain again and again.
    """
    with contextlib.ExitStack() as workers, process.ended_at_once():
        block = _Block(baseline, method, out_of_time)
        with contextlib.suppress(_NothingToKeepError):
            begin = time.monotonic()
            block.open(subjects, workers)
            block.warm_up()
            lost = [block.measure(time.monotonic() - begin)]
            if block.wants_repeat(lost[0], repeats or Repeats()):
                lost.append(block.measure_again())
                if repeats is not None:
                    repeats.note(helped=not block.is_too_much(lost[1]))
            return block.result(lost)
        return Result(launches=(), failures=tuple(block.failures))


class _Block:
    """The workers of one block, and the steps that they take together."""

    def __init__(self, baseline: Subject, method: Method, out_of_time: Callable[[], bool]) -> None:
        self.failures: list[Failure] = []
        self._seats: list[_Seat] = []
        self._baseline = baseline
        self._method = method
        self._out_of_time = out_of_time
        self._first_request = random.randrange(_MOST_FIRST)  # so that few passes of many blocks see all requests

    def open(self, subjects: Sequence[Subject], workers: contextlib.ExitStack) -> None:
        """Start two workers for the baseline, if it takes part, and one for each subject, and open their sessions.

        Packages are imported on all cores at once. Loads and first inferences are figures of their own, so they run at
        the same time only while there is a core for each of their threads: beside another worker, the first inference
        of two threads on two cores took up to 15 times as long.
        """
        threads = max(subject.cell.threads for subject in (self._baseline, *subjects))
        limits = self._method.limits
        for subject, role in turns.roles(self._baseline, subjects, has_baseline=self._method.has_baseline):
            state = machine.state()
            started = Child(
                environment=subject.environment, memory_bytes=limits.memory_bytes, interpreter=subject.interpreter
            )
            child = workers.enter_context(started)
            self._seats.append(_Seat(subject=subject, role=role, child=child, machine=state))

        def load(seat: _Seat) -> None:
            if self._out_of_time():
                raise _NothingToKeepError
            seat.ask(seat.subject.opening, limits.open_s)

        def answered(seat: _Seat, outcome: BenchError | None) -> None:
            if isinstance(outcome, ChildError):
                self._leave(seat, outcome, "open")

        on_all_cores(lambda seat: seat.ask(seat.subject.imports, limits.open_s), list(self._seats), answered)

        def load_all(seats: list[_Seat]) -> None:
            beside = min(max(1, machine.num_cores() // threads), len(seats)) - 1
            for seat in seats:
                seat.replies["loaded_beside"] = beside
            on_all_cores(load, seats, answered, threads=lambda _: threads)

        if (room_s := self._method.room_s) is not None:  # the baseline tells how many cells fit
            load_all([seat for seat in self._seats if seat.role != CELL])
            self._warm_up([seat for seat in self._seats if seat.role != CELL])
            self._leave_out(subjects, room_s)
        load_all([seat for seat in self._seats if not seat.parts])

    def _leave_out(self, subjects: Sequence[Subject], room_s: float) -> None:
        """Let the last subjects leave the block where they are slow and there is no time for them.

        A cell is taken to be as fast as the baseline, whose warm-up tells how long an inference takes. A launch has a
        first inference, a warm-up and the passes; a burst of a slow model is one inference.
        """
        warm_ns = min(seat.parts[0].medians_ns[0] for seat in self._seats if seat.role != CELL)
        cell_s = (2 + self._method.min_passes) * warm_ns / 1e9
        if cell_s < SLOW_CELL_S:
            return
        late = subjects[max(_LEAST_ROOM, math.floor(room_s / cell_s) - 2) :]
        for seat in [seat for seat in self._seats if seat.role == CELL and seat.subject in late]:
            seat.child.kill()
            self._seats.remove(seat)

    def warm_up(self) -> None:
        """Run the first burst of each worker that has run none."""
        self._warm_up([seat for seat in self._seats if not seat.parts])

    def _warm_up(self, seats: Sequence[_Seat]) -> None:
        """Run the first burst of some workers, with the request of the first pass."""

        def warm(seat: _Seat) -> None:
            seat.parts.append(_Part())
            seat.burst(self._method, self._first_request)

        turns.take(seats, warm, self._leave)

    def measure(self, set_up_s: float) -> Lost:
        """Run passes until further ones would tell less than further launches, and return the time lost meanwhile.

        Args:
            set_up_s: seconds that the block took so far.
        """
        method, watch, start = self._method, self._begin_part(), time.monotonic()
        for number in itertools.count():
            passed_s = time.monotonic() - start
            if number >= method.min_passes and (
                number >= method.max_passes
                or passed_s >= method.max_s
                or self._out_of_time()
                or number >= self._best_number(set_up_s, passed_s / number)
            ):
                return watch.lost()
            self._run_pass()
        raise AssertionError

    def _best_number(self, set_up_s: float, pass_s: float) -> float:
        """The number of passes after which further launches tell more: see `passes.best_number`."""
        pass_sd = passes.pass_sd(np.array([seat.parts[-1].medians_ns for seat in self._seats]))
        launch_sd = self._method.launch_sd
        best = passes.best_number(set_up_s=set_up_s, pass_s=pass_s, pass_sd=pass_sd, launch_sd=launch_sd)
        return min(best, passes.brief_number(pass_sd=pass_sd, launch_sd=launch_sd)) if self._method.is_brief else best

    def is_too_much(self, lost: Lost) -> bool:
        """Whether a worker lost so much time that its passes are worth a repeat."""
        return lost.most is not None and lost.most > self._method.max_lost_share

    def wants_repeat(self, lost: Lost, repeats: Repeats) -> bool:
        """Whether to run the passes again, after passes in which so much was lost."""
        return self.is_too_much(lost) and repeats.are_worthwhile and not self._out_of_time()

    def measure_again(self) -> Lost:
        """Run as many passes as before, fewer if the time is up, and return the time lost meanwhile."""
        number = len(self._seats[0].parts[-1].bursts)
        watch = self._begin_part()
        for done in range(number):
            if done >= self._method.min_passes and self._out_of_time():
                break
            self._run_pass()
        return watch.lost()

    def result(self, lost: Sequence[Lost]) -> Result:
        """End the workers' sessions.

        Args:
            lost: what was lost in the passes, and in these repeated, if they were.
        """
        turns.take(self._seats, lambda seat: seat.ask(_FINISH, self._method.limits.burst_s), self._leave)
        # By the time lost alone: a choice by the figures would be biased.
        best = min(lost, key=lambda each: each.most or 0.0)
        launches = {
            each is best: self._launches(place, each, each is not best) for place, each in enumerate(lost, start=1)
        }
        return Result(launches=launches[True], failures=tuple(self.failures), superseded=launches.get(False, ()))

    def _launches(self, place: int, lost: Lost, superseded: bool) -> tuple[tuple[Subject, Launch], ...]:
        shared = {
            **turns.block_fields(self._baseline.cell),
            "steal_share": lost.steal_share,
            "superseded": superseded,
            "first_request": self._first_request,
        }
        shares = lost.run_delay_shares
        return tuple(
            (seat.subject, seat.launch(place, **shared, run_delay_share=shares[seat.pid]))
            for seat in turns.ordered(self._seats)
        )

    def _begin_part(self) -> Watch:
        for seat in self._seats:
            seat.parts.append(_Part())
        return Watch(seat.pid for seat in self._seats)

    def _run_pass(self) -> None:
        # The warm-up runs the request of the first pass.
        request = self._first_request + len(self._seats[0].parts[-1].bursts)
        turns.take(self._seats, lambda seat: seat.burst(self._method, request), self._leave)

    def _leave(self, seat: _Seat, error: ChildError, stage: str = "measure") -> None:
        """Let a cell that failed leave the block.

        Raises:
            _NothingToKeepError: it is the baseline, or there are no two left to compare.
        """
        self.failures.append(Failure(subject=seat.subject, stage=stage, error=error))
        seat.child.kill()
        self._seats.remove(seat)
        if seat.subject.key == self._baseline.key or len(self._seats) < _FEWEST:
            raise _NothingToKeepError
