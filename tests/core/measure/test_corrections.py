"""Many comparisons at once: hand values, and simulations in which the truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from bench.measure import comparison, corrections, stats
from bench.measure.comparison import Comparison
from bench.measure.stats import Effect

PUBLISHED = (0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344)
PUBLISHED += (0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000)
"""Of fifteen hypotheses: Benjamini and Hochberg 1995, section 4.2, who reject the first four at 5 %."""
SD = 0.05
NUM_CELLS, NUM_LAUNCHES = 20, 4
NORMAL = 1e12
"""Degrees of freedom of a normal interval."""
MISSING = Comparison(effect=None, control=None, num_launches=0)


def compared(value: float, error: float, freedom: float = NORMAL) -> Comparison:
    return Comparison(effect=Effect(value=value, error=error, freedom=freedom), control=None, num_launches=3)


def with_p(p_value: float, *, sd: float = SD) -> Comparison:
    """A slower cell whose interval, a normal one, leaves out 1 at that level."""
    return compared(-sd * float(special.ndtri(p_value / 2)), sd)


def judge(*comparisons: Comparison) -> list[corrections.Judged]:
    found = corrections.judge(comparisons, margin=0.02)
    assert None not in found
    return [judged for judged in found if judged is not None]


def test_adjusted_p_values_are_those_of_scipy() -> None:
    from scipy.stats import false_discovery_control

    random = np.random.default_rng(3)
    for number in (1, 2, 7, 300):
        p_values = random.random(number) ** 3
        p_values[: number // 3] = p_values[0]  # ties
        np.testing.assert_allclose(corrections.adjusted([*p_values]), false_discovery_control(p_values), rtol=1e-15)


def test_adjusted_by_hand() -> None:
    """Sorted, they are 0.005 x 4/1, 0.01 x 4/2, 0.03 x 4/3 and 0.04 x 4/4."""
    assert corrections.adjusted([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert corrections.adjusted([0.06, 0.05]) == pytest.approx([0.06, 0.06]), "a larger p-value has no smaller one"
    assert corrections.adjusted([]) == []


def test_published_example() -> None:
    judged = judge(*map(with_p, PUBLISHED))
    assert [one.verdict for one in judged] == ["slower"] * 4 + ["undecided"] * 11
    assert [one.p_value <= 0.05 for one in judged] == [True] * 4 + [False] * 11
    assert judged[4].ratio.low > 1 + stats.NOISE_FLOOR, "alone it would be called: its 95 % interval is clear of 1"
    assert judge(with_p(PUBLISHED[4]))[0].verdict == "slower"


def test_intervals_of_the_selected_are_as_much_wider() -> None:
    """Four of fifteen: 1 - 4 x 0.05 / 15 = 98.67 %, whose normal quantile is 2.4747; the others have 1.9600."""
    judged = judge(*map(with_p, PUBLISHED))
    assert [one.alpha for one in judged] == pytest.approx([4 * 0.05 / 15] * 4 + [0.05] * 11)
    for one, quantile in zip(judged, [2.4747] * 4 + [1.9600] * 11, strict=True):
        assert math.log(one.ratio.high / one.ratio.value) == pytest.approx(quantile * SD, rel=1e-4)
    assert all(one.ratio.low > 1 for one in judged[:4]), "what is selected leaves out 1 at its own level, too"


def test_direction_and_order_are_kept() -> None:
    faster, slower = compared(-0.3, SD), compared(0.3, SD)
    assert [one.verdict for one in judge(with_p(0.9), faster, slower)] == ["undecided", "faster", "slower"]


def test_floor_holds_for_the_selected_too() -> None:
    """Sure to be no zero, but smaller than what the floor lets through: 0.25 %."""
    assert judge(with_p(1e-6, sd=0.0005))[0].verdict == "noise"


def test_one_launch_may_have_a_verdict() -> None:
    lone = compared(0.3, SD)
    assert judge(Comparison(effect=lone.effect, control=None, num_launches=1))[0].verdict == "slower"


def test_few_degrees_of_freedom_widen_the_interval() -> None:
    """Student's with 2 degrees of freedom has its 97.5 % at 4.303."""
    judged = judge(compared(4.2 * SD, SD, freedom=2))
    assert (judged[0].verdict, judged[0].p_value > 0.05) == ("undecided", True)
    assert math.log(judged[0].ratio.high / judged[0].ratio.value) == pytest.approx(4.302653 * SD, rel=1e-5)
    assert judge(compared(4.4 * SD, SD, freedom=2))[0].p_value < 0.05


def test_small_differences_are_noise_selected_or_not() -> None:
    found = judge(with_p(0.5, sd=0.005), *[with_p(1.0, sd=0.005)] * 9)
    assert {one.verdict for one in found} == {"noise"}


def test_what_cannot_be_tested_is_no_burden() -> None:
    """With two more comparisons that count, 0.03 would not be selected."""
    first, *others = corrections.judge([with_p(0.03), MISSING, MISSING], margin=0.02)
    assert first is not None
    assert (first.verdict, first.p_value, first.alpha) == ("slower", pytest.approx(0.03), 0.05)
    assert others == [None, None]
    assert judge(with_p(0.03), with_p(0.9), with_p(0.9))[0].verdict == "undecided"
    assert corrections.judge([], margin=0.02) == []


def moved(*values: float, sd: float = 0.0) -> list[Comparison]:
    """Changes with a normal error each."""
    return [compared(value, sd) for value in values]


