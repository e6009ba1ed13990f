"""`bench load`: verified cells as services, alone under MLPerf's scenarios, and in turns under the same arrivals."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from bench.api.cell import Cell
from bench.api.errors import ChildError, InputError
from bench.api.program import ProgramRuntime
from bench.features.load import capacity, lines, loadgen, paired, sporadic
from bench.features.load.lines import LoadRun, launches_of
from bench.features.load.paired import Arrivals, Bound, Member
from bench.features.load.scenarios import USUAL_S, Demand
from bench.features.load.served import Run
from bench.features.load.service import Bounds, Driver, Service, Setup
from bench.measure.comparison import REFERENCE
from bench.measure.ledgers import Group
from bench.measure.limits import Limits
from bench.measure.subject import Subject
from bench.measure.turns import new_id
from bench.pipeline import prepare
from bench.pipeline.sweep_options import Observer
from bench.plugins import catalog
from bench.records.store import Record, Store

LOGS = "loadgen"
"""Folder, beside the records, of the load generator's logs: one folder for each run."""
USUAL_SHARE = 0.7
"""Share of the baseline's capacity at which services are compared, unless a rate is given."""
_USUAL_LATENCY = 10.0
"""Bound on the latency in the server scenario over the baseline's when none waits, unless a bound is given."""
NUM_SLICES = 6
"""Slices of a launch, besides the first, which warms up."""
NUM_PROBING = 2
"""Passes of a launch that look for the highest rate."""
_PROBING_PLACES = 7
"""Places of the arrivals, evenly apart, at which these passes begin, one after the other."""
OVERLOADED = "overloaded: more requests waited than a service keeps"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asked:
    """What `bench load` is asked for.

    Attributes:
        scenarios: which of `loadgen.SCENARIOS` to run; the arrivals of `server` are those of the comparison.
        sporadic: seconds of the longest idleness before a request that comes alone; None for no such requests.
        rate: requests a second; None for `USUAL_SHARE` of the baseline's capacity.
        latency_ns: bound on the latency for which the highest rate is looked for, and which the server scenario keeps;
            None for no such search, and `_USUAL_LATENCY` times the baseline's in the server scenario.
        duration_s: seconds that each scenario takes at least.
        setup: how each cell is served.
        bounds: when a run is given up.
        most_launches: most blocks of the comparison.
        budget_s: seconds for the comparison; None is no limit.
    """

    scenarios: Sequence[str] = (loadgen.SERVER,)
    sporadic: float | None = None
    rate: float | None = None
    latency_ns: float | None = None
    duration_s: float = USUAL_S
    setup: Setup = Setup()
    bounds: Bounds = Bounds()
    most_launches: int = 5
    budget_s: float | None = None

    @property
    def bound(self) -> Bound | None:
        """What the highest rates keep."""
        if self.latency_ns is None:
            return None
        return Bound(statistic=lines.bounded(self.latency_ns), most_ns=int(self.latency_ns))


