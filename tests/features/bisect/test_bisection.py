"""Noisy bisection: simulated measurements of versions, one of which brought a slowdown of known size."""

from __future__ import annotations

import numpy as np
import pytest

from bench.features.bisect import bisection
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
    return state.first_bad, steps, state.chance_of_error


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


def test_the_chance_of_error_counts_that_the_slowdown_itself_is_measured() -> None:
    """Noise about as large as the slowdown: all steps share the error of the bad version's measurement."""
    rng = np.random.default_rng(7)
    wrong, told, num = 0, 0.0, 0
    for trial in range(400):
        change = Effect(value=0.05 + float(rng.normal(0, 0.028)), error=0.028, freedom=20.0)
        if change.ratio().low < 1.005 or num == 40:
            continue
        state, first_bad = bisection.start(7), trial % 7
        for _ in range(30):
            if state.chance_of_error <= 0.05:
                break
            index = state.next()
            value = 0.05 * (index >= first_bad) + float(rng.normal(0, 0.046))
            state = bisection.after(state, index, Effect(value=value, error=0.046, freedom=20.0), change)
        wrong, told, num = wrong + (state.first_bad != first_bad), told + state.chance_of_error, num + 1
    assert num == 40
    assert wrong / num <= told / num + 0.08


def test_a_version_that_cannot_be_measured_leaves_its_chance_to_the_next() -> None:
    change = Effect(value=0.05, error=0.002, freedom=30.0)
    state = bisection.after(bisection.start(4), 2, change, change)
    found = bisection.without(state, 1)
    assert found.chances == pytest.approx((state.chances[0], sum(state.chances[1:3]), state.chances[3]))
    assert [index for index, _ in found.measured] == [1]
    again = bisection.after(found, 1, change, change)
    assert again.chances[1] == pytest.approx(2 * again.chances[0])


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
    assert (state.first_bad, steps) == (5, 3)