def test_drift_by_hand() -> None:
    """Of a normal distribution's values half lie within 0.6745 standard deviations; a shift of all adds its square."""
    assert corrections.drift(moved(*[0.1] * 5)) == pytest.approx(0.1)
    assert corrections.drift(moved(-0.02, -0.01, 0.0, 0.01, 0.02)) == pytest.approx(0.01 / 0.6745, rel=1e-4)
    assert corrections.drift(moved(0.08, 0.09, 0.1, 0.11, 0.12)) == pytest.approx(
        math.hypot(0.1, 0.01 / 0.6745), rel=1e-4
    )
    assert corrections.drift(moved(*[0.05] * 5, sd=0.03)) == pytest.approx(0.04, rel=1e-3), (
        "beyond what the launches tell"
    )
    assert corrections.drift(moved(*[0.05] * 5, sd=0.06)) == 0
    assert corrections.drift(moved(*[0.0] * 6, 0.5, -0.5, 0.3)) == 0, "a few that changed are no drift"
    assert corrections.drift(moved(*[0.1] * 4)) == 0, "too few to tell"
    assert corrections.drift([]) == 0


def test_drift_is_added_to_each_interval() -> None:
    found = corrections.with_drift(moved(*[0.1] * 6, 0.5))
    assert [one.effect.value for one in found if one.effect] == [0.1] * 6 + [0.5]
    half = float(special.stdtrit(7, 0.975)) * 0.1
    assert [one.effect.half_width() for one in found if one.effect] == pytest.approx([half] * 7)
    assert corrections.with_drift([*moved(*[0.1] * 6), MISSING])[-1] == MISSING
    unmoved = moved(*[0.0] * 6)
    assert corrections.with_drift(unmoved) == unmoved


class World:
    """Two runs of a baseline and many cells.

    Each launch has an offset of its own; the second run also has one of its baseline, and one of each cell, that last
    as long as it does. The error of a run's ratios is estimated from the launches of all its cells.
    """

    def __init__(self, seed: int, *, drift: float = 0.0) -> None:
        self._random = np.random.default_rng(seed)
        self._drift = drift

    def changes(self, slower: float = 1.0) -> list[Comparison]:
        """Of each cell; the first is so many times as slow in the second run."""
        lasting = self._random.normal(0.0, [2 * self._drift, *[self._drift / 2] * NUM_CELLS])
        before = self._run(np.zeros(1 + NUM_CELLS))
        after = self._run(lasting + np.array([0.0, math.log(slower), *[0.0] * (NUM_CELLS - 1)]))
        return [comparison.change(one, other) for one, other in zip(after, before, strict=True)]

    def _run(self, logs: np.ndarray) -> list[Comparison]:
        launches = logs[:, None] + self._random.normal(0.0, 0.007, (1 + NUM_CELLS, NUM_LAUNCHES))
        freedom = (1 + NUM_CELLS) * (NUM_LAUNCHES - 1)
        variance = ((launches - launches.mean(axis=1, keepdims=True)) ** 2).sum() / freedom
        error = math.sqrt(2 * variance / NUM_LAUNCHES)
        return [compared(value, error, freedom) for value in launches[1:].mean(axis=1) - launches[0].mean()]


def called(changes: list[Comparison]) -> list[int]:
    """The cells that are called faster or slower."""
    return [number for number, one in enumerate(judge(*changes)) if one.verdict in ("faster", "slower")]


def test_runs_without_a_change_rarely_call_anything() -> None:
    world = World(5)
    found = [world.changes() for _ in range(60)]
    assert sum(bool(called(corrections.with_drift(changes))) for changes in found) <= 3
    assert sum(bool(called(changes)) for changes in found) <= 3, "nor do they without looking for a drift"


def test_runs_of_a_machine_that_is_busier_rarely_call_anything() -> None:
    """The baseline drifts by 8 % (standard deviation), and each cell by 2 %, which no launch of a run tells."""
    world = World(7, drift=0.04)
    found = [world.changes() for _ in range(40)]
    assert sum(bool(called(changes)) for changes in found) >= 20, "launches alone name winners"
    assert sum(bool(called(corrections.with_drift(changes))) for changes in found) <= 2


def test_ten_percent_are_found_among_many() -> None:
    world = World(6)
    found = [called(corrections.with_drift(world.changes(1.1))) for _ in range(20)]
    assert sum(0 in numbers for numbers in found) >= 19
    assert sum(bool(set(numbers) - {0}) for numbers in found) <= 1


def test_false_winners_are_few_among_those_called() -> None:
    """Half of the cells are slower by 2 to 10 %: of the cells that are called, at most 5 % on average are others."""
    random = np.random.default_rng(8)
    shares, missed = [], []
    for _ in range(400):
        truths = np.array([0.0] * 15 + list(random.uniform(0.02, 0.1, 15)))
        values = truths + random.normal(0.0, 0.02, 30)
        judged = judge(*(compared(value, 0.02) for value in values))
        winners = [
            (one, truth) for one, truth in zip(judged, truths, strict=True) if one.verdict in ("faster", "slower")
        ]
        shares.append(sum(truth == 0 for _, truth in winners) / max(1, len(winners)))
        missed += [
            not one.ratio.low <= math.exp(truth) <= one.ratio.high
            for one, truth in zip(judged, truths, strict=True)
            if one.p_value <= stats.ALPHA
        ]
    assert np.mean(shares) <= 0.05
    assert 0.02 <= np.mean(missed) <= 0.05, "intervals of the selected miss as often as is said, and hardly less"
