"""The inverse of the covariance of a program's launches, and what an estimate leaves, against the plain formulas."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from bench.measure.runtime_effects import Program, by_count

CELL_N = np.array([0, 1, 0, 1, 2, 0, 2, 1, 0])
BLOCK_N = np.array([0, 0, 1, 1, 1, 2, 2, 3, 3])


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


def program(design_en: np.ndarray) -> Program:
    return Program(
        members_n=np.arange(len(CELL_N)),
        cells_c=np.arange(3),
        of_cells=by_count(CELL_N),
        block_n=BLOCK_N,
        first_b=np.flatnonzero(np.diff(BLOCK_N, prepend=-1)),
        estimates_e=np.arange(len(design_en)),
        design_en=sparse.csr_array(design_en),
        kernels={},
        machine_b=np.zeros(4, int),
    )


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e4])
def test_inverse_and_residuals_are_those_of_dense_matrices(random: np.random.Generator, size: float) -> None:
    """Whether blocks share far less or far more than what is a launch's own."""
    is_cell_nc, is_block_nb = (np.equal.outer(of, np.arange(of.max() + 1)).astype(float) for of in (CELL_N, BLOCK_N))
    design_ne = np.hstack([is_cell_nc, is_block_nb[:, 1:]])
    root_bb = random.normal(size=(4, 4))
    effect_bb, variance_n = size * root_bb @ root_bb.T, random.uniform(0.5, 2, len(CELL_N))
    inverse_nn = np.linalg.inv(is_block_nb @ effect_bb @ is_block_nb.T + np.diag(variance_n))
    level_n = random.normal(size=len(CELL_N))
    covariance_ee = np.linalg.inv(design_ne.T @ inverse_nn @ design_ne)
    estimator_en = covariance_ee @ design_ne.T @ inverse_nn
    residual_nn = inverse_nn - inverse_nn @ design_ne @ estimator_en

    found = program(design_ne.T)
    precision = found.weigh(effect_bb, variance_n)
    weighted_ne = precision.times(design_ne)
    found.note_residuals(precision, weighted_ne, covariance_ee, level_n, estimator_en @ level_n)

    close = {"rtol": 1e-9, "atol": 1e-10}
    np.testing.assert_allclose(weighted_ne, inverse_nn @ design_ne, **close)
    np.testing.assert_allclose(precision.of_blocks(), is_block_nb.T @ inverse_nn @ is_block_nb, **close)
    np.testing.assert_allclose(found.residual_bb, is_block_nb.T @ residual_nn @ is_block_nb, **close)
    np.testing.assert_allclose(found.residual_b, is_block_nb.T @ residual_nn @ level_n, **close)
    np.testing.assert_allclose(found.diagonal_n, np.diag(residual_nn), **close)
    for cell in range(3):
        own_n = np.flatnonzero(cell == CELL_N)
        own_nn, own_residual_n = residual_nn[np.ix_(own_n, own_n)], (residual_nn @ level_n)[own_n]
        np.testing.assert_allclose(precision.among(own_n[None])[0], inverse_nn[np.ix_(own_n, own_n)], **close)
        assert found.score_c[cell] == pytest.approx((own_residual_n**2).sum() - np.trace(own_nn))
        assert found.information_c[cell] == pytest.approx((own_nn**2).sum(), abs=1e-12)


def likelihood(variance_n: np.ndarray, effect_nn: np.ndarray, design_ne: np.ndarray, level_n: np.ndarray) -> float:
    """Twice the restricted log-likelihood, but for a constant."""
    covariance_nn = effect_nn + np.diag(variance_n)
    inverse_nn = np.linalg.inv(covariance_nn)
    normal_ee = design_ne.T @ inverse_nn @ design_ne
    residual_nn = inverse_nn - inverse_nn @ design_ne @ np.linalg.solve(normal_ee, design_ne.T @ inverse_nn)
    return float(
        -np.linalg.slogdet(covariance_nn)[1] - np.linalg.slogdet(normal_ee)[1] - level_n @ residual_nn @ level_n
    )


def test_score_and_curvature_are_derivatives_of_the_likelihood(random: np.random.Generator) -> None:
    """Against differences of the plain likelihood in the variance of one cell."""
    is_cell_nc, is_block_nb = (np.equal.outer(of, np.arange(of.max() + 1)).astype(float) for of in (CELL_N, BLOCK_N))
    design_ne = np.hstack([is_cell_nc, is_block_nb[:, 1:]])
    root_bb = random.normal(size=(4, 4))
    effect_bb, variance_n = root_bb @ root_bb.T, random.uniform(0.5, 2, len(CELL_N))
    effect_nn = is_block_nb @ effect_bb @ is_block_nb.T
    level_n = 2 * random.normal(size=len(CELL_N))
    found = program(design_ne.T)
    precision = found.weigh(effect_bb, variance_n)
    weighted_ne = precision.times(design_ne)
    covariance_ee = np.linalg.inv(design_ne.T @ weighted_ne)
    found.note_residuals(precision, weighted_ne, covariance_ee, level_n, covariance_ee @ weighted_ne.T @ level_n)

    for cell in range(3):
        step_n = 1e-3 * is_cell_nc[:, cell]
        less, here, more = (
            likelihood(variance_n + times * step_n, effect_nn, design_ne, level_n) for times in (-1, 0, 1)
        )
        assert found.score_c[cell] == pytest.approx((more - less) / 2e-3, rel=1e-4, abs=1e-6)
        assert found.curvature_c[cell] == pytest.approx(-(more - 2 * here + less) / 1e-6, rel=1e-3, abs=1e-3)


def test_cells_are_taken_together_by_the_number_of_their_launches() -> None:
    (pairs, pair_gk), (others, other_gk) = by_count(np.array([0, 1, 2, 0, 2, 1, 3, 3, 3]))
    assert pairs.tolist() == [0, 1, 2]
    assert pair_gk.tolist() == [[0, 3], [1, 5], [2, 4]]
    assert (others.tolist(), other_gk.tolist()) == ([3], [[6, 7, 8]])
