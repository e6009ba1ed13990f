"""Weights of products on grids of few codes, each making up for the errors of those before."""

from __future__ import annotations

import numpy as np
import pytest

from bench.onnxfile.weights.clipping import limited
from bench.onnxfile.weights.feedback import fed_back

GRIDS = [(4, True, 32), (4, False, 32), (2, True, 32), (2, False, 16), (4, True, 128)]


def rounded(weights_KN: np.ndarray, bits: int, is_symmetric: bool, block_size: int) -> np.ndarray:
    """Weights as ONNX Runtime's quantizers store and restore them, block by block and column by column."""
    found_KN = np.empty(weights_KN.shape)
    for start in range(0, len(weights_KN), block_size):
        for column in range(weights_KN.shape[1]):
            block = weights_KN[start : start + block_size, column].astype(np.float64)
            least, largest = min(block.min(), 0), max(block.max(), 0)
            if is_symmetric:
                scale, zero = (largest if largest > -least else least) / -(2 ** (bits - 1)) or 1.0, 2 ** (bits - 1)
            else:
                scale = (largest - least) / (2**bits - 1) or 1.0
                zero = round(-least / scale)
            codes = [min(max(round(one / scale) + zero, 0), 2**bits - 1) for one in block]
            found_KN[start : start + block_size, column] = scale * (np.array(codes) - zero)
    return found_KN


def inputs(length: int, num_rows: int = 400) -> np.ndarray:
    """Inputs of which each two neighbours go together."""
    generator = np.random.default_rng(0)
    own_RK = generator.standard_normal((num_rows, length))
    return own_RK + 0.9 * np.roll(own_RK, 1, axis=1) + generator.standard_normal((num_rows, 1))


def weights(length: int) -> np.ndarray:
    """Random weights, and a column of ones."""
    random_KN = np.random.default_rng(1).standard_normal((length, 20))
    return np.hstack([random_KN, np.ones((length, 1))]).astype(np.float32)


@pytest.mark.parametrize("length", [64, 72])
@pytest.mark.parametrize(("bits", "is_symmetric", "block_size"), GRIDS)
def test_a_quantizer_gives_the_same_weights(bits: int, is_symmetric: bool, block_size: int, length: int) -> None:
    rows_RK = inputs(length)
    grid = {"bits": bits, "is_symmetric": is_symmetric, "block_size": block_size}
    found_KN = fed_back(weights(length), rows_RK.T @ rows_RK, **grid)  # type: ignore[arg-type]
    assert found_KN.dtype == np.float32
    np.testing.assert_allclose(rounded(found_KN, **grid), found_KN, rtol=1e-5, atol=1e-6)  # type: ignore[arg-type]


@pytest.mark.parametrize(("bits", "is_symmetric", "block_size"), GRIDS)
def test_products_are_nearer_than_those_of_the_nearest_weights(bits: int, is_symmetric: bool, block_size: int) -> None:
    weights_KN, rows_RK, others_RK = weights(64), inputs(64), inputs(64, 500)[400:]
    grid = {"bits": bits, "is_symmetric": is_symmetric, "block_size": block_size}
    found_KN = fed_back(weights_KN, rows_RK.T @ rows_RK, **grid)  # type: ignore[arg-type]
    nearest_KN = rounded(limited(weights_KN, axis=0, **grid), **grid)  # type: ignore[arg-type]
    errors = [((others_RK @ (each_KN - weights_KN)) ** 2).sum() for each_KN in (found_KN, nearest_KN)]
    assert errors[0] < 0.75 * errors[1]
    assert ((found_KN - weights_KN) ** 2).sum() >= ((nearest_KN - weights_KN) ** 2).sum()


@pytest.mark.parametrize("gram_KK", [np.eye(64), np.zeros((64, 64))])
def test_inputs_that_do_not_go_together_leave_the_nearest_codes(gram_KK: np.ndarray) -> None:
    weights_KN = weights(64)
    found_KN = fed_back(weights_KN, gram_KK, bits=4, block_size=32, is_symmetric=False)
    within_KN = limited(weights_KN, bits=4, block_size=32, axis=0, is_symmetric=False)
    np.testing.assert_allclose(found_KN, rounded(within_KN, 4, False, 32), rtol=1e-5, atol=1e-6)


def test_a_block_of_zeros_and_one_of_positive_weights_stay() -> None:
    weights_KN = np.zeros((64, 3), np.float32)
    weights_KN[32:] = np.linspace(0, 15, 32, dtype=np.float32).round()[:, None]
    for is_symmetric in (False, True):
        found_KN = fed_back(weights_KN, np.eye(64), bits=4, block_size=32, is_symmetric=is_symmetric)
        assert not found_KN[:32].any()
        assert np.isfinite(found_KN).all()
    np.testing.assert_allclose(fed_back(weights_KN, np.eye(64), bits=4, block_size=32, is_symmetric=False), weights_KN)
