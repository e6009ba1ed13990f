"""A block under load: services take turns under the same arrivals, slice by slice, in random order.

As in `bench.measure.block`, the baseline is there twice, as the reference and as the A/A control, and one service runs
at a time while the others are parked. A slice begins with nobody waiting, and ends when all of its requests are
answered: so the services of a block see the same bursts of requests, which is most of what makes latencies under load
scatter. For the highest rates, each service is served the same arrivals, stretched until its latency is at the bound;
of a faster service, more of them, so that they come for as long.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from bench.api.cell import Cell
from bench.api.errors import ChildError
from bench.features.load import highest, lines
from bench.features.load.lines import LoadLaunch
from bench.features.load.served import Run, Served
from bench.features.load.service import Bounds, Driver, Service, Setup
from bench.measure import machine, process, turns
from bench.measure.comparison import CONTROL, REFERENCE
from bench.measure.limits import Limits
from bench.measure.stats import min_samples
from bench.measure.subject import Subject

FAILED = "turns"
"""Stands for a scenario in the line of a service that failed while services took turns."""
_MIN_PASSES = 2
"""Passes of a launch at least, besides that which warms up."""
SLICE_REQUESTS = 200
"""Requests of a slice, unless they take longer than `SLICE_S`; for a highest rate, as many as its percentile needs."""
SLICE_S = 4.0
"""Seconds that a slice takes at most, as long as it has `LEAST_REQUESTS`."""
LEAST_REQUESTS = 20
BOUNDS_IN_SLICE = 30
"""Bounds on the latency that a slice lasts at least where the highest rate is looked for: it begins with nobody
waiting, and in one that is not far longer than the bound, no request ever waits so long."""
KEPT_SHARE = 0.75
"""Answers a second over requests a second, from the first request to the last answer, of a service that keeps up."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arrivals:
    """When N requests arrive, and what they ask about.

    Attributes:
        due_ns: increasing nanoseconds after the beginning, N.
        rows: numbers of the samples, N; taken modulo the number of samples that a service has.
    """

    due_ns: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(cls, served: Served) -> Arrivals:
        """The arrivals that a client sent."""
        return cls(due_ns=served.due_ns - served.due_ns[0], rows=served.rows)

    @property
    def rate(self) -> float:
        """Requests a second; 0 where fewer than two come, or all at once."""
        span_s = float(self.due_ns[-1] - self.due_ns[0]) / 1e9 if len(self.due_ns) else 0.0
        return (len(self.due_ns) - 1) / span_s if span_s else 0.0

    def at(self, rate: float) -> Arrivals:
        """The same arrivals, stretched so that so many come in a second."""
        return Arrivals(due_ns=(self.due_ns * (self.rate / rate)).astype(np.int64), rows=self.rows)

    def slices(self) -> list[Arrivals]:
        """Slices of as many requests as a launch takes at a time; each begins when its first request arrives."""
        number = min(len(self.due_ns), _num_requests(self.rate, SLICE_REQUESTS))
        return [self.part(start, number) for start in range(0, len(self.due_ns) - number + 1, number)]

    def part(self, start: int, number: int) -> Arrivals:
        """So many requests from one of them on; behind the last comes the first again."""
        total = len(self.due_ns)
        places = np.arange(start % total, start % total + number)
        around_ns = self.due_ns[-1] - self.due_ns[0] + round(1e9 / self.rate) if self.rate else 0
        due_ns = self.due_ns[places % total] + places // total * around_ns
        return Arrivals(due_ns=due_ns - due_ns[0], rows=self.rows[places % total])

    def probing(self, start: int, rate: float, bound: Bound) -> Arrivals:
        """Requests from one of them on, stretched to a rate, for long enough to tell whether it keeps a bound."""
        needed = max(SLICE_REQUESTS, min_samples(lines.PERCENTILES[bound.statistic]))
        number = max(_num_requests(rate, needed), math.ceil(BOUNDS_IN_SLICE * bound.most_ns / 1e9 * rate))
        return self.part(start, number).at(rate)


