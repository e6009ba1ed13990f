"""Comparison of cells by their launches, through all the blocks that connect them."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from bench.measure import model, stats
from bench.measure.joint import Observation
from bench.measure.launch import Launch
from bench.measure.levels import Levels, levels
from bench.measure.model import Request
from bench.measure.prior import USUAL, Prior
from bench.measure.stats import Effect, Estimate

_KNOWN = 1e9
"""Degrees of freedom of an error that is known."""
REFERENCE, CONTROL, CELL, CONTENDER = "reference", "control", "cell", "contender"
"""Roles of launches: the two of the baseline, a cell's beside these, and a cell's in a block without the baseline."""


class Levelled(Protocol):
    """What the model needs of a launch; see `bench.measure.launch.Launch`."""

    @property
    def block(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def time(self) -> str | None: ...
    @property
    def place(self) -> str | None: ...
    @property
    def lost_share(self) -> float: ...
    @property
    def medians_ns(self) -> tuple[float, ...]: ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Series:
    """The launches of one cell.

    Attributes:
        name: the cell's name among those that it is compared with.
        program: what the machine's state acts on: the packages that the cell's runtime runs, such as `onnxruntime`.
        runtime: the runtime, such as `onnxruntime_bytes`: shocks are each runtime's own. Cells of a program of one
            runtime may leave it out.
        launches: its launches; of a baseline, in the roles of the reference and of the control.
        tick_ns: time between two values of the clock that times its inferences, where that clock is a coarse one.
    """

    name: str
    program: str
    runtime: str = ""
    launches: Sequence[Levelled]
    tick_ns: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Group:
    """Cells that answer the same request, and their common baseline, which need not be among them."""

    baseline: Series
    cells: Sequence[Series]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """A cell against its baseline, or against another cell.

    Attributes:
        effect: logarithm of the ratio of latencies; None when nothing connects the two.
        control: the same of the A/A control: of the baseline's second copy over its first, whose true ratio is 1; None
            where fewer blocks held both than an alarm needs.
        num_launches: number of launches of the cell that were compared.
    """

    effect: Effect | None
    control: Effect | None
    num_launches: int

    @functools.cached_property
    def ratio(self) -> Estimate | None:
        """Latency over the other's, with its 95 % interval."""
        return self.effect.ratio() if self.effect else None

    def verdict(self, margin: float) -> str | None:
        """See `stats.verdict`; None without a ratio."""
        return stats.verdict(self.ratio, margin=margin) if self.ratio else None


class Fitted:
    """The cells of one group with their levels, as the model of the measurement estimates them."""

    def __init__(self, group: Group, request: Request | None, launches: Mapping[str, int]) -> None:
        self.baseline = group.baseline.name
        self.num_launches = launches
        self._request = request
        self._ticks_ns = {each.name: each.tick_ns for each in (group.baseline, *group.cells) if each.tick_ns}
        self._effects: dict[tuple[str, str], Effect] = {}

    @property
    def names(self) -> Sequence[str]:
        """Names of the cells that ran beside the baseline, the baseline's included."""
        return tuple(self.num_launches)

    @property
    def has_converged(self) -> bool:
        """Whether the model's estimates of the noise came to rest; true where nothing was estimated."""
        return self._request is None or self._request.has_converged

    @functools.cached_property
    def control(self) -> Effect | None:
        """The baseline's second copy over its first; None where too few blocks held both: see `Request.control`."""
        return self._request.control(self.baseline) if self._request else None

    def effect(self, name: str, other: str) -> Effect:
        """Logarithm of the ratio of two cells' latencies.

        Raises:
            KeyError: one of them never ran beside the baseline.
        """
        if self._request is None:
            raise KeyError(name)
        if (name, other) not in self._effects:  # many questions are about the same pair
            rounding = math.hypot(self._rounding(name), self._rounding(other)) if name != other else 0.0
            self._effects[name, other] = _rounded(self._request.difference(name, other), rounding)
        return self._effects[name, other]

    def _rounding(self, name: str) -> float:
        """Standard error of the logarithm of a cell's latency by the ticks of its clock.

        Each sample is a multiple of its tick, and so is the median: all launches may be off by the same, by up to one
        tick either way.
        """
        if self._request is None or name not in self._ticks_ns:
            return 0.0
        return math.log1p(self._ticks_ns[name] / math.exp(self._request.latency(name).value)) / math.sqrt(3)

    def covariance(self, names: Sequence[str]) -> np.ndarray:
        """Covariance of the errors of the levels of K cells, on the log scale, of shape (K, K).

        Raises:
            KeyError: one of them never ran beside the baseline.
        """
        if self._request is None:
            raise KeyError(*names)
        roundings = [self._rounding(name) for name in names]
        return self._request.covariance(names) + np.diag(np.square(roundings))

    def between(self, name: str, other: str) -> Comparison:
        """One cell over another, through all the blocks that connect them; without an effect if nothing does."""
        if self._request is None or not {name, other} <= self.num_launches.keys():
            return Comparison(effect=None, control=self.control, num_launches=0)
        return Comparison(effect=self.effect(name, other), control=self.control, num_launches=self.num_launches[name])

    def against_baseline(self, name: str) -> Comparison:
        """One cell over the baseline; the baseline over itself is 1, with no error."""
        return self.between(name, self.baseline)

    def believed_share(self, name: str) -> float | None:
        """Of what is known of the variance of a cell's ratio to the baseline, the share that launches did not tell.

        None for a cell that never ran beside the baseline, and for the baseline itself.
        """
        if self._request is None or name not in self.num_launches or name == self.baseline:
            return None
        return self._request.believed_share(name, self.baseline)

    @functools.cached_property
    def machine_effects(self) -> Mapping[tuple[str, str], Effect]:
        """By program and machine, where several machines of one kind shared the work: see `Joint.of_machines`."""
        return self._request.machine_effects if self._request else {}

    def latency_ns(self, name: str) -> Estimate | None:
        """Latency of a cell in the usual state of the machine; None for a cell that never ran beside the baseline."""
        if self._request is None or name not in self.num_launches:
            return None
        return _rounded(self._request.latency(name), self._rounding(name)).ratio()


