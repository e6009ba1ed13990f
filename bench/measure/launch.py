"""One launch of a cell: the samples, times and memory that one worker process measured in one block."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Mapping
from typing import Annotated, TypeAlias

import msgspec

from bench.measure.machine import State
from bench.measure.memory import Memory

_MOST_NS = 10**18
"""The longest duration that is taken for one, 31 years."""
Duration: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_MOST_NS)]
Sample: TypeAlias = Annotated[int, msgspec.Meta(gt=0, le=_MOST_NS)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
"""Of the time of one core: several threads may wait for longer than the time that passes."""


class Launch(msgspec.Struct, frozen=True, kw_only=True, tag="launch", tag_field="kind", dict=True):
    """The figures of one launch, as they are measured and as they are stored.

    Attributes:
        launch: an identifier of its own.
        block: the identifier of the block, shared by all launches that ran side by side.
        role: `reference`, `control`, `cell` or `contender`, see `bench.measure.comparison`.
        reference: path of the baseline that the block's launches are compared with, in the block or through others.
        machine: state of the machine just before the worker was started.
        warmup_ns: samples of the first burst, which no figure uses.
        cold_ns: for each pass, the samples taken just after waking; none where an inference is long, see
            `bench.measure.clock.BurstPlan.for_inference`.
        steady_ns: for each pass, the samples from which the figures are computed.
        num_requests: number of the requests that the passes ran in turn, one in each pass.
        first_request: number of the first pass's request; its value is shared by all launches of the block.
        num_restless: number of bursts after which the worker's threads went on using the processor.
        import_ns: time to import all that opening the artifact needs, beside other workers as for `load_ns`.
        load_ns: time to open the artifact.
        first_inference_ns: time of the first inference with the opened artifact.
        loaded_beside: largest number of other workers that loaded or ran first at the same time, on cores of their own.
        steal_share: share of the machine's time in which a hypervisor ran other machines; None where the system does
            not tell, as for the next.
        run_delay_share: share of the worker's time in which its threads waited for a core.
        superseded: whether the same worker's passes were repeated with less of these two: then no figure uses this
            launch, and that other one counts.
        quiet: whether the worker's threads came to rest after the first inference.
        confined: which protections the system allowed, see `bench.measure.confine.confine`.
        memory: memory of the worker, by phase.
        place: name of the machine in its fleet; None where the sweep ran without a fleet.
        lease_s: when the lease began and ended under which the machine ran the block, in seconds since 1970; likewise.
        time: when the launch was stored (ISO 8601); None before that.
    """

    launch: str
    block: str
    role: str
    reference: str
    machine: State | None = None
    warmup_ns: tuple[Duration, ...] = ()
    cold_ns: tuple[tuple[Duration, ...], ...] = ()
    steady_ns: tuple[Annotated[tuple[Sample, ...], msgspec.Meta(min_length=1)], ...]
    num_requests: Annotated[int, msgspec.Meta(ge=1, le=2**53)] = 1
    first_request: Count = 0
    num_restless: Count = 0
    import_ns: Duration | None = None
    load_ns: Duration
    first_inference_ns: Duration
    loaded_beside: Count = 0
    steal_share: Share | None = None
    run_delay_share: Share | None = None
    superseded: bool = False
    quiet: bool = True
    confined: Mapping[str, bool] = {}
    memory: Memory
    place: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    lease_s: tuple[float, float] | None = None
    time: str | None = None

    @property
    def kind(self) -> str:
        """`launch`, or `thread_launch` for a launch that was compared with the cell itself at one thread."""
        return str(self.__struct_config__.tag)

    @functools.cached_property
    def medians_ns(self) -> tuple[float, ...]:
        """The median of each pass's steady samples; kept, because a cell is compared with many others."""
        return tuple(map(median_ns, self.steady_ns))

    @property
    def lost_share(self) -> float:
        """Share of its time that it lost to other programs and other virtual machines; 0 where no system tells."""
        return min(1.0, (self.run_delay_share or 0.0) + (self.steal_share or 0.0))

    @property
    def samples_ns(self) -> list[int]:
        """The steady samples of all passes, in the order in which they were taken."""
        return [sample for samples in self.steady_ns for sample in samples]


def median_ns(samples_ns: tuple[int, ...]) -> float:
    """Median of the samples of one burst; for so few samples `statistics` is far faster than NumPy, and equal."""
    return float(statistics.median(samples_ns))
