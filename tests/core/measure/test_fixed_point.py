"""Fixed points that are found in fewer steps than the map takes to come near them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from bench.measure.fixed_point import MOST_LEAP, NEAR, Mixture


def steps_to_rest(
    step: Callable[[np.ndarray], np.ndarray], start_V: np.ndarray, *, mixed: bool
) -> tuple[int, np.ndarray]:
    """The number of steps until one is smaller than 1e-8, and where that is."""
    mixture = Mixture()
    for number in range(1, 1000):
        end_V = step(start_V)
        if np.abs(end_V - start_V).max() < 1e-8:
            return number, end_V
        start_V = mixture.next_start(start_V, end_V) if mixed else end_V
    raise AssertionError("no rest")


def test_a_linear_map_comes_to_rest_in_few_steps() -> None:
    """It keeps 0.95, 0.6 and -0.8 of the way to its end along three directions."""
    turned_VV = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    kept_VV = turned_VV @ np.diag([0.95, 0.6, -0.8, 0.0, 0.0, 0.0]) @ turned_VV.T
    end_V = np.arange(6.0)
    start_V = end_V + 0.02 * turned_VV.sum(axis=1)

    def step(from_V: np.ndarray) -> np.ndarray:
        return end_V + kept_VV @ (from_V - end_V)

    number, found_V = steps_to_rest(step, start_V, mixed=True)
    plain, _ = steps_to_rest(step, start_V, mixed=False)
    assert number <= 8
    assert plain > 200
    np.testing.assert_allclose(found_V, end_V, atol=1e-7)


def test_large_steps_are_taken_as_they_are() -> None:
    mixture = Mixture()
    start_V, far_V, farther_V = np.zeros(2), np.array([0.0, 2 * NEAR]), np.array([0.0, 3 * NEAR])
    assert mixture.next_start(start_V, far_V) is far_V
    np.testing.assert_allclose(mixture.next_start(far_V, farther_V), farther_V)


def test_a_map_that_swings_comes_to_rest_where_it_turns_back() -> None:
    """One value jumps to and fro between 0 and 1, and by itself never rests; the other comes nearer by a half."""

    def step(from_V: np.ndarray) -> np.ndarray:
        return np.array([1 - from_V[0], from_V[1] / 2])

    with pytest.raises(AssertionError, match="no rest"):
        steps_to_rest(step, np.array([0.0, 4.0]), mixed=False)
    number, found_V = steps_to_rest(step, np.array([0.0, 4.0]), mixed=True)
    assert number < 20
    np.testing.assert_allclose(found_V, [0.5, 0.0], atol=1e-7)


def test_the_way_beyond_a_step_is_bounded() -> None:
    """Two steps that hardly differ say that the end is 100,000 steps away."""
    mixture = Mixture()
    first_V = mixture.next_start(np.zeros(1), np.full(1, NEAR / 2))
    found_V = mixture.next_start(first_V, first_V + 0.99999 * NEAR / 2)
    assert found_V[0] == pytest.approx(first_V[0] + NEAR / 2 + MOST_LEAP, rel=1e-4)
