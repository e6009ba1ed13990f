"""Many comparisons at once: hand values, and simulations in which the truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from bench.measure import comparison, corrections, stats
from bench.measure.comparison import Comparison
from bench.measure.stats import Effect, Error, Estimate, Pairs

PUBLISHED = (0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344)
PUBLISHED += (0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000)
"""Of fifteen hypotheses: Benjamini and Hochberg 1995, section 4.2, who reject the first four at 5 %."""
SD = 0.05
NUM_CELLS, NUM_LAUNCHES, NUM_PASSES = 20, 4, 15


def with_p(p_value: float, *, sd: float = SD, num_launches: int = 3, control: Estimate | None = None) -> Comparison:
    """A slower cell whose interval, a normal one, leaves out 1 at that level."""
    value = -sd * float(special.ndtri(p_value / 2))
    error = Error(across=0.0, freedom=1.0, within=sd, launches=3)
    return Comparison(effect=Effect(value=value, errors=(error,)), control=control, num_launches=num_launches)


def judge(*comparisons: Comparison) -> list[corrections.Judged]:
    found = corrections.judge(comparisons, margin=0.02)
    assert None not in found
    return [judged for judged in found if judged is not None]


def test_adjusted_by_hand() -> None:
    """Sorted, they are 0.005 x 4/1, 0.01 x 4/2, 0.03 x 4/3 and 0.04 x 4/4."""
    assert corrections.adjusted([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert corrections.adjusted([0.06, 0.05]) == pytest.approx([0.06, 0.06]), "a larger p-value has no smaller one"
    assert corrections.adjusted([]) == []


def test_published_example() -> None:
    judged = judge(*map(with_p, PUBLISHED))
    assert [one.verdict for one in judged] == ["slower"] * 4 + ["undecided"] * 11
    assert [one.p_value <= 0.05 for one in judged if one.p_value is not None] == [True] * 4 + [False] * 11
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
    slower = with_p(1e-6)
    assert slower.effect is not None
    faster = Comparison(
        effect=Effect(value=-slower.effect.value, errors=slower.effect.errors), control=None, num_launches=3
    )
    assert [one.verdict for one in judge(with_p(0.9), faster, slower)] == ["undecided", "faster", "slower"]


def test_floors_hold_for_the_selected_too() -> None:
    """Sure to be no zero, but smaller than what the floor or the A/A control lets through."""
    assert judge(with_p(1e-6, sd=0.0005))[0].verdict == "noise"  # 0.25 %
    control = Estimate(value=1.0, low=0.7, high=1.4)
    assert judge(with_p(1e-6, control=control))[0].verdict == "undecided"  # 1.28


def test_small_differences_are_noise_selected_or_not() -> None:
    found = judge(with_p(0.5, sd=0.005), *[with_p(1.0, sd=0.005)] * 9)
    assert {one.verdict for one in found} == {"noise"}


def test_what_cannot_be_tested_is_no_burden() -> None:
    """With two more comparisons that count, 0.03 would not be selected."""
    lone = with_p(1e-6, num_launches=1)
    unknown = Effect(value=0.1, errors=(Error(across=0.0, freedom=0.0, within=0.0, launches=1),))
    endless = Comparison(effect=unknown, control=None, num_launches=2)
    missing = Comparison(effect=None, control=None, num_launches=0)
    first, *others, last = corrections.judge([with_p(0.03), lone, endless, missing], margin=0.02)
    assert first is not None
    assert (first.verdict, first.p_value, first.alpha) == ("slower", pytest.approx(0.03), 0.05)
    assert [(one.verdict, one.p_value) for one in others if one] == [("undecided", None)] * 2
    assert last is None
    assert judge(with_p(0.03), with_p(0.9), with_p(0.9))[0].verdict == "undecided"
    assert corrections.judge([], margin=0.02) == []


def moved(*values: float, sd: float = 0.0) -> list[Comparison]:
    """Changes with a normal error each."""
    error = Error(across=0.0, freedom=1.0, within=sd, launches=3)
    return [Comparison(effect=Effect(value=value, errors=(error,)), control=None, num_launches=3) for value in values]


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
    missing = Comparison(effect=None, control=None, num_launches=0)
    assert corrections.with_drift([*moved(*[0.1] * 6), missing])[-1] == missing
    unmoved = moved(*[0.0] * 6)
    assert corrections.with_drift(unmoved) == unmoved


class World:
    """Two runs of a baseline, its twin and many cells.

    Each worker has an offset of its own, and each burst another; the second run also has one of its baseline, and one
    of each cell, that last as long as it does.
    """

    def __init__(self, seed: int, *, drift: float = 0.0) -> None:
        self._random = np.random.default_rng(seed)
        self._drift = drift

    def changes(self, slower: float = 1.0) -> list[Comparison]:
        """Of each cell; the first is so many times as slow in the second run."""
        lasting = np.exp(self._random.normal(0.0, [2 * self._drift, *[self._drift / 2] * NUM_CELLS]))
        before = self._run(np.ones(1 + NUM_CELLS))
        after = self._run(lasting * np.array([1.0, slower, *[1.0] * (NUM_CELLS - 1)]))
        return [comparison.change(one, other) for one, other in zip(after, before, strict=True)]

    def _run(self, factors: np.ndarray) -> list[Comparison]:
        cells: list[list[Pairs]] = [[] for _ in range(NUM_CELLS)]
        controls = []
        for _ in range(NUM_LAUNCHES):
            reference = self._worker(factors[0])
            controls.append(Pairs(cell_ns=self._worker(factors[0]), reference_ns=reference))
            for pairs, factor in zip(cells, factors[1:], strict=True):
                pairs.append(Pairs(cell_ns=self._worker(factor), reference_ns=reference))
        control = stats.ratio(controls, controls)
        effects = [stats.effect(pairs, controls) for pairs in cells]
        return [Comparison(effect=effect, control=control, num_launches=NUM_LAUNCHES) for effect in effects]

    def _worker(self, factor: float) -> tuple[float, ...]:
        offset = self._random.normal(math.log(factor), 0.007)
        return tuple(1e6 * np.exp(self._random.normal(offset, 0.007, NUM_PASSES)))


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
