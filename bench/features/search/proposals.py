"""Proposals of a search: cells with a letter for each group of operators, what they cost, and which nothing beats."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from bench.api.cell import RAW, Cell
from bench.api.loss_units import DB, SHARE, AllowedLoss
from bench.api.names import TaskName
from bench.features.search import effects
from bench.features.search.design import Choice, Design
from bench.features.search.effects import Tried
from bench.plugins import tuning
from bench.records.rows import Row

LATENCY, SIZE, MEMORY = "latency", "size", "memory"
FIGURES = {LATENCY: "ratio", SIZE: "size_bytes", MEMORY: "peak_rss_bytes"}
"""The field of a row that an objective makes small."""
_Z95 = 1.96
_NOISE_WEIGHT = 0.01
"""Weight of the amplitude of the noise beside a lost share of the metric, in what a proposal risks."""
_SHARE_OF_DB = AllowedLoss().share / AllowedLoss().db
"""Lost share of a metric that counts as much as 1 dB."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Proposal:
    """A cell that a search tried, and the row of it.

    Attributes:
        design: what it is a choice of.
        choice: its letters.
        tried: its figures.
    """

    design: Design
    choice: Choice
    tried: Tried

    @property
    def cell(self) -> Cell:
        """The cell of the tuning task."""
        return self.design.cell(self.choice)

    def cell_of(self, task: str) -> Cell:
        """The cell of the task itself."""
        return dataclasses.replace(self.cell, task=TaskName.parse(task))

    def cost(self, objective: str) -> float:
        """What the search is to make small."""
        if objective == SIZE:
            return float(self.tried.size_bytes)
        if objective == MEMORY:
            return float(self.tried.memory_bytes if self.tried.memory_bytes is not None else math.inf)
        return self.tried.ratio if self.tried.ratio is not None else math.inf

    @property
    def risk(self) -> float:
        """Of losing too much of the metric, by the tuning samples alone: larger for a proposal that is more likely to.

        The noise alone tells little of that where samples have labels: which values it falls on matters as well. Of
        proposals that lose the same, or nothing, the noisier one has the higher risk.
        """
        if self.tried.metric_loss is None:
            return self.tried.noise
        lost = max(0.0, self.tried.metric_loss)
        if self.tried.metric_loss_unit == DB:
            lost *= _SHARE_OF_DB
        return (lost + _NOISE_WEIGHT * math.sqrt(self.tried.noise)) ** 2


def tried_of(
    choice: Choice, row: Row, rows: Mapping[str, Row], metrics: Mapping[str, float | None] | None = None
) -> Tried | None:
    """The figures of a proposal by its row; None for a proposal that failed or is broken.

    A proposal with the same graph as another has the other's latency.

    Args:
        choice: its letters.
        row: its row.
        rows: the rows of all proposals, by path.
        metrics: every metric of the row by name.
    """
    timed = rows.get(row.same_as or "", row)
    if row.status != "ok" or row.fidelity == "broken" or row.metric_loss is None or row.size_bytes is None:
        return None
    error = effects.LEAST_ERROR
    if timed.ratio_low is not None and timed.ratio_high is not None:
        error = (timed.ratio_high - timed.ratio_low) / (2 * _Z95)
    by_name = metrics or {}
    unit = DB if tuning.LOST[DB] in by_name else SHARE
    lost = by_name.get(tuning.LOST[unit])
    return Tried(
        choice=choice,
        ratio=timed.ratio,
        error=error,
        noise=row.metric_loss**2,
        size_bytes=row.size_bytes,
        memory_bytes=timed.peak_rss_bytes,
        metric_loss=lost,
        metric_loss_unit=unit,
    )


def front(proposals: Sequence[Proposal], objective: str, *, by_noise: bool = False) -> list[Proposal]:
    """The proposals that no other one beats in cost and risk at once, or in cost and noise, the least cost first."""

    def other(proposal: Proposal) -> float:
        return proposal.tried.noise if by_noise else proposal.risk

    unbeaten: list[Proposal] = []
    for candidate in sorted(proposals, key=lambda proposal: (proposal.cost(objective), other(proposal))):
        if math.isfinite(candidate.cost(objective)) and (not unbeaten or other(candidate) < other(unbeaten[-1])):
            unbeaten.append(candidate)
    return unbeaten


def in_words(proposal: Proposal, objective: str) -> str:
    """A proposal in a few words."""
    ratio = "not timed" if proposal.tried.ratio is None else f"{proposal.tried.ratio:.3f} times the baseline's latency"
    noise_db = -10 * math.log10(max(proposal.tried.noise, 1e-12))
    size = f", {proposal.tried.size_bytes / 1e6:.3g} MB" if objective == SIZE else ""
    return f"{proposal.cell.chain[-1] if proposal.cell.chain else RAW}: {ratio}{size}, {noise_db:.0f} dB"