class Services:
    """What measures the cells of a sweep as services under load: see `Sweep`.

    Args:
        store: where the results are stored.
        limits: time and memory of each worker.
        observer: told of every step.
        load: what is asked for.
    """

    def __init__(self, store: Store, limits: Limits, observer: Observer, load: Asked) -> None:
        self._store, self._limits, self._observer = store, limits, observer
        self._asked = load
        self._began_s = time.monotonic()

    def measure(self, groups: Sequence[Group]) -> None:
        """Measure the verified cells of each group beside its baseline."""
        self._observer.stage("measure", sum(len(group.ledgers) for group in groups))
        for group in groups:
            baseline = group.baseline.subject
            others = [ledger.subject for ledger in group.ledgers if ledger.subject.key != baseline.key]
            self._began_s = time.monotonic()
            demand = self._demand(baseline)
            run = self._alone(baseline, demand) if demand is not None else None
            if demand is None or run is None or run.gave_up is not None:
                why = "failed" if demand is None or run is None else f"is overloaded at {demand.rate:.4g} requests/s"
                for subject in others:
                    self._keep_run(self._member(subject), loadgen.SERVER, f"its baseline {baseline.cell} {why}")
                continue
            sound = [subject for subject in others if self._alone(subject, demand) is not None]
            if sound or self._asked.bound is not None:
                first, *rest = map(self._member, (baseline, *sound))
                self._compare(first, rest, Arrivals.of(run.served), demand.rate)

    def _member(self, subject: Subject) -> Member:
        return Member(subject=subject, setup=self._setup(subject))

    def _setup(self, subject: Subject) -> Setup:
        """How a cell is served: what its runtime is not made for in one worker is done by several."""
        setup = self._asked.setup
        if setup.sessions > 1 and not catalog.runtime(subject.cell.runtime).runs_sessions_at_once():
            return dataclasses.replace(setup, instances=setup.at_once, sessions=1)
        return setup

    def _out_of_time(self) -> bool:
        return self._asked.budget_s is not None and time.monotonic() - self._began_s >= self._asked.budget_s

    def _demand(self, baseline: Subject) -> Demand | None:
        """What is asked of all services of a group; None where the baseline fails.

        Without a rate, that of the last turns over the baseline is used again, so that launches add up.
        """
        load, member = self._asked, self._member(baseline)
        try:
            with self._served(baseline, member.setup) as (driver, service):
                ends, setup = capacity.measure(driver, service), service.setup
        except ChildError as error:
            self._keep_run(member, loadgen.SERVER, error.reason)
            return None
        stored = [launch for launch in launches_of(self._stored(baseline)) if launch.role == REFERENCE]
        before = [launch.rate for launch in stored if launch.rate is not None and Setup.of(launch) == setup]
        return Demand(
            latency_ns=ends.latency_ns,
            rate=load.rate or (before[-1] if before else USUAL_SHARE * ends.rate),
            most_latency_ns=load.latency_ns or _USUAL_LATENCY * ends.latency_ns,
            duration_s=load.duration_s,
            num_tokens=_num_tokens(baseline),
        )

    def _stored(self, subject: Subject) -> Record:
        record = self._store.read(subject.key)
        assert record is not None  # since it was verified
        return record

    @contextlib.contextmanager
    def _served(self, subject: Subject, setup: Setup) -> Iterator[tuple[Driver, Service]]:
        with (
            Driver(self._limits, self._asked.bounds) as driver,
            Service(subject, setup, self._limits) as service,
        ):
            yield driver, service

    def _alone(self, subject: Subject, demand: Demand) -> Run | None:
        """Run the scenarios with one service.

        Returns:
            What the server scenario brought, also where the service could not keep up; None where it failed.
        """
        server_run: Run | None = None
        scenario, member = loadgen.SERVER, self._member(subject)
        try:
            with self._served(subject, member.setup) as (driver, service):
                if loadgen.OFFLINE in self._asked.scenarios:
                    demand = dataclasses.replace(demand, capacity=capacity.measure(driver, service).rate)
                for scenario in dict.fromkeys((loadgen.SERVER, *self._asked.scenarios)):
                    run = self._run(driver, service, scenario, demand)
                    server_run = run if scenario == loadgen.SERVER else server_run
            if self._asked.sporadic is not None:
                scenario = sporadic.SCENARIO
                with Driver(self._limits, self._asked.bounds) as driver:
                    alone = sporadic.measure(
                        subject, driver, self._limits, run=new_id(), longest_s=self._asked.sporadic
                    )
                self._store.append(subject.key, alone)
        except ChildError as error:
            self._keep_run(member, scenario, error.reason, demand)
            return None
        return server_run

    def _run(self, driver: Driver, service: Service, scenario: str, demand: Demand) -> Run | None:
        """Run one scenario and store what the load generator says; None where its answers are wrong."""
        name = new_id()
        folder = self._store.folder / LOGS / name
        folder.mkdir(parents=True)
        settings, most_s = demand.settings(scenario), demand.longest_s(scenario)
        run = driver.drive(service, scenario, settings, folder, most_s, num_tokens=demand.num_tokens)
        try:
            summary = loadgen.summary(folder)
        except (OSError, ValueError) as error:
            raise ChildError("error", f"the load generator told nothing: {error}") from error
        wrong = f"{run.wrong} of {run.checked} answers under load were wrong" if run.wrong else ""
        reason = wrong or (OVERLOADED if run.gave_up else summary.reason)
        answered = run.served if len(run.served.due_ns) else None
        counted = None if wrong or run.gave_up else answered  # a run that was given up is void
        line = self._line(
            service.setup,
            run=name,
            scenario=scenario,
            settings=settings,
            is_valid=summary.is_valid and not reason,
            reason=reason,
            figures=summary.figures if counted else {},
            shape_ns=lines.shape(counted.latency_ns) if counted else (),
            joules=run.joules / len(counted.due_ns) if counted and run.joules is not None else None,
            joules_of=run.joules_of,
            checked=run.checked,
            wrong=run.wrong,
            **(lines.timeline(answered) if answered else {}),
        )
        self._store.append(service.subject.key, line)
        self._observer.cell(service.subject.cell, f"{scenario}: {'valid' if line.is_valid else line.reason}")
        return None if wrong else run

    def _keep_run(self, member: Member, scenario: str, reason: str, demand: Demand | None = None) -> None:
        """Store that a service failed under load."""
        known = demand is not None and scenario in loadgen.SCENARIOS
        line = self._line(
            member.setup,
            run=new_id(),
            scenario=scenario,
            settings=demand.settings(scenario) if demand is not None and known else {},
            is_valid=False,
            reason=reason,
        )
        self._store.append(member.subject.key, line)
        self._observer.cell(member.subject.cell, f"failed: {reason}")

    def _line(self, setup: Setup, **fields: object) -> LoadRun:
        return msgspec.convert({**setup.as_fields(), **fields}, LoadRun)

    def _compare(self, baseline: Member, members: Sequence[Member], arrivals: Arrivals, rate: float) -> None:
        """Serve the same arrivals by all services in turns, until the launches or the time are used up."""
        load = self._asked
        slices = arrivals.slices()
        for number in range(load.most_launches):
            if number and self._out_of_time():
                return
            turned = [slices[(number + index) % len(slices)] for index in range(NUM_SLICES + 1)]
            result = paired.run_block(
                baseline,
                members,
                turned,
                self._limits,
                load.bounds,
                rate=rate,
                bound=load.bound,
                probed=arrivals,
                starts=starts(arrivals, number) if load.bound is not None else (),
                out_of_time=self._out_of_time,
                on_step=self._observer.cell,
            )
            members = self._keep_block(result, members)
            if not result.launches:
                return

    def _keep_block(self, result: paired.Result, members: Sequence[Member]) -> list[Member]:
        """Store what a block brought; returns the members that did not fail."""
        for member, line in result.launches:
            self._store.append(member.subject.key, line)
        for failure in result.failures:
            self._keep_run(failure.member, paired.FAILED, failure.error.reason)
        self._observer.measured([member.subject.cell for member, _ in result.launches])
        gone = {failure.member.way for failure in result.failures}
        return [member for member in members if member.way not in gone]


