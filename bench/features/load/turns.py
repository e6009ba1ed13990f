"""Services that took turns under the same arrivals, compared by the model of the measurement."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence

from bench.api.cell import Cell
from bench.api.names import TaskName
from bench.features.load.lines import HIGHEST, P90, P99, PERCENTILES, SHAPE, LoadLaunch, LoadRun, launches_of, runs_of
from bench.features.load.paired import FAILED
from bench.features.load.service import Setup
from bench.measure import comparison
from bench.measure.comparison import REFERENCE, Comparison, Fitted, Group, Series
from bench.measure.stats import Estimate, min_samples
from bench.records.store import Record

STATISTICS = (*PERCENTILES, HIGHEST)


@dataclasses.dataclass(frozen=True, order=True, kw_only=True)
class Way:
    """A cell and how it is served."""

    cell: Cell
    setup: Setup

    @classmethod
    def of(cls, cell: Cell, line: LoadLaunch | LoadRun) -> Way:
        """The way of a stored line of a cell."""
        return cls(cell=cell, setup=Setup.of(line))

    def __str__(self) -> str:
        return f"{self.cell} {self.setup!r}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Turns:
    """Services that took turns under the same arrivals.

    Attributes:
        baseline: what the others are compared with.
        rate: requests a second of the slices; None where highest rates alone were looked for.
        bound: percentile and most nanoseconds that the highest rates keep; None where none were looked for.
        launches: the launches of each service.
        failures: why the services failed that have not been launched since; these have no figures.
        fits: by statistic of `STATISTICS`, what the model of the measurement makes of them.
    """

    baseline: Way
    rate: float | None
    bound: tuple[str, int] | None
    launches: Mapping[Way, Sequence[LoadLaunch]]
    failures: Mapping[Way, str]
    fits: Mapping[str, Fitted]

    @property
    def time(self) -> str:
        """When its last launch was stored (ISO 8601)."""
        return max(launch.time or "" for launches in self.launches.values() for launch in launches)

    @property
    def is_plan(self) -> bool:
        """Whether highest rates alone were looked for."""
        return self.rate is None

    @property
    def tail(self) -> str:
        """The percentile that tells of slow answers: the 99th, or the 90th where no service has enough requests."""
        return P99 if any(_has_enough(launch, P99) for lines in self.launches.values() for launch in lines) else P90

    def latency_ns(self, way: Way, statistic: str) -> Estimate | None:
        """A percentile of the latency of all requests of a launch, in nanoseconds.

        The percentile of a slice is less, for it has few requests and begins with nobody waiting; what it is over that
        of another service is not. So the slices tell the interval alone.

        Returns:
            None where the service failed, could not keep up in some launch, or had too few requests to tell.
        """
        fitted = self.fits[statistic].latency_ns(str(way))
        if fitted is None:
            return None
        place = SHAPE.index(PERCENTILES[statistic])
        value = statistics.geometric_mean([launch.shape_ns[place] for launch in self.launches[way]])
        return Estimate(value=value, low=value * fitted.low / fitted.value, high=value * fitted.high / fitted.value)

    def lacking(self, way: Way, statistic: str) -> int:
        """The number of a service's launches that have no such figure, as it could not keep up or kept no bound."""
        return sum(not launch.of(statistic).medians_ns for launch in self.launches[way])

    def over_baseline(self, way: Way, statistic: str) -> Comparison:
        """A statistic over the baseline's; of the highest rate, the time between two requests over the baseline's."""
        return self.fits[statistic].against_baseline(str(way))

    def not_lower_than(self, best: Way) -> list[Way]:
        """The other services that hold some rate, and whose highest rate was not shown to be below that of one."""
        fitted = self.fits[HIGHEST]
        periods = {way: fitted.between(str(way), str(best)).ratio for way in self.launches if way != best}
        return [way for way, ratio in periods.items() if ratio is not None and ratio.low <= 1]

    def highest_rate(self, way: Way) -> Estimate | None:
        """Requests a second at the bound; None where it, or its baseline, holds none."""
        period = self.fits[HIGHEST].latency_ns(str(way))
        return _inverse(period, 1e9) if period is not None else None

    def rate_seen(self, way: Way) -> float | None:
        """The median of the highest rates of a service's passes, whatever its baseline did.

        None where it failed, or has none in some launch.
        """
        if way in self.failures or self.lacking(way, HIGHEST):
            return None
        periods = [ns for launch in self.launches[way] for ns in launch.highest_ns]
        return 1e9 / statistics.median(periods) if periods else None

    def best(self, deployment: Cell | None = None) -> Way | None:
        """The service with the highest rate; None where none keeps the bound.

        Args:
            deployment: the cell, with any number of threads, whose services count; None for all.
        """
        rates = {way: highest.value for way in self.launches if (highest := self.highest_rate(way)) is not None}
        if deployment is not None:
            rates = {way: rate for way, rate in rates.items() if with_any_threads(way.cell) == deployment}
        return max(rates, key=rates.__getitem__) if rates else None

    def highest_over_baseline(self, way: Way) -> Estimate | None:
        """The highest rate over the baseline's."""
        ratio = self.over_baseline(way, HIGHEST).ratio
        return _inverse(ratio, 1.0) if ratio is not None else None


def _inverse(estimate: Estimate, of: float) -> Estimate:
    return Estimate(value=of / estimate.value, low=of / estimate.high, high=of / estimate.low)