def _num_requests(rate: float, most: int) -> int:
    """Requests of a slice at a rate, unless they are to last for longer."""
    return max(LEAST_REQUESTS, min(most, int(SLICE_S * rate)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bound:
    """What the latency must keep for a rate to count.

    Attributes:
        statistic: one of `lines.PERCENTILES`.
        most_ns: nanoseconds.
    """

    statistic: str
    most_ns: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Member:
    """A cell with the way in which it is served.

    Attributes:
        subject: the cell.
        setup: how it is served.
        guess: requests a second from which its highest rate is looked for; None for the rate of the arrivals.
    """

    subject: Subject
    setup: Setup = Setup()
    guess: float | None = None

    @property
    def way(self) -> tuple[str, Setup]:
        """Equal for members that stand for the same cell, served alike."""
        return self.subject.key, self.setup


@dataclasses.dataclass(frozen=True, kw_only=True)
class Failure:
    """A member that failed in a block, and the error."""

    member: Member
    error: ChildError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """What a block brought.

    Attributes:
        launches: by member, the baseline's reference and control first.
        failures: the members that failed.
    """

    launches: tuple[tuple[Member, LoadLaunch], ...]
    failures: tuple[Failure, ...]


@dataclasses.dataclass(kw_only=True)
class _Seat:
    """A member with its service, and what was seen of it.

    Attributes:
        keeps_up: whether it kept up with the arrivals in all slices.
        highest: what each search for its highest rate brought.
    """

    member: Member
    role: str
    service: Service
    state: machine.State
    keeps_up: bool = True
    runs: list[Run] = dataclasses.field(default_factory=list)
    highest: list[highest.Found] = dataclasses.field(default_factory=list)

    @property
    def cell(self) -> Cell:
        """The cell of the member."""
        return self.member.subject.cell


def run_block(
    baseline: Member,
    members: Sequence[Member],
    slices: Sequence[Arrivals],
    limits: Limits,
    bounds: Bounds,
    *,
    rate: float | None,
    bound: Bound | None = None,
    probed: Arrivals | None = None,
    starts: Sequence[int] = (),
    out_of_time: Callable[[], bool] = lambda: False,
    on_step: Callable[[Cell, str], None] = lambda _, __: None,
) -> Result:
    """Serve the same arrivals by some cells in turn, with one launch of each cell.

    A cell that fails or that answers wrongly leaves the block; when the baseline does, nothing is kept.

    Args:
        baseline: the cell with which the others are compared; it is served twice.
        members: the other cells.
        slices: the arrivals of each pass, at least one; the first pass warms up, and does not count.
        limits: time and memory of each worker.
        bounds: when a service counts as overloaded.
        rate: requests a second that were asked for, as stored; those that arrive in a slice are more or fewer.
        bound: what the highest rates keep; None where none are looked for.
        probed: the arrivals with which highest rates are looked for.
        starts: for each pass that looks for them, the number of the arrival that comes first.
        out_of_time: asked before each pass; once it is true, the block ends early.
        on_step: told of the cell that is served next, and of the pass.
    """
    with contextlib.ExitStack() as stack, process.ended_at_once():
        driver = stack.enter_context(Driver(limits, bounds))
        block = _Block(baseline, driver, on_step)
        for member, role in turns.roles(baseline, members):
            block.open(member, role, stack, limits)
        for number, arrivals in enumerate(slices):
            if number > _MIN_PASSES and out_of_time():
                break
            block.run_pass(arrivals, f"slice {number} of {len(slices) - 1}" if number else "slice to warm up")
        for number, start in enumerate(starts):
            if number >= _MIN_PASSES and out_of_time():
                break
            assert bound is not None
            assert probed is not None
            block.find_highest(probed, start, bound, f"highest rate, pass {number + 1} of {len(starts)}")
        return block.result(rate, bound)


class _Block:
    def __init__(self, baseline: Member, driver: Driver, on_step: Callable[[Cell, str], None]) -> None:
        self._baseline, self._driver, self._on_step = baseline, driver, on_step
        self._seats: list[_Seat] = []
        self._failures: list[Failure] = []

    def open(self, member: Member, role: str, stack: contextlib.ExitStack, limits: Limits) -> None:
        state = machine.state()
        try:
            service = stack.enter_context(Service(member.subject, member.setup, limits))
        except ChildError as error:
            self._failures.append(Failure(member=member, error=error))
            return
        self._seats.append(_Seat(member=member, role=role, service=service, state=state))

    def run_pass(self, arrivals: Arrivals, name: str) -> None:
        """Serve a slice of arrivals by every service that keeps up."""

        def serve(seat: _Seat) -> None:
            if seat.keeps_up:
                seat.runs.append(self._replay(seat, arrivals))
                seat.keeps_up = _keeps_up(seat.runs)

        self._everyone(serve, name)

    def find_highest(self, arrivals: Arrivals, start: int, bound: Bound, name: str) -> None:
        """Look for the highest rate of every service at which it keeps the bound with these arrivals."""

        def find(seat: _Seat) -> None:
            def latency_ns(rate: float) -> float:
                run = self._replay(seat, arrivals.probing(start, rate, bound))
                return lines.percentile(run.served, bound.statistic) if _keeps_up([run]) else math.inf

            before = [outcome.rate for outcome in seat.highest]
            if None in before:
                return  # a launch has a highest rate where all passes have
            guess = (before[-1] if before else seat.member.guess) or _first_guess(seat, arrivals)
            seat.highest.append(highest.search(latency_ns, bound.most_ns, guess))

        self._everyone(find, name)

    def _everyone(self, act: Callable[[_Seat], None], name: str) -> None:
        """Act on every service, in random order; a service that fails leaves the block."""

        turns.take(self._seats, act, self._leave, on_turn=lambda seat: self._on_step(seat.cell, name))

    def _leave(self, seat: _Seat, error: ChildError) -> None:
        self._failures.append(Failure(member=seat.member, error=error))
        self._seats.remove(seat)

    def _replay(self, seat: _Seat, arrivals: Arrivals) -> Run:
        rows = arrivals.rows % seat.service.num_rows
        return self._driver.replay(seat.service, arrivals.due_ns, rows).must_be_right()

    def result(self, rate: float | None, bound: Bound | None) -> Result:
        """The launches; none where the baseline is not there twice."""
        failures = tuple(self._failures)
        if not {REFERENCE, CONTROL} <= {seat.role for seat in self._seats}:
            return Result(launches=(), failures=failures)
        shared: dict[str, object] = {
            **turns.block_fields(self._baseline.subject.cell),
            "rate": rate,
            "bound": (bound.statistic, bound.most_ns) if bound is not None else None,
        }
        launches = tuple((seat.member, _launch(seat, shared)) for seat in turns.ordered(self._seats))
        return Result(launches=launches, failures=failures)


def _keeps_up(runs: Sequence[Run]) -> bool:
    """Whether a service keeps up with the arrivals of all runs together."""
    if any(run.gave_up is not None for run in runs):
        return False
    answered = sum(len(run.served.due_ns) for run in runs)
    asked_s = sum(run.served.asked_s for run in runs)
    # An answer takes as long as it takes where nobody waits, however few requests come.
    alone_s = min(float(run.served.latency_ns.min()) for run in runs) / 1e9
    took_s = sum(run.served.took_s - alone_s for run in runs)
    return answered < LEAST_REQUESTS or asked_s >= KEPT_SHARE * took_s


def _first_guess(seat: _Seat, arrivals: Arrivals) -> float:
    """The rate of the arrivals, or what a service answers that does not keep up with them."""
    served = seat.runs[-1].served
    keeps_up = seat.keeps_up or not len(served.due_ns)
    return arrivals.rate if keeps_up else len(served.due_ns) / served.took_s


def _launch(seat: _Seat, shared: dict[str, object]) -> LoadLaunch:
    counted = seat.runs[1:] if seat.keeps_up else []
    rates = [outcome.rate for outcome in seat.highest]
    fields = {
        **shared,
        **(lines.figures(counted) if counted else {}),
        "launch": turns.new_id(),
        "role": seat.role,
        **seat.service.setup.as_fields(),
        "highest_ns": () if None in rates else tuple(int(1e9 / rate) for rate in rates if rate is not None),
        "curve": [_point(probe) for outcome in seat.highest for probe in outcome.probes],
        "fall": next(([*map(_point, outcome.fall)] for outcome in seat.highest if outcome.fall), None),
        "checked": sum(run.checked for run in seat.runs),
        "machine": seat.state,
    }
    return msgspec.convert(fields, LoadLaunch)


def _point(probe: highest.Probe) -> lines.Point:
    return probe.rate, int(probe.latency_ns) if math.isfinite(probe.latency_ns) else None