def _num_tokens(subject: Subject) -> int:
    """Tokens of each answer of a cell that generates texts of several; 0 for other cells."""
    request = catalog.task(subject.cell.task).request
    return request.num_new if request is not None and request.num_new > 1 else 0


def servable(cells: Sequence[Cell], *, say: Callable[[str], object]) -> list[Cell]:
    """The cells that can be services: those whose runtime is a program beside the worker time themselves alone.

    Args:
        cells: the cells.
        say: called with a line that names the runtimes whose cells are left out, if there are any.

    Raises:
        InputError: none can be.
    """
    services = [cell for cell in cells if not isinstance(catalog.runtime(cell.runtime), ProgramRuntime)]
    programs = sorted({str(cell.runtime) for cell in cells} - {str(cell.runtime) for cell in services})
    if programs:
        cannot = f"{', '.join(programs)}: `bench load` sends no requests to a program of its own, which times itself"
        if not services:
            raise InputError(cannot, fix="name cells of other runtimes")
        say(f"Left out: {cannot}")
    return services


def notes_on_several(cells: Iterable[Cell]) -> list[str]:
    """What runtimes say of several sessions or workers at once, each once; see `Runtime.note_on_several`."""
    runs = dict.fromkeys((cell.runtime, cell.provider) for cell in cells if prepare.skip_reason(cell) is None)
    return [note for runtime, provider in runs if (note := catalog.runtime(runtime).note_on_several(str(provider)))]


def starts(arrivals: Arrivals, number: int) -> list[int]:
    """For each pass of a launch that looks for highest rates, which arrival comes first: another one in each pass."""
    passes = range(number * NUM_PROBING, (number + 1) * NUM_PROBING)
    return [len(arrivals.due_ns) * each // _PROBING_PLACES % len(arrivals.due_ns) for each in passes]
