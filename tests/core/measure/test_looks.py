"""Levels of repeated looks: published constants, and simulated walks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from bench.measure.looks import nominal


@pytest.mark.parametrize(
    ("looks", "alpha", "bound"),
    [(1, 0.05, 1.960), (2, 0.05, 2.178), (5, 0.05, 2.413), (10, 0.05, 2.555), (20, 0.05, 2.672), (5, 0.01, 2.986)],
)
def test_bounds_are_those_of_pocock(looks: int, alpha: float, bound: float) -> None:
    """Table 2.1 of Jennison and Turnbull 2000, "Group Sequential Methods"."""
    assert -special.ndtri(nominal(alpha, looks) / 2) == pytest.approx(bound, abs=0.002)


@pytest.mark.parametrize("alpha", [0.05, 0.005])
def test_sixteen_looks_together_are_wrong_as_rarely_as_one(alpha: float) -> None:
    steps = np.random.default_rng(1).normal(size=(40_000, 16))
    walks = np.abs(np.cumsum(steps, axis=1)) / np.sqrt(np.arange(1, 17))
    crossed = (walks.max(axis=1) > -special.ndtri(nominal(alpha, 16) / 2)).mean()
    assert crossed == pytest.approx(alpha, rel=0.12)
    assert (walks.max(axis=1) > -special.ndtri(alpha / 2)).mean() > 3 * alpha, "looks at the level of one look"


@pytest.mark.parametrize("looks", [64, 256])
def test_many_looks_together_are_wrong_as_rarely_as_one(looks: int) -> None:
    steps = np.random.default_rng(2).normal(size=(20_000, looks)).astype(np.float32)
    walks = np.abs(np.cumsum(steps, axis=1)) / np.sqrt(np.arange(1, looks + 1))
    crossed = (walks.max(axis=1) > -special.ndtri(nominal(0.05, looks) / 2)).mean()
    assert crossed == pytest.approx(0.05, rel=0.1)


@pytest.mark.parametrize(("alpha", "numbers"), [(0.05, (1, 2, 16, 128, 256, 257, 1000)), (1e-7, (1, 2, 16, 60))])
def test_the_more_looks_the_stricter_is_each(alpha: float, numbers: tuple[int, ...]) -> None:
    levels = [nominal(alpha, looks) for looks in numbers]
    assert levels == sorted(levels, reverse=True)
    assert levels[-1] > alpha / numbers[-1]


def test_level_lies_between_that_of_one_look_and_bonferroni() -> None:
    for alpha in (1e-6, 1e-3, 0.3):
        assert alpha / 16 < nominal(alpha, 16) < alpha
    assert nominal(1.0, 16) == 1.0