def _rounded(effect: Effect, error: float) -> Effect:
    """An effect with the error of the clocks that it was read from, whose standard error is known."""
    return effect - Effect(value=0.0, error=error, freedom=_KNOWN) if error else effect


def fit(groups: Sequence[Group], prior: Prior = USUAL) -> list[Fitted]:
    """Fit the model to the launches of all groups together, which share what is known of the noise.

    Only blocks that held the baseline's reference count, and those of contenders that share a cell with these, so
    everything is connected. Launches that a repeated block replaced do not count.
    """
    observations = observed(groups)
    requests = iter(model.fit([seen for seen, _ in observations if seen], prior))
    return [
        Fitted(group, next(requests) if seen else None, launches)
        for group, (seen, launches) in zip(groups, observations, strict=True)
    ]


def observed(groups: Sequence[Group]) -> list[tuple[list[Observation], dict[str, int]]]:
    """Of each group, what the model sees of its launches, and how many launches each cell has that has some."""
    named = {launch.place for group in groups for launch in group.baseline.launches if launch.place}
    return [_observations(group, several_machines=len(named) > 1) for group in groups]


def _observations(group: Group, *, several_machines: bool) -> tuple[list[Observation], dict[str, int]]:
    """The level of each launch of a group's blocks, and the number of launches of each cell that has some."""
    blocks, num_references = _connected(group)
    counts = {group.baseline.name: num_references} if num_references else {}
    for members in blocks.values():
        for series, _ in members:
            if series is not group.baseline:
                counts[series.name] = counts.get(series.name, 0) + 1
    observations = []
    for block, members in blocks.items():
        # The workers of a block run the same passes, but a file may have lost the end of a line.
        passes = min(len(launch.medians_ns) for _, launch in members)
        block_levels = _levels(tuple(launch.medians_ns[:passes] for _, launch in members))
        time_s = min(map(_time_s, (launch for _, launch in members)))
        observations += [
            Observation(
                cell=series.name,
                program=series.program,
                runtime=series.runtime,
                block=block,
                time_s=time_s,
                level=float(level),
                variance=float(variance),
                place=(several_machines and members[0][1].place) or "",
                lost_share=launch.lost_share,
            )
            for (series, launch), level, variance in zip(
                members, block_levels.log_ns, block_levels.variances, strict=True
            )
        ]
    return observations, counts


def _connected(group: Group) -> tuple[dict[str, list[tuple[Series, Levelled]]], int]:
    """The launches of each block that counts, and the number of blocks that held the baseline's reference."""
    blocks: dict[str, list[tuple[Series, Levelled]]] = {
        launch.block: [] for launch in group.baseline.launches if launch.role == REFERENCE and launch.medians_ns
    }
    num_references = len(blocks)
    apart: dict[str, list[tuple[Series, Levelled]]] = {}
    everyone = [group.baseline, *(series for series in group.cells if series.name != group.baseline.name)]
    for series in everyone:
        for launch in series.launches:
            if not launch.medians_ns:
                continue
            if launch.block in blocks:
                blocks[launch.block].append((series, launch))
            elif launch.role == CONTENDER:
                apart.setdefault(launch.block, []).append((series, launch))
    connected = {series.name for members in blocks.values() for series, _ in members}
    while near := [block for block, members in apart.items() if connected & {series.name for series, _ in members}]:
        for block in near:
            blocks[block] = apart.pop(block)
            connected |= {series.name for series, _ in blocks[block]}
    return blocks, num_references


@functools.lru_cache(maxsize=4096)
def _levels(medians: tuple[tuple[float, ...], ...]) -> Levels:
    """The levels of one block; kept, because a sweep asks again after every block."""
    return levels(np.array(medians))


def _time_s(launch: Levelled) -> float:
    """When a launch was stored, in seconds; 0 for a launch that was not stored."""
    return datetime.datetime.fromisoformat(launch.time).timestamp() if launch.time else 0.0


def by_block(launches: Sequence[Launch], role: str) -> dict[str, Launch]:
    """Launches of one role by the block they ran in."""
    return {launch.block: launch for launch in launches if launch.role == role}


def change(after: Comparison, before: Comparison) -> Comparison:
    """How a cell moved against its baseline from one run to another, with the noise of both runs.

    Blocks of two runs never meet: the machine may be faster or slower in one of them, and only ratios can be compared.
    """
    return Comparison(
        effect=after.effect - before.effect if after.effect and before.effect else None,
        control=after.control - before.control if after.control and before.control else None,
        num_launches=min(after.num_launches, before.num_launches),
    )
