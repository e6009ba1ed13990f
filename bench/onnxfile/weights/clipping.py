"""Weights limited to the part of their range in which few codes serve them best.

Rounding to a grid between the extremes of a block spends the codes on its rarest weights. A grid over a smaller range
rounds all others more finely, and is wrong by more for the few beyond it; with 2 bits the best range is far from whole.
A quantizer that takes the extremes for its grid finds the better grid in weights that were limited before.
"""

from __future__ import annotations

from bench.onnxfile.deferred import np

_SHARES = tuple(share / 40 for share in range(40, 11, -1))
"""Parts of the range of a block that are tried."""


def limited(weights: np.ndarray, *, bits: int, block_size: int, axis: int, is_symmetric: bool) -> np.ndarray:
    """Weights, each limited to the part of its block's range that rounding to `2**bits` codes serves best.

    Args:
        weights: float32.
        bits: of a code.
        block_size: weights that share a scale; the last block along the axis may have fewer.
        axis: along which the blocks lie.
        is_symmetric: whether 0 is the middle code. The weight of the largest magnitude then has the lowest code, as in
            ONNX Runtime's quantizers; otherwise the codes go from the least to the largest, 0 included.
    """
    length = weights.shape[axis]
    last_BW = np.moveaxis(weights, axis, -1).astype(np.float64)
    padding = [(0, 0)] * (weights.ndim - 1) + [(0, -length % block_size)]
    padded = np.pad(last_BW, padding)  # zeros lie in every range
    blocks_BW = padded.reshape(-1, block_size)
    least, largest = _extremes(blocks_BW)
    best_BW, error_B = blocks_BW, np.full(len(blocks_BW), np.inf)
    for share in _SHARES:
        within_BW = np.clip(blocks_BW, share * least, share * largest)
        found_B = ((_rounded(within_BW, bits, is_symmetric) - blocks_BW) ** 2).sum(axis=1)
        is_better_B = found_B < error_B
        best_BW = np.where(is_better_B[:, None], within_BW, best_BW)
        error_B = np.where(is_better_B, found_B, error_B)
    unpadded = best_BW.reshape(padded.shape)[..., :length]
    return np.ascontiguousarray(np.moveaxis(unpadded, -1, axis)).astype(weights.dtype)


def _extremes(blocks_BW: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest of each block and 0, along axis 1."""
    least, largest = blocks_BW.min(axis=1, keepdims=True), blocks_BW.max(axis=1, keepdims=True)
    return np.minimum(least, 0), np.maximum(largest, 0)


def grids(blocks: np.ndarray, bits: int, is_symmetric: bool) -> tuple[np.ndarray, np.ndarray]:
    """The scale and the code of zero that a quantizer gives blocks that lie along axis 1, which has one number then.

    A block of zeros has the scale 1.
    """
    least, largest = _extremes(blocks)
    span = np.where(largest > -least, largest, least) / -(2 ** (bits - 1))
    scale = span if is_symmetric else (largest - least) / (2**bits - 1)
    scale = np.where(scale == 0, 1, scale)
    return scale, np.full(scale.shape, 2.0 ** (bits - 1)) if is_symmetric else np.rint(-least / scale)


def _rounded(blocks_BW: np.ndarray, bits: int, is_symmetric: bool) -> np.ndarray:
    """Blocks as a quantizer stores and restores them."""
    scale, zero = grids(blocks_BW, bits, is_symmetric)
    return scale * (np.clip(np.rint(blocks_BW / scale) + zero, 0, 2**bits - 1) - zero)
