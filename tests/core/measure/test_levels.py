"""Levels of launches from noisy passes, and whether their errors are as large as is claimed."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from bench.measure.levels import levels

Noise = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def normal(random: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return random.normal(size=shape)


def neighbours(random: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Normal noise, and a neighbour that slows 15 % of the bursts by ten deviations on average."""
    return random.normal(size=shape) + (random.random(shape) < 0.15) * random.exponential(10, size=shape)


def test_levels_of_passes_without_noise() -> None:
    speed_P = np.array([1.0, 2.0, 1.0, 1.5, 1.0])
    found = levels(np.outer([100.0, 150.0, 80.0], speed_P))
    assert np.exp(found.log_ns) == pytest.approx([100, 150, 80], rel=1e-4)
    assert found.variances == pytest.approx(0, abs=1e-9)


def test_bursts_that_a_neighbour_slowed_count_for_nothing() -> None:
    passes_LP = np.full((3, 9), 100.0) * np.exp(0.01 * np.random.default_rng(1).normal(size=(3, 9)))
    alone = levels(passes_LP).log_ns
    passes_LP[0, :3] *= 2
    assert levels(passes_LP).log_ns - alone == pytest.approx(0, abs=0.008)


def test_one_pass_tells_no_error() -> None:
    found = levels(np.array([[100.0], [50.0]]))
    assert found.log_ns[0] - found.log_ns[1] == pytest.approx(math.log(2))
    assert list(found.variances) == [0, 0]


def test_launch_alone_in_its_block_is_the_median_of_its_passes() -> None:
    found = levels(np.array([[100.0, 110.0, 900.0]]))
    assert np.exp(found.log_ns) == pytest.approx([110])
    assert list(found.variances) == [0]


@pytest.mark.parametrize("noise", [normal, neighbours])
@pytest.mark.parametrize(
    ("num_launches", "num_passes"),
    [
        (3, 5),
        (10, 30),
        pytest.param(3, 15, marks=pytest.mark.thorough),
        pytest.param(10, 5, marks=pytest.mark.thorough),
    ],
)
def test_claimed_error_is_the_true_error(num_launches: int, num_passes: int, noise: Noise) -> None:
    random = np.random.default_rng(0)
    errors, claimed = [], []
    for _ in range(400):
        drift_P = np.cumsum(0.02 * random.normal(size=num_passes))
        found = levels(np.exp(10 + drift_P + 0.02 * noise(random, (num_launches, num_passes))))
        errors.append(found.log_ns[0] - found.log_ns[1])
        claimed.append(found.variances[0] + found.variances[1])
    covered = np.mean(np.abs(errors) <= 1.96 * np.sqrt(claimed))
    assert 0.92 <= covered <= 1
    assert 0.9 <= math.sqrt(np.mean(claimed)) / np.std(errors) <= 1.5
