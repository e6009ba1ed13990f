"""The lines of services under load: what requests waited, slice by slice, and the runs of single services."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias

import msgspec
import numpy as np

from bench.features.load.served import Run, Served
from bench.measure.launch import Count, Duration, Sample, Share
from bench.measure.machine import State
from bench.records.line_fault import Fault, of_facts
from bench.records.lines import FeatureLine

if TYPE_CHECKING:
    from bench.records.store import Record

P50, P90, P99 = "p50", "p90", "p99"
HIGHEST = "highest_rate"
"""The statistic of a launch's highest rates: the time between two requests, so that less is better as in latencies."""
PERCENTILES = {P50: 50.0, P90: 90.0, P99: 99.0}
"""The statistics of a slice, and the percentile that each of them is."""
_LONG_NS = 50_000_000
"""Bound on the latency above which its 90th percentile is bounded: slow services get too few requests for the 99th."""
SHAPE = (0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 97.0, 99.0, 99.5, 99.9, 100.0)
"""Percentiles of all slices together, which pictures show."""
TIMELINE = 240
"""Points of time at which a picture shows the queue of a run."""

Rate: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
"""Requests a second."""
Point: TypeAlias = tuple[Rate, Sample | None]
"""A rate, and the nanoseconds of the bounded percentile there; None where the service could not keep up."""


class LoadLaunch(FeatureLine, frozen=True, kw_only=True, tag="load_launch"):
    """The figures of one launch under load, as they are measured and as they are stored.

    Attributes:
        launch: an identifier of its own.
        block: the identifier of the block, shared by all services that took turns under the same arrivals.
        role: `reference`, `control` or `cell`, see `bench.measure.comparison`.
        reference: path of the baseline that the block's launches are compared with.
        instances: number of workers.
        sessions: sessions of each worker, which answer at the same time.
        max_batch: most requests of an inference.
        max_delay_ns: time that the first of them waited for others at most.
        rate: requests a second that were asked for; None where the highest rates alone were looked for.
        slices_ns: by statistic, its value in each slice of the arrivals; empty where the service could not keep up.
        requests: number of requests of each slice.
        shape_ns: latency at each percentile of `SHAPE`, over all slices.
        overhead_ns: median time that the harness took of a request; None without slices, or where requests wait on
            purpose for others to share their inference.
        mean_batch: mean number of requests of an inference.
        bound: the percentile that is bounded, and its most nanoseconds; None where no highest rate was looked for.
        highest_ns: for each pass, time between two requests at the highest rate within the bound; empty where none is.
        curve: the rates that were tried, in requests a second, each with the nanoseconds of the bounded percentile
            there; None where the service could not keep up.
        fall: two points of the curve of which the second has a higher rate and less latency, also when they are tried
            again, so that no rate is the highest; None where there are none.
        joules: energy of the machine for each answer in the slices; None where the machine does not count it.
        joules_of: what that is the energy of, such as `package-0` and `gpu-0`.
        checked: answers that were held against those of the idle service.
        wrong: those of them that were wrong.
        machine: state of the machine just before the workers were started.
        steal_share: as of `bench.measure.launch.Launch`.
        time: when the launch was stored (ISO 8601); None before that.
    """

    is_launch: ClassVar[bool] = True

    launch: str
    block: str
    role: str
    reference: str
    instances: Annotated[int, msgspec.Meta(ge=1)]
    sessions: Annotated[int, msgspec.Meta(ge=1)] = 1
    max_batch: Annotated[int, msgspec.Meta(ge=1)] = 1
    max_delay_ns: Duration = 0
    rate: Rate | None
    slices_ns: Mapping[str, tuple[Sample, ...]] = {}
    requests: tuple[Count, ...] = ()
    shape_ns: tuple[Sample, ...] = ()
    overhead_ns: Duration | None = None
    mean_batch: Annotated[float, msgspec.Meta(ge=1)] = 1.0
    bound: tuple[str, Sample] | None = None
    highest_ns: tuple[Sample, ...] = ()
    curve: tuple[Point, ...] = ()
    fall: tuple[Point, Point] | None = None
    joules: Annotated[float, msgspec.Meta(ge=0)] | None = None
    joules_of: tuple[str, ...] = ()
    checked: Count = 0
    wrong: Count = 0
    machine: State | None = None
    steal_share: Share | None = None
    time: str | None = None

    @property
    def identity(self) -> str:
        """See `FeatureLine`."""
        return self.launch

    def faults(self) -> Iterator[Fault]:
        """See `FeatureLine`."""
        if self.slices_ns and {*self.slices_ns} != {*PERCENTILES}:
            yield Fault(field="slices_ns", reason=f"it is not of {', '.join(PERCENTILES)}")
        if {len(values) for values in self.slices_ns.values()} - {len(self.requests)}:
            yield Fault(field="slices_ns", reason="it has another number of slices than requests")
        if self.slices_ns and len(self.shape_ns) != len(SHAPE):
            yield Fault(field="shape_ns", reason=f"it has not {len(SHAPE)} percentiles")
        if self.bound is not None and self.bound[0] not in PERCENTILES:
            yield Fault(field="bound", reason=f"{self.bound[0]!r} is no percentile")
        if self.highest_ns and self.bound is None:
            yield Fault(field="highest_ns", reason="there is no bound")
        if self.machine is not None:
            yield from of_facts("machine", dataclasses.asdict(self.machine))

    def of(self, statistic: str) -> Seen:
        """This launch as the model of the measurement sees it, by one of `PERCENTILES` or by `HIGHEST`."""
        values = tuple(map(float, self.highest_ns if statistic == HIGHEST else self.slices_ns.get(statistic, ())))
        lost_share = min(1.0, self.steal_share or 0.0)
        return Seen(block=self.block, role=self.role, time=self.time, medians_ns=values, lost_share=lost_share)


