"""Launches that lost much of their time to others: how much they weigh, and what their scatter tells."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from bench.measure import comparison
from bench.measure.comparison import CELL, CONTROL, REFERENCE, Group, Series
from bench.measure.joint import Observation
from bench.measure.launch import Launch
from bench.measure.model import Request, fit
from bench.measure.stats import Effect
from support import priors
from support import records as made

LAUNCH = 0.01
BELIEF = priors.firm(launch=LAUNCH)
LOST = 0.5
MORE = (BELIEF.lost * LOST**2) ** 2
"""The further variance of a launch that lost half of its time."""


def observed(cell: str, block: int, level: float, lost_share: float = 0.0) -> Observation:
    time_s = 36_000.0 * block
    return Observation(
        cell=cell, program="p", block=block, time_s=time_s, level=level, variance=0.0, lost_share=lost_share
    )


def two_launches(lost_share: float) -> Request:
    """A cell that is 0.1 above its baseline in one block and 0.2 in another, where it may have lost time."""
    baselines = [observed("a", block, 0.0) for block in (0, 0, 1, 1)]
    (found,) = fit([[*baselines, observed("b", 0, 0.1), observed("b", 1, 0.2, lost_share)]], BELIEF)
    return found


def test_estimate_leans_to_the_launch_that_lost_nothing() -> None:
    """Each block tells the difference, with the variance of 1 + 1/2 launches; that of the second has the lost time."""
    variances = np.array([1.5 * LAUNCH**2, 1.5 * LAUNCH**2 + MORE])
    found = two_launches(LOST).difference("b", "a")
    assert found.value == pytest.approx(np.average([0.1, 0.2], weights=1 / variances), abs=1e-5)
    assert found.value < 0.105
    assert found.error == pytest.approx(math.sqrt(1 / (1 / variances).sum()), rel=1e-3)
    assert two_launches(0.0).difference("b", "a").value == pytest.approx(0.15)


def test_small_shares_hardly_count() -> None:
    """The levels are robust: what hit a few bursts is not in them."""
    found, without = (two_launches(share).difference("b", "a") for share in (0.05, 0.0))
    assert found.value == pytest.approx(without.value, abs=2e-4)
    assert found.error == pytest.approx(without.error, rel=3e-3)


def test_of_a_single_launch_the_lost_time_is_in_the_interval() -> None:
    baselines = [observed("a", 0, 0.0) for _ in range(2)]
    (found,) = fit([[*baselines, observed("b", 0, 0.1, LOST)]], BELIEF)
    assert found.difference("b", "a").error == pytest.approx(math.sqrt(1.5 * LAUNCH**2 + MORE), rel=1e-3)


def disturbed(lost_share: float) -> Request:
    """Twelve blocks with launches that differ by 1 %; of one cell, three launches lost time and are 15 % too high."""
    random = np.random.default_rng(5)
    found = []
    for block in range(12):
        for cell in ("a", "a", "b", "c", "d"):
            is_hit = cell == "b" and block % 4 == 0
            level = LAUNCH * random.normal() + (0.15 if is_hit else 0.0)
            found.append(observed(cell, block, level, lost_share if is_hit else 0.0))
    (request,) = fit([found])
    return request


def test_scatter_that_lost_time_explains_is_not_that_of_launches() -> None:
    found, without = disturbed(0.8), disturbed(0.0)
    sds = {name: math.sqrt(one.variances[one.cells.index("b")]) for name, one in (("known", found), ("not", without))}
    assert sds["not"] > 0.04
    assert sds["known"] < 0.025
    assert abs(found.difference("b", "a").value) < 0.02 < without.difference("b", "a").value


def test_alarm_knows_of_lost_time() -> None:
    """The second copy lost time in each block: that it is slower then is no wonder."""

    def control(lost_share: float) -> Effect:
        found = [
            observed("a", block, 0.05 * number + 0.002 * (block % 2), lost_share * number)
            for block in range(4)
            for number in (0, 1)
        ]
        others = [observed(f"b{number}", block, 1.0) for block in range(4) for number in range(6)]
        found = fit([[*found, *others]], BELIEF)[0].control("a")
        assert found is not None
        return found

    known, without = control(LOST), control(0.0)
    assert known.value == without.value == pytest.approx(0.05)
    assert known.error == pytest.approx(math.sqrt(without.error**2 + MORE / 4), rel=0.01)
    assert without.value > without.half_width()
    assert known.value < known.half_width()


def launches(block: str, *roles: str, ns: int, **shares: float | None) -> list[Launch]:
    return [made.launch(block, role, ns, **shares) for role in roles]


def compared(**shares: float | None) -> Effect:
    """A cell over its baseline, whose second launch has some shares of lost time, through the launches as stored."""
    baseline = [one for block in "ab" for one in launches(block, REFERENCE, CONTROL, ns=1_000_000)]
    own = [*launches("a", CELL, ns=1_100_000), *launches("b", CELL, ns=1_200_000, **shares)]
    found = Group(
        baseline=Series(name="baseline", program="p", launches=baseline),
        cells=[Series(name="one", program="p", launches=own)],
    )
    return comparison.fit([found], BELIEF)[0].effect("one", "baseline")


@pytest.mark.parametrize(
    "shares", [{}, {"steal_share": None, "run_delay_share": None}, {"steal_share": 0.0, "run_delay_share": 0.0}]
)
def test_without_lost_time_nothing_changes(shares: dict[str, float | None]) -> None:
    assert compared(**shares) == compared()


@pytest.mark.parametrize("parts", [(0.5, 0.0), (0.0, 0.5), (0.2, 0.3)])
def test_what_others_and_other_machines_took_counts_together(parts: Sequence[float]) -> None:
    found = compared(steal_share=parts[0], run_delay_share=parts[1])
    assert found.value == pytest.approx(compared(run_delay_share=0.5).value)
    assert found.value < math.log(1.105)


def test_more_than_all_time_cannot_be_lost() -> None:
    """Several threads wait for longer than the time that passes."""
    assert made.launch("a", CELL, 1, run_delay_share=0.9, steal_share=0.9).lost_share == 1.0
    assert made.launch("a", CELL, 1, run_delay_share=0.25, steal_share=0.125).lost_share == 0.375
    assert made.launch("a", CELL, 1).lost_share == 0.0
