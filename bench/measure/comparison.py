"""Comparison of cells by their launches, paired block by block."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence

from bench.measure import stats
from bench.measure.launch import Launch
from bench.measure.stats import Effect, Estimate, Pairs

REFERENCE, CONTROL, CELL = "reference", "control", "cell"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """A cell against its baseline, or against another cell.

    Attributes:
        effect: logarithm of the ratio of latencies; None when the two never ran in one block.
        control: ratio of the A/A control, from the baseline's blocks; None without a complete block.
        num_launches: number of launches of the cell that were compared.
    """

    effect: Effect | None
    control: Estimate | None
    num_launches: int

    @functools.cached_property
    def ratio(self) -> Estimate | None:
        """Latency over the other's, with its 95 % interval."""
        return self.effect.ratio() if self.effect else None

    def verdict(self, margin: float) -> str | None:
        """See `stats.verdict`; None without a ratio."""
        if self.ratio is None:
            return None
        return stats.verdict(self.ratio, self.control, num_launches=self.num_launches, margin=margin)


def by_block(launches: Sequence[Launch], role: str) -> dict[str, Launch]:
    """Launches of one role by the block they ran in."""
    return {launch.block: launch for launch in launches if launch.role == role}


def controls(baseline: Sequence[Launch]) -> list[Pairs]:
    """A/A comparisons of a baseline: one for each of its blocks."""
    return _paired(by_block(baseline, CONTROL), by_block(baseline, REFERENCE))


def _paired(launches: Mapping[str, Launch], others: Mapping[str, Launch]) -> list[Pairs]:
    """The launches of two cells by block, paired pass by pass in the blocks that held both."""
    return [
        Pairs(cell_ns=launch.medians_ns, reference_ns=others[block].medians_ns)
        for block, launch in launches.items()
        if block in others
    ]


def _compared(pairs: Sequence[Pairs], baseline: Sequence[Launch]) -> Comparison:
    """The comparison of a cell's launches with others of the same blocks, with the noise of the baseline's controls."""
    null_pairs = controls(baseline)
    control = stats.ratio(null_pairs, null_pairs)
    return Comparison(effect=stats.effect(pairs, null_pairs), control=control, num_launches=len(pairs))


def against_baseline(launches: Sequence[Launch], baseline: Sequence[Launch]) -> Comparison:
    """Compare a cell's launches with the baseline's of the same blocks.

    For the baseline itself, whose launches have other roles, the ratio is the A/A control's.
    """
    pairs = _paired(by_block(launches, CELL), by_block(baseline, REFERENCE))
    return _compared(controls(baseline) if launches is baseline and not pairs else pairs, baseline)


def between(launches: Sequence[Launch], others: Sequence[Launch], baseline: Sequence[Launch]) -> Comparison:
    """Compare two cells that share a baseline: in the blocks that held both, or else through the baseline."""
    pairs = _paired(_comparable(launches), _comparable(others))
    if len(pairs) >= stats.MIN_LAUNCHES:
        return _compared(pairs, baseline)
    one, other = against_baseline(launches, baseline), against_baseline(others, baseline)
    return quotient(one, other, one.control)


def change(after: Comparison, before: Comparison) -> Comparison:
    """How a cell moved against its baseline from one run to another, with the noise of both runs and both controls.

    Blocks of two runs never meet: the machine may be faster or slower in one of them, and only ratios can be compared.
    """
    control = _quotient_of_controls(after.control, before.control) if after.control and before.control else None
    return quotient(after, before, control)


def quotient(one: Comparison, other: Comparison, control: Estimate | None) -> Comparison:
    """Compare two cells, each of which was compared with the same baseline.

    Args:
        one: comparison of the first cell with the baseline.
        other: comparison of the second cell with the baseline.
        control: ratio of the A/A control of the new comparison.

    Returns:
        The first cell over the second; without an effect where one of the two comparisons has none.
    """
    effect = one.effect - other.effect if one.effect and other.effect else None
    return Comparison(effect=effect, control=control, num_launches=min(one.num_launches, other.num_launches))


def _quotient_of_controls(one: Estimate, other: Estimate) -> Estimate:
    """Quotient of two ratios, with an interval that covers the uncertainty of both."""
    # Half of the interval on the log scale, where the intervals of both ratios are symmetric.
    value, half = one.value / other.value, math.hypot(*(math.log(each.high / each.value) for each in (one, other)))
    return Estimate(value=value, low=value * math.exp(-half), high=value * stats.exp(half))


def _comparable(launches: Sequence[Launch]) -> dict[str, Launch]:
    """Launches by block: those in the role of a cell, or for a baseline those in the role of the reference."""
    return by_block(launches, CELL) or by_block(launches, REFERENCE)