class LoadRun(FeatureLine, frozen=True, kw_only=True, tag="load_run"):
    """A scenario that the load generator of MLPerf ran with one service, alone.

    Attributes:
        run: an identifier of its own, and the name of the folder with the load generator's logs.
        scenario: one of `bench.features.load.loadgen.SCENARIOS`.
        instances: as of `LoadLaunch`.
        sessions: as of `LoadLaunch`.
        max_batch: as of `LoadLaunch`.
        max_delay_ns: as of `LoadLaunch`.
        settings: the load generator's settings that are not its defaults, by name.
        is_valid: whether the run counts by the rules of the load generator.
        reason: why it does not; empty where it counts.
        figures: every figure of the load generator's summary, by its name there.
        shape_ns: latency at each percentile of `SHAPE`, as the client saw it; empty where no request was answered.
        waiting: requests that were sent and not answered, at `TIMELINE` times that divide the run evenly.
        batches: requests of the inference that ran at these times; 0 where none did.
        joules: as of `LoadLaunch`.
        joules_of: as of `LoadLaunch`.
        checked: as of `LoadLaunch`.
        wrong: as of `LoadLaunch`.
        time: when the run was stored (ISO 8601); None before that.
    """

    run: str
    scenario: str
    instances: Annotated[int, msgspec.Meta(ge=1)]
    sessions: Annotated[int, msgspec.Meta(ge=1)] = 1
    max_batch: Annotated[int, msgspec.Meta(ge=1)] = 1
    max_delay_ns: Duration = 0
    settings: Mapping[str, float] = {}
    is_valid: bool
    reason: str = ""
    figures: Mapping[str, float] = {}
    shape_ns: tuple[Sample, ...] = ()
    waiting: tuple[Count, ...] = ()
    batches: tuple[Count, ...] = ()
    joules: Annotated[float, msgspec.Meta(ge=0)] | None = None
    joules_of: tuple[str, ...] = ()
    checked: Count = 0
    wrong: Count = 0
    time: str | None = None

    @property
    def identity(self) -> str:
        """See `FeatureLine`."""
        return self.run

    def faults(self) -> Iterator[Fault]:
        """See `FeatureLine`."""
        if self.shape_ns and len(self.shape_ns) != len(SHAPE):
            yield Fault(field="shape_ns", reason=f"it has not {len(SHAPE)} percentiles")
        if len(self.waiting) != len(self.batches):
            yield Fault(field="waiting", reason="it has another number of times than batches")
        yield from of_facts("settings", self.settings)
        yield from of_facts("figures", self.figures)


