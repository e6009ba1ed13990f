"""The A/A alarm: the baseline's second copy over its first, held against launches that are not its own."""

from __future__ import annotations

import numpy as np
import pytest

from bench.measure.joint import Observation
from bench.measure.model import LEAST_PAIRS, fit
from bench.measure.stats import Effect

CELLS = ("a", *(f"b{number}" for number in range(5)), *(f"c{number}" for number in range(5)))


def control(num_blocks: int, shift: float, *, launch: float = 0.012, seed: int = 0) -> Effect | None:
    """Of a sweep of eleven cells, with one launch in each block; the second copy of `a` is slower by `shift`."""
    random = np.random.default_rng(seed)
    found = []
    for block in range(num_blocks):
        for cell in ("a", *CELLS):
            level = launch * random.normal() + (shift if len(found) % (len(CELLS) + 1) == 0 else 0.0)
            seen = {"cell": cell, "program": cell[0], "block": block, "time_s": 60.0 * block, "variance": 1e-6}
            found.append(Observation(level=-level, **seen))  # the first of the two is faster
    return fit([found])[0].control("a")


def is_alarm(effect: Effect | None) -> bool:
    return effect is not None and abs(effect.value) > effect.half_width()


def test_below_three_blocks_no_alarm_is_possible() -> None:
    assert LEAST_PAIRS == 3
    assert control(2, 1.0) is None
    assert control(3, 0.0) is not None


def test_value_is_the_mean_of_the_changes() -> None:
    plain, shifted = control(4, 0.0), control(4, 0.25)
    assert plain is not None
    assert shifted is not None
    assert shifted.value - plain.value == pytest.approx(0.25)


def test_change_does_not_widen_its_own_interval() -> None:
    """Were the variance that of the pairs themselves, it would grow with what they are to be held against."""
    plain, shifted = control(3, 0.0), control(3, 0.5)
    assert plain is not None
    assert shifted is not None
    assert shifted.error < 1.3 * plain.error
    assert is_alarm(shifted)


@pytest.mark.parametrize("num_blocks", [3, 5])
def test_planted_shift_of_a_tenth_raises_the_alarm_and_nothing_does_not(num_blocks: int) -> None:
    alarms = {shift: sum(is_alarm(control(num_blocks, shift, seed=seed)) for seed in range(20)) for shift in (0.0, 0.1)}
    assert alarms[0.0] <= 2
    assert alarms[0.1] >= 18
