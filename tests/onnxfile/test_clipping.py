"""Weights limited to the part of their range that a grid of few codes serves best."""

from __future__ import annotations

import numpy as np
import pytest

from bench.onnxfile.weights.clipping import limited


def rounded(weights_BW: np.ndarray, bits: int, is_symmetric: bool) -> np.ndarray:
    """Rows rounded one by one as ONNX Runtime's quantizers do, written without arrays."""
    rows = []
    for row in weights_BW.astype(np.float64):
        least, largest = min(row.min(), 0), max(row.max(), 0)
        if is_symmetric:
            scale, zero = (largest if largest > -least else least) / -(2 ** (bits - 1)) or 1.0, 2 ** (bits - 1)
        else:
            scale = (largest - least) / (2**bits - 1) or 1.0
            zero = round(-least / scale)
        rows.append([scale * (min(max(round(one / scale) + zero, 0), 2**bits - 1) - zero) for one in row])
    return np.array(rows)


def error(weights_BW: np.ndarray, of_BW: np.ndarray, bits: int, is_symmetric: bool) -> float:
    return float(((rounded(of_BW, bits, is_symmetric) - weights_BW) ** 2).sum() / (weights_BW**2).sum())


@pytest.mark.parametrize(
    ("bits", "is_symmetric", "before", "after"),
    [(2, True, 0.18, 0.136), (2, False, 0.253, 0.136), (4, True, 0.0107, 0.0096), (4, False, 0.0101, 0.009)],
)
def test_normal_weights_are_rounded_with_less_error(bits: int, is_symmetric: bool, before: float, after: float) -> None:
    weights_BW = np.random.default_rng(0).standard_normal((400, 128)).astype(np.float32)
    found_BW = limited(weights_BW, bits=bits, block_size=128, axis=1, is_symmetric=is_symmetric)
    assert error(weights_BW, weights_BW, bits, is_symmetric) == pytest.approx(before, rel=0.05)
    assert error(weights_BW, found_BW, bits, is_symmetric) == pytest.approx(after, rel=0.05)


def test_no_block_gets_worse_and_weights_within_stay_as_they_are() -> None:
    weights_BW = np.random.default_rng(1).standard_t(3, (50, 32)).astype(np.float32)
    found_BW = limited(weights_BW, bits=4, block_size=32, axis=1, is_symmetric=False)
    for row, found in zip(weights_BW, found_BW, strict=True):
        assert error(row[None], found[None], 4, False) <= error(row[None], row[None], 4, False) * (1 + 1e-9)
    is_within = (weights_BW > found_BW.min(axis=1, keepdims=True)) & (weights_BW < found_BW.max(axis=1, keepdims=True))
    np.testing.assert_array_equal(found_BW[is_within], weights_BW[is_within])


def test_blocks_lie_along_the_axis_and_the_last_may_be_shorter() -> None:
    weights = np.random.default_rng(2).standard_normal((40, 6)).astype(np.float32)
    found = limited(weights, bits=2, block_size=32, axis=0, is_symmetric=True)
    assert found.shape == weights.shape
    assert found.dtype == np.float32
    for column in range(6):
        for rows in (slice(0, 32), slice(32, 40)):
            alone = limited(weights[rows, column][None], bits=2, block_size=32, axis=1, is_symmetric=True)
            np.testing.assert_array_equal(found[rows, column], alone[0])


@pytest.mark.parametrize("is_symmetric", [True, False])
def test_zeros_and_one_sign(is_symmetric: bool) -> None:
    zeros = np.zeros((2, 4), np.float32)
    np.testing.assert_array_equal(limited(zeros, bits=4, block_size=4, axis=1, is_symmetric=is_symmetric), zeros)
    above = np.linspace(1, 2, 32, dtype=np.float32)[None]
    found = limited(above, bits=4, block_size=32, axis=1, is_symmetric=is_symmetric)
    assert error(above, found, 4, is_symmetric) <= error(above, above, 4, is_symmetric)
