"""How noisy a machine was during a sweep, and what that cost.

The cost is by how much wider intervals are than they would be on an idle machine: for each cell, half of the interval
of its ratio to the baseline, on the log scale, over that in the same blocks with the variances of `IDLE` in the model
of the measurement, which are taken as known. Launches, blocks and the noise of passes are the same in both, so the
figure tells of states, shocks and launches, and of how little is known of these. Where few launches tell little of
them, it is that of the prior of the model, whatever the machine did, with the long tails of Student's t.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from bench.measure import comparison
from bench.measure.comparison import Fitted, Group
from bench.measure.launch import Launch
from bench.measure.prior import USUAL

_SURE = 1e9
"""Degrees of freedom of a variance that no launch changes."""
IDLE = dataclasses.replace(
    USUAL,
    launch=0.013,
    state=0.012,
    own_state=0.0086,
    shock=0.0104,
    launch_common=0.0,
    launch_request=0.0,
    launch_program=0.0,
    launch_own=0.0,
    freedom=_SURE,
    program_freedom=_SURE,
    block_freedom=_SURE,
)
"""Those of an idle machine: medians over the programs and cells of `results/zen5` (EPYC, two cores)."""


def widening(groups: Sequence[Group], fits: Sequence[Fitted]) -> dict[str, float]:
    """By cell, how many times as wide its interval is as on an idle machine; none for baselines.

    Args:
        groups: the launches.
        fits: what the model of the measurement makes of them, group by group.
    """
    widenings = {}
    for fitted, idle in zip(fits, comparison.fit(groups, IDLE), strict=True):
        for name in (name for name in fitted.names if name != fitted.baseline):
            half, usual = (each.effect(name, fitted.baseline).half_width() for each in (fitted, idle))
            if min(half, usual) > 0:
                widenings[name] = half / usual
    return widenings


def typical(widenings: Mapping[str, float], names: Sequence[str]) -> float | None:
    """The geometric mean of some cells' widenings; None without any."""
    logs = [math.log(widenings[name]) for name in names if name in widenings]
    return math.exp(sum(logs) / len(logs)) if logs else None


def lost_share(launches: Sequence[Launch]) -> float | None:
    """The share of their time that launches lost to other programs and other virtual machines, in the mean.

    None where the system told of no launch.
    """
    shares = [launch.lost_share for launch in launches if launch.run_delay_share is not None]
    return sum(shares) / len(shares) if shares else None
