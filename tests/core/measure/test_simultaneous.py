"""Levels of comparisons with the fastest: values of a published table, and the limits of correlation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from bench.measure import simultaneous


def bound(level: float) -> float:
    return float(-special.ndtri(level))


@pytest.mark.parametrize(("others", "expected"), [(1, 1.645), (2, 1.92), (3, 2.06), (4, 2.16), (5, 2.23), (9, 2.42)])
def test_of_equal_independent_cells_it_is_the_bound_of_dunnetts_table(others: int, expected: float) -> None:
    """Table 1a of Dunnett 1955, doi 10.1080/01621459.1955.10501294: 5 % on one side, of known variance."""
    assert bound(simultaneous.level(np.eye(others + 1), 0.05)) == pytest.approx(expected, abs=0.025)


def test_what_all_cells_have_in_common_changes_nothing() -> None:
    alone = simultaneous.level(np.eye(4), 0.045)
    assert simultaneous.level(np.eye(4) + 7.0, 0.045) == pytest.approx(alone, rel=0.04)


def test_cells_that_err_as_one_count_as_one() -> None:
    """Three cells share the state of their program, and one of another program is beside them."""
    state_CC = np.kron(np.diag([1.0, 0.0]), np.ones((3, 3)))[:4, :4]
    assert simultaneous.level(state_CC + 1e-6 * np.eye(4), 0.045) == pytest.approx(0.015, rel=0.1)
    # With the cell of the other program as the fastest it would be one comparison; that is not known.
    assert simultaneous.level(state_CC + np.diag([0.0, 0.0, 0.0, 1.0]), 0.045) == pytest.approx(0.045, rel=0.04)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_between_bonferronis_and_that_of_one_comparison(seed: int) -> None:
    root_CC = np.random.default_rng(seed).normal(size=(6, 6))
    found = simultaneous.level(root_CC @ root_CC.T, 0.045)
    assert 0.045 / 5 <= found <= 0.045


@pytest.mark.parametrize("seed", range(3))
def test_any_comparison_with_any_cell_is_wrong_as_rarely_as_is_said(seed: int) -> None:
    random = np.random.default_rng(seed)
    root_CC = random.normal(size=(5, 5)) * np.array([0.2, 1, 1, 2, 3])
    covariance_CC = root_CC @ root_CC.T
    level = simultaneous.level(covariance_CC, 0.045)
    error_TC = random.normal(size=(40_000, 5)) @ root_CC.T
    for fastest in range(5):
        others = [cell for cell in range(5) if cell != fastest]
        variance = np.diag(covariance_CC)[others] + covariance_CC[fastest, fastest] - 2 * covariance_CC[others, fastest]
        wrong_T = ((error_TC[:, others] - error_TC[:, [fastest]]) / np.sqrt(variance) > bound(level)).any(axis=1)
        assert wrong_T.mean() <= 0.045 + 0.004


def test_of_many_cells_it_is_bonferronis() -> None:
    assert simultaneous.level(np.eye(31), 0.045) == pytest.approx(0.0015)
