"""Comparison of stored records: which launches ran side by side, and what they say together."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from typing import Any

from bench.measure import stats
from bench.measure.stats import Estimate, Pairs

Launch = dict[str, Any]
REFERENCE, CONTROL, CELL = "reference", "control", "cell"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """A cell against its baseline.

    Attributes:
        ratio: latency over the baseline's; None when they never ran in one block.
        control: the A/A control's ratio, from the baseline's blocks.
        num_launches: launches of the cell that were compared.
    """

    ratio: Estimate | None
    control: Estimate | None
    num_launches: int

    def verdict(self, margin: float) -> str | None:
        """See `stats.verdict`; None without a ratio."""
        if self.ratio is None:
            return None
        return stats.verdict(self.ratio, self.control, num_launches=self.num_launches, margin=margin)


def burst_medians(launch: Launch) -> tuple[float, ...]:
    """The median of each pass's steady samples, in nanoseconds."""
    # For a few samples at a time, far faster than numpy's, and the same.
    return tuple(float(statistics.median(samples)) for samples in launch["steady_ns"])


def pair(launch: Launch, reference: Launch) -> Pairs:
    """Two launches of one block, pass by pass."""
    return Pairs(cell_ns=burst_medians(launch), reference_ns=burst_medians(reference))


def by_block(launches: Sequence[Launch], role: str) -> dict[str, Launch]:
    """Launches of one role by the block they ran in."""
    return {launch["block"]: launch for launch in launches if launch["role"] == role}


def controls(baseline: Sequence[Launch]) -> list[Pairs]:
    """A/A comparisons of a baseline: one for each of its blocks."""
    references = by_block(baseline, REFERENCE)
    twins = by_block(baseline, CONTROL)
    return [pair(twin, references[block]) for block, twin in twins.items() if block in references]


def against_baseline(launches: Sequence[Launch], baseline: Sequence[Launch]) -> Comparison:
    """Compare a cell's launches with the baseline's of the same blocks.

    For the baseline itself, whose launches have other roles, the ratio is the A/A control's.
    """
    references = by_block(baseline, REFERENCE)
    null_pairs = controls(baseline)
    pairs = [
        pair(launch, references[block]) for block, launch in by_block(launches, CELL).items() if block in references
    ]
    control = stats.ratio(null_pairs, null_pairs)
    if not pairs and launches is baseline:
        pairs = null_pairs
    return Comparison(ratio=stats.ratio(pairs, null_pairs), control=control, num_launches=len(pairs))


def between(launches: Sequence[Launch], others: Sequence[Launch], baseline: Sequence[Launch]) -> Comparison:
    """Compare two cells that share a baseline: in the blocks that held both, or else through the baseline."""
    null_pairs = controls(baseline)
    control = stats.ratio(null_pairs, null_pairs)
    mine, theirs = _comparable(launches), _comparable(others)
    pairs = [pair(launch, theirs[block]) for block, launch in mine.items() if block in theirs]
    if len(pairs) >= stats.MIN_LAUNCHES:
        return Comparison(ratio=stats.ratio(pairs, null_pairs), control=control, num_launches=len(pairs))
    one, other = against_baseline(launches, baseline), against_baseline(others, baseline)
    if one.ratio is None or other.ratio is None:
        return Comparison(ratio=None, control=control, num_launches=0)
    return Comparison(
        ratio=quotient(one.ratio, other.ratio),
        control=control,
        num_launches=min(one.num_launches, other.num_launches),
    )


def _comparable(launches: Sequence[Launch]) -> dict[str, Launch]:
    """Launches by block, the reference's own for a baseline."""
    return by_block(launches, CELL) or by_block(launches, REFERENCE)


def quotient(one: Estimate, other: Estimate) -> Estimate:
    """Ratio of two ratios to the same baseline, their errors taken as independent (they share some, so it is wide)."""
    value = one.value / other.value
    half = math.hypot(_log_width(one), _log_width(other)) / 2
    return Estimate(value=value, low=value * math.exp(-half), high=value * math.exp(half))


def _log_width(estimate: Estimate) -> float:
    """Width of an interval on the log scale; one launch without a control has the interval (0, inf)."""
    return math.log(estimate.high / estimate.low) if estimate.low > 0 else math.inf
