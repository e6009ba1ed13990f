"""Differences and shares from paired blocks: simulated blocks whose true shares are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.features.blame import intervals


def test_mean_has_students_interval() -> None:
    estimate = intervals.mean([1.0, 2.0, 3.0, 4.0])

    assert estimate.value == 2.5
    assert estimate.high - estimate.value == pytest.approx(3.182446 * math.sqrt(5 / 3) / 2, rel=1e-5)
    assert estimate.value - estimate.low == pytest.approx(estimate.high - estimate.value)


def test_two_blocks_have_no_interval() -> None:
    assert intervals.mean([1.0, 1.0]).low == -math.inf
    assert intervals.share([1.0, 1.0], [2.0, 2.0]).high == math.inf


def test_ratio_is_geometric() -> None:
    assert intervals.ratio([(1.0, 2.0), (2.0, 2.0), (4.0, 2.0)]).value == pytest.approx(1.0)


def test_share_without_a_difference_has_no_end() -> None:
    whole = [0.01, -0.012, 0.004, -0.003]

    assert intervals.share([0.001, 0.0, 0.001, 0.0], whole).high == math.inf


def test_noise_that_whole_and_part_share_cancels() -> None:
    """The part is the whole difference, which is another in each block: the share is known nevertheless."""
    whole = [0.05, 0.08, 0.11, 0.07, 0.09]

    estimate = intervals.share(whole, whole)

    assert (estimate.low, estimate.value, estimate.high) == pytest.approx((1.0, 1.0, 1.0), abs=1e-6)
    assert intervals.mean(whole).high - intervals.mean(whole).low > 0.05


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_intervals_of_shares_hold_the_truth_as_often_as_they_say(share: float) -> None:
    """5 % of 4,000 simulated runs may miss it; three standard errors of that are 1 %."""
    generator, missed, runs = np.random.default_rng(48), 0, 4000
    for _ in range(runs):
        common = generator.normal(0, 0.01, 6)
        whole = 0.08 + common + generator.normal(0, 0.006, 6)
        part = share * (0.08 + common) + generator.normal(0, 0.003, 6)
        estimate = intervals.share(list(part), list(whole))
        missed += not estimate.low <= share <= estimate.high
    assert 0.04 <= missed / runs <= 0.06
