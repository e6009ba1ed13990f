"""What a search for slow parts found."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from bench.features.blame.cuts import Part
from bench.measure.stats import Estimate


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """A part with what it explains.

    Attributes:
        part: the part.
        core: the suspect within it: the part itself, unless it was measured with its neighbours.
        difference: by how much it is slower, as a share of the whole's latency under the first side.
        share: that as a share of the whole's difference.
        ratio: its latency under the second side over that under the first, alone.
        time_share: its latency under the first side, as a share of the whole's.
        core_ratio, core_difference: `ratio` and `difference` of the suspect alone; None where it cannot be run alone.
    """

    part: Part
    core: Part
    difference: Estimate
    share: Estimate
    ratio: Estimate
    time_share: float
    core_ratio: Estimate | None
    core_difference: Estimate | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a search found.

    Attributes:
        ratio: latency of the whole under the second side over that under the first.
        is_different: whether the two clearly differ.
        blamed: parts that explain the difference, the largest share first.
        others: what lies between them, and parts that turned out to explain nothing.
        remainder: what the parts do not add up to, as a share of the whole's latency under the first side; None where
            no parts were measured.
        remainder_share: that as a share of the whole's difference.
        num_blocks: blocks of the answer.
        is_cut: whether the time was up before every part was split that explains more than its share.
        failures: why parts could not be measured, by key.
    """

    ratio: Estimate
    is_different: bool
    blamed: tuple[Line, ...] = ()
    others: tuple[Line, ...] = ()
    remainder: Estimate | None = None
    remainder_share: Estimate | None = None
    num_blocks: int = 0
    is_cut: bool = False
    failures: Mapping[str, str] = dataclasses.field(default_factory=dict)
