"""Noisy bisection: simulated measurements of versions, one of which brought a slowdown of known size."""

from __future__ import annotations

import numpy as np
import pytest

from bench.measure import bisection
from bench.measure.stats import Effect


def search(
    rng: np.random.Generator, *, first_bad: int, count: int, slower: float, error: float
) -> tuple[int, int, float]:
    """The version found, the number of measurements, and the chance of error that was told."""

    def measured(index: int) -> Effect:
        value = slower * (index >= first_bad) + rng.normal(0, error)
        return Effect(value=float(value), error=error, freedom=20.0)

    change, state, steps = measured(count - 1), bisection.start(count), 0
    while state.chance_of_error > 0.05 and steps < 30:
        state = bisection.after(state, index := state.next(), measured(index), change)
        steps += 1
    return state.found, steps, state.chance_of_error


@pytest.mark.parametrize("error", [0.005, 0.012])
def test_the_chance_of_error_is_what_it_says(error: float) -> None:
    rng = np.random.default_rng(7)
    count, wrong, told, steps = 7, 0, 0.0, []
    for trial in range(400):
        first_bad = trial % count
        found, taken, chance = search(rng, first_bad=first_bad, count=count, slower=0.05, error=error)
        wrong += found != first_bad
        told += chance
        steps.append(taken)
    assert wrong / 400 <= 0.05
    assert wrong / 400 <= told / 400 + 0.02  # not surer than it is right
    assert np.mean(steps) <= {0.005: 3.5, 0.012: 7.0}[error]  # a certain bisection of 7 takes 2.8


def test_a_single_disturbed_measurement_excludes_nothing() -> None:
    state = bisection.start(4)
    change = Effect(value=0.05, error=0.002, freedom=30.0)
    state = bisection.after(state, 1, Effect(value=0.05, error=0.002, freedom=30.0), change)
    assert state.chances[0] + state.chances[1] > 0.98
    assert min(state.chances) > 0


def test_the_version_nearest_to_even_odds_is_next() -> None:
    assert bisection.start(8).next() == 3
    assert bisection.State(chances=(0.1, 0.1, 0.1, 0.6, 0.1)).next() == 2
    assert bisection.State(chances=(0.05, 0.95)).next() == 0


def test_certain_observations_halve_the_versions() -> None:
    state = bisection.start(8)
    steps = 0
    while state.chance_of_error > 0:
        index = state.next()
        state = bisection.after_certain(state, index, is_bad=index >= 5)
        steps += 1
    assert (state.found, steps) == (5, 3)
