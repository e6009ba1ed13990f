"""Weights of products moved onto a grid of few codes, each next weight making up for the errors of those before.

Rounding to the nearest code makes the least error of the weights. What counts is the error of the products, and the
inputs of a product are correlated: the error of one weight can be made up for by those of inputs that go with its own.
"""

from __future__ import annotations

from bench.onnxfile.deferred import np
from bench.onnxfile.weights.clipping import grids, limited

_DAMPING = 0.01
"""What is added to the squares of the inputs, as a share of their mean: few samples leave directions without any."""


def fed_back(
    weights_KN: np.ndarray, gram_KK: np.ndarray, *, bits: int, block_size: int, is_symmetric: bool
) -> np.ndarray:
    """Weights on the grids of their blocks, such that a product's output changes little.

    A quantizer that takes the extremes of a block for its grid gives each weight the code that it has here, for the
    extremes of the limited weights keep their codes.

    Args:
        weights_KN: float32, of a product that sums over K.
        gram_KK: sum of the products of each two inputs of it, over the rows of all samples.
        bits: of a code.
        block_size: weights along K that share a scale; the last block may have fewer.
        is_symmetric: see `limited`.

    Returns:
        float32, (K, N).

    Source: Frantar et al. 2023, "GPTQ", with grids that are chosen before.
    """
    length, width = weights_KN.shape
    within_KN = limited(weights_KN, bits=bits, block_size=block_size, axis=0, is_symmetric=is_symmetric)
    padded = np.pad(within_KN.astype(np.float64), [(0, -length % block_size), (0, 0)])
    blocks_BSN = padded.reshape(-1, block_size, width)
    scale_BN, zero_BN = (each[:, 0] for each in grids(blocks_BSN, bits, is_symmetric))
    fixed_KN = _fixed(blocks_BSN, bits, is_symmetric).reshape(-1, width)
    factor_KK = _factor(gram_KK)
    left_KN, found_KN = weights_KN.astype(np.float64), np.empty((length, width))
    for row in range(length):
        scale_N, zero_N = scale_BN[row // block_size], zero_BN[row // block_size]
        codes_N = np.clip(np.rint(left_KN[row] / scale_N) + zero_N, 0, 2**bits - 1)
        codes_N = np.where(fixed_KN[row] >= 0, fixed_KN[row], codes_N)
        found_KN[row] = scale_N * (codes_N - zero_N)
        error_N = (left_KN[row] - found_KN[row]) / factor_KK[row, row]
        left_KN[row + 1 :] -= np.outer(factor_KK[row, row + 1 :], error_N)
    return found_KN.astype(np.float32)


def _fixed(blocks_BSN: np.ndarray, bits: int, is_symmetric: bool) -> np.ndarray:
    """The codes of the extremes, which make the grid, (B, S, N); -1 for all other weights."""
    codes = np.full(blocks_BSN.shape, -1)
    largest = blocks_BSN.argmax(axis=1)[:, None]
    least = blocks_BSN.argmin(axis=1)[:, None]
    most_B1N, least_B1N = (np.take_along_axis(blocks_BSN, at, axis=1) for at in (largest, least))
    if is_symmetric:
        extreme = np.where(most_B1N > -least_B1N, largest, least)
        np.put_along_axis(codes, extreme, np.where((most_B1N > 0) | (least_B1N < 0), 0, -1), axis=1)
        return codes
    np.put_along_axis(codes, least, np.where(least_B1N < 0, 0, -1), axis=1)
    np.put_along_axis(codes, largest, np.where(most_B1N > 0, 2**bits - 1, -1), axis=1)
    return codes


def _factor(gram_KK: np.ndarray) -> np.ndarray:
    """The upper triangular factor of the inverse of the damped matrix."""
    diagonal = np.diag(gram_KK)
    damping = _DAMPING * diagonal.mean() or 1.0  # inputs that are always zero leave rounding to the nearest code
    inverse_KK = np.linalg.inv(gram_KK.astype(np.float64) + damping * np.eye(len(gram_KK)))
    factor: np.ndarray = np.linalg.cholesky((inverse_KK + inverse_KK.T) / 2).T
    return factor
