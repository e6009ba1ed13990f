"""One launch of a cell: the samples, times and memory that one worker process measured in one block."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Mapping

import msgspec

from bench.measure.machine import State
from bench.measure.memory import Memory


class Launch(msgspec.Struct, frozen=True, kw_only=True, tag="launch", tag_field="kind", dict=True):
    """The figures of one launch, as they are measured and as they are stored.

    Attributes:
        launch: an identifier of its own.
        block: the identifier of the block, shared by all launches that ran side by side.
        role: `reference`, `control` or `cell`, see `bench.measure.comparison`.
        reference: path of the baseline that the block's launches are compared with.
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
        loaded_beside: largest number of other workers that started, imported, loaded or ran first at the same time.
        steal_share: share of the machine's time in which a hypervisor ran other machines; None where the system does
            not tell, as for the next.
        run_delay_share: share of the worker's time in which its threads waited for a core.
        superseded: whether the same worker's passes were repeated with less of these two: then no figure uses this
            launch, and that other one counts.
        quiet: whether the worker's threads came to rest after the first inference.
        confined: which protections the system allowed, see `bench.measure.confine.confine`.
        memory: memory of the worker, by phase.
        time: when the launch was stored (ISO 8601); None before that.
    """

    launch: str
    block: str
    role: str
    reference: str
    machine: State | None = None
    warmup_ns: tuple[int, ...] = ()
    cold_ns: tuple[tuple[int, ...], ...] = ()
    steady_ns: tuple[tuple[int, ...], ...]
    num_requests: int = 1
    first_request: int = 0
    num_restless: int = 0
    import_ns: int | None = None
    load_ns: int
    first_inference_ns: int
    loaded_beside: int = 0
    steal_share: float | None = None
    run_delay_share: float | None = None
    superseded: bool = False
    quiet: bool = True
    confined: Mapping[str, bool] = {}
    memory: Memory
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
    def samples_ns(self) -> list[int]:
        """The steady samples of all passes, in the order in which they were taken."""
        return [sample for samples in self.steady_ns for sample in samples]


def median_ns(samples_ns: tuple[int, ...]) -> float:
    """Median of the samples of one burst; for so few samples `statistics` is far faster than NumPy, and equal."""
    return float(statistics.median(samples_ns))