def turns(records: Mapping[str, Record]) -> list[Turns]:
    """All that took turns, in the order in which they were measured last.

    Args:
        records: the current record of each cell path.
    """
    lines = [(Way.of(record.cell, line), line) for record in records.values() for line in launches_of(record)]
    of_block = {line.block: _Condition(way, line.rate, line.bound) for way, line in lines if line.role == REFERENCE}
    by_condition: dict[_Condition, dict[Way, list[LoadLaunch]]] = {}
    for way, line in lines:
        if line.block in of_block:
            by_condition.setdefault(of_block[line.block], {}).setdefault(way, []).append(line)
    if not by_condition:
        return []
    conditions = list(by_condition)
    failures = _failures(records)
    failed = [
        {
            way: failures[way][1]
            for way, lines in by_condition[condition].items()
            if way in failures and _is_last(failures[way], lines)
        }
        for condition in conditions
    ]
    groups = [
        _group(condition, by_condition[condition], statistic, gone)
        for condition, gone in zip(conditions, failed, strict=True)
        for statistic in STATISTICS
    ]
    # The noise of a percentile says nothing of that of another: each statistic is fitted on its own.
    fits = {statistic: comparison.fit(groups[place :: len(STATISTICS)]) for place, statistic in enumerate(STATISTICS)}
    every = [
        Turns(
            baseline=condition.baseline,
            rate=condition.rate,
            bound=condition.bound,
            launches=by_condition[condition],
            failures=failed[place],
            fits={statistic: fits[statistic][place] for statistic in STATISTICS},
        )
        for place, condition in enumerate(conditions)
    ]
    return sorted(every, key=lambda each: each.time)


def newest(all_turns: Iterable[Turns], cells: Collection[Cell], *, plan: bool) -> list[Turns]:
    """Of what took turns, the last of each request with some of the cells; of plans, the last of each task."""
    last: dict[object, Turns] = {}
    for each in all_turns:
        if each.is_plan == plan and any(way.cell in cells for way in each.launches):
            last[each.baseline.cell.task if plan else each.baseline.cell.group] = each
    return list(last.values())


def last(records: Mapping[str, Record], cells: Collection[Cell]) -> list[Turns]:
    """The last turns of each request with some of the cells, and the last plan of each task, task by task.

    Each task's are compared on their own, as when they were measured.

    Args:
        records: the current record of each cell path.
        cells: the cells.
    """
    last: list[Turns] = []
    for task in dict.fromkeys(cell.task for cell in cells):
        all_turns = turns({path: record for path, record in records.items() if record.cell.task == task})
        last += [each for plan in (False, True) for each in newest(all_turns, cells, plan=plan)]
    return last


def plan_of(records: Mapping[str, Record], task: str) -> Turns | None:
    """The last plan of a task; None where there is none, or none of its ways to serve keeps the bound."""
    name = TaskName.parse(task)
    of_task = {path: record for path, record in records.items() if record.cell.task == name and launches_of(record)}
    plans = [plan for plan in turns(of_task) if plan.is_plan]
    return plans[-1] if plans and plans[-1].best() is not None else None


def as_service(plan: Turns, cell: Cell) -> dict[str, object] | None:
    """How a plan serves the deployment of a cell best, as its recipe keeps it; None where the plan has no way to."""
    best = plan.best(with_any_threads(cell))
    highest = plan.highest_rate(best) if best is not None else None
    if best is None or highest is None or plan.bound is None:
        return None
    statistic, most_ns = plan.bound
    return {
        **best.setup.as_fields(),
        "threads": best.cell.threads,
        "highest_rate": dataclasses.asdict(highest),
        "bound": {"statistic": statistic, "most_ns": most_ns},
    }


def with_any_threads(cell: Cell) -> Cell:
    """A cell that stands for the same deployment with any number of threads."""
    return dataclasses.replace(cell, threads=1)


@dataclasses.dataclass(frozen=True)
class _Condition:
    baseline: Way
    rate: float | None
    bound: tuple[str, int] | None


def _group(
    condition: _Condition, launches: Mapping[Way, Sequence[LoadLaunch]], statistic: str, failed: Collection[Way]
) -> Group:
    """What the model sees of a statistic: no launch of a service that has the figure in some launches alone.

    Those would be the launches in which it did well.
    """
    series = {
        way: Series(
            name=str(way),
            program=way.cell.runtime.listed,
            launches=[launch.of(statistic) for launch in lines]
            if way not in failed and _is_told(lines, statistic)
            else [],
        )
        for way, lines in launches.items()
    }
    return Group(baseline=series[condition.baseline], cells=list(series.values()))


def _is_told(lines: Sequence[LoadLaunch], statistic: str) -> bool:
    return all(launch.of(statistic).medians_ns and _has_enough(launch, statistic) for launch in lines)


def _has_enough(launch: LoadLaunch, statistic: str) -> bool:
    """Whether a launch has as many requests as a percentile needs; a highest rate has its own."""
    return statistic == HIGHEST or sum(launch.requests) >= min_samples(PERCENTILES[statistic])


def _failures(records: Mapping[str, Record]) -> dict[Way, tuple[str, str]]:
    """The time and the reason of the last failure of each service while services took turns."""
    lines = [(Way.of(record.cell, line), line) for record in records.values() for line in runs_of(record)]
    return {way: (line.time or "", line.reason) for way, line in lines if line.scenario == FAILED}


def _is_last(failure: tuple[str, str], lines: Sequence[LoadLaunch]) -> bool:
    """Whether a service was not launched since it failed."""
    return failure[0] >= max(launch.time or "" for launch in lines)


def last_runs(record: Record) -> dict[tuple[str, Way], LoadRun]:
    """The last run of each scenario, by its name and the way in which the cell was served."""
    return {(line.scenario, Way.of(record.cell, line)): line for line in runs_of(record)}
