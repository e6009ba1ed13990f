"""The inverse of the covariance of a program's launches, and what an estimate leaves, against the plain formulas."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from bench.measure.program import Program

CELL_N = np.array([0, 1, 0, 1, 2, 0, 2, 1, 0])
BLOCK_N = np.array([0, 0, 1, 1, 1, 2, 2, 3, 3])


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


def program(design_En: np.ndarray) -> Program:
    return Program(
        members_n=np.arange(len(CELL_N)),
        cells_c=np.arange(3),
        of_cells=[np.flatnonzero(cell == CELL_N) for cell in range(3)],
        block_n=BLOCK_N,
        first_b=np.flatnonzero(np.diff(BLOCK_N, prepend=-1)),
        design_En=sparse.csr_array(design_En),
        kernels={},
        place_b=np.zeros(4, int),
    )


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e4])
def test_inverse_and_residuals_are_those_of_dense_matrices(random: np.random.Generator, size: float) -> None:
    """Whether blocks share far less or far more than what is a launch's own."""
    is_cell_nc, is_block_nb = (np.equal.outer(of, np.arange(of.max() + 1)).astype(float) for of in (CELL_N, BLOCK_N))
    design_nE = np.hstack([is_cell_nc, is_block_nb[:, 1:]])
    root_bb = random.normal(size=(4, 4))
    effect_bb, variance_n = size * root_bb @ root_bb.T, random.uniform(0.5, 2, len(CELL_N))
    inverse_nn = np.linalg.inv(is_block_nb @ effect_bb @ is_block_nb.T + np.diag(variance_n))
    level_n = random.normal(size=len(CELL_N))
    estimator_En = np.linalg.solve(design_nE.T @ inverse_nn @ design_nE, design_nE.T @ inverse_nn)
    residual_nn = inverse_nn - inverse_nn @ design_nE @ estimator_En

    found = program(design_nE.T)
    precision = found.weigh(effect_bb, variance_n)
    weighted_nE = precision.times(design_nE)
    found.note_residuals(precision, weighted_nE, estimator_En, level_n, estimator_En @ level_n)

    close = {"rtol": 1e-9, "atol": 1e-10}
    np.testing.assert_allclose(weighted_nE, inverse_nn @ design_nE, **close)
    np.testing.assert_allclose(precision.of_blocks(), is_block_nb.T @ inverse_nn @ is_block_nb, **close)
    np.testing.assert_allclose(found.residual_bb, is_block_nb.T @ residual_nn @ is_block_nb, **close)
    np.testing.assert_allclose(found.residual_b, is_block_nb.T @ residual_nn @ level_n, **close)
    for cell, own_n in enumerate(found.of_cells):
        own_nn = residual_nn[np.ix_(own_n, own_n)]
        np.testing.assert_allclose(precision.among(own_n), inverse_nn[np.ix_(own_n, own_n)], **close)
        assert found.score_c[cell] == pytest.approx(((residual_nn @ level_n)[own_n] ** 2).sum() - np.trace(own_nn))
        assert found.information_c[cell] == pytest.approx((own_nn**2).sum(), abs=1e-12)