class Sporadic(FeatureLine, frozen=True, kw_only=True, tag="sporadic"):
    """Latencies of requests that come alone, as they are measured and as they are stored.

    Attributes:
        run: an identifier of its own.
        after_ns: latencies by what was before each request: `busy` for a request right after the answer to another,
            seconds of idleness as in `sporadic.IDLE_S`, and `other work` that used the caches, up to half a second
            before.
        cold_start_ns: from the start of a worker's process to its first answer.
        time: when it was stored (ISO 8601); None before that.
    """

    run: str
    after_ns: Mapping[str, tuple[Sample, ...]]
    cold_start_ns: tuple[Sample, ...]
    time: str | None = None


KINDS = (LoadLaunch, LoadRun, Sporadic)
"""The kinds of lines of this feature."""


def launches_of(record: Record) -> tuple[LoadLaunch, ...]:
    """The launches of a cell as a service that took turns with others."""
    return record.of(LoadLaunch)


def runs_of(record: Record) -> tuple[LoadRun, ...]:
    """The scenarios that the load generator of MLPerf ran with a cell."""
    return record.of(LoadRun)


def sporadic_of(record: Record) -> Sporadic | None:
    """The latencies of requests to a cell that come alone, as they were measured last."""
    return next(iter(record.of(Sporadic)), None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Seen:
    """What the model of the measurement needs of a launch; see `bench.measure.launch.Launch`."""

    block: str
    role: str
    time: str | None
    medians_ns: tuple[float, ...]
    place: str | None = None
    lost_share: float = 0.0


def figures(runs: Sequence[Run]) -> dict[str, object]:
    """The fields of `LoadLaunch` that follow from what was served in each slice."""
    slices = [run.served for run in runs]
    together = np.concatenate([served.latency_ns for served in slices])
    batches = sum(float((1 / served.batch).sum()) for served in slices)
    overhead_ns = np.concatenate([served.overhead_ns() for served in slices])
    joules = [run.joules for run in runs if run.joules is not None]
    return {
        "slices_ns": {name: tuple(int(percentile(served, name)) for served in slices) for name in PERCENTILES},
        "requests": tuple(len(served.due_ns) for served in slices),
        "shape_ns": shape(together),
        # A worker that waits for others to share its inference does so on purpose.
        "overhead_ns": None if any(run.delay_ns for run in runs) else max(0, int(np.median(overhead_ns))),
        "mean_batch": len(together) / batches,
        "joules": sum(joules) / len(together) if len(joules) == len(runs) else None,
        "joules_of": runs[-1].joules_of,
    }


def bounded(most_ns: float) -> str:
    """The one of `PERCENTILES` of which a bound on the latency, in nanoseconds, is a bound."""
    return P90 if most_ns > _LONG_NS else P99


def percentile(served: Served, statistic: str) -> float:
    """A latency of `PERCENTILES`, in nanoseconds."""
    return _percentile(served.latency_ns, PERCENTILES[statistic])


def timeline(served: Served) -> dict[str, tuple[int, ...]]:
    """The fields `waiting` and `batches` of `LoadRun`."""
    sent, received = np.sort(np.r_[served.sent_ns, served.lost_ns]), np.sort(served.received_ns)
    times = np.linspace(sent[0], max(sent[-1], received[-1]), TIMELINE)
    waiting = np.searchsorted(sent, times, "right") - np.searchsorted(received, times, "right")
    order = np.argsort(served.start_ns, kind="stable")
    last = np.searchsorted(served.start_ns[order], times, "right") - 1
    running = order[np.maximum(last, 0)]
    batches = np.where((last >= 0) & (served.end_ns[running] >= times), served.batch[running], 0)
    return {"waiting": tuple(waiting.tolist()), "batches": tuple(batches.tolist())}


def shape(latency_ns: np.ndarray) -> tuple[int, ...]:
    """The latency at each percentile of `SHAPE`."""
    return tuple(int(_percentile(latency_ns, percent)) for percent in SHAPE)


def _percentile(values: np.ndarray, percent: float) -> float:
    return float(np.percentile(values, percent, method="inverted_cdf"))
