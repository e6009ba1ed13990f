"""Weights of 4 bits in llama.cpp's blocks of 256 (Q4_K), by the least and the largest weight of each 32.

Source: `block_q4_K` in ggml's `ggml-common.h`: w = d s_j q - e m_j, with q of 4 bits, s_j and m_j of 6 bits for each
part j of 32 weights, and d and e of float16 for the block. The package `gguf` reads such blocks, and writes none.

Shapes: B blocks, 8 parts of 32 weights.
"""

from __future__ import annotations

from bench.onnxfile.deferred import np

BLOCK, PARTS = 256, 8
_MOST_WEIGHT, _MOST_SCALE = 15, 63


def packed(weights: np.ndarray) -> np.ndarray:
    """Matrices in float32 whose rows are multiples of 256 as uint8, 144 for each 256 weights."""
    parts = weights.reshape(-1, PARTS, BLOCK // PARTS).astype(np.float32)
    least = np.minimum(parts.min(axis=2), 0.0)
    step = (parts.max(axis=2) - least) / _MOST_WEIGHT
    scale, scales = _rounded(step)
    shift, shifts = _rounded(-least)
    real_step, real_shift = scale[:, None] * scales, shift[:, None] * shifts
    divisor = np.where(real_step > 0, real_step, 1.0)
    numbers = np.rint((parts + real_shift[..., None]) / divisor[..., None]).clip(0, _MOST_WEIGHT).astype(np.uint8)
    pairs = numbers.reshape(-1, PARTS // 2, 2, BLOCK // PARTS)
    halves = (pairs[:, :, 0] | pairs[:, :, 1] << 4).reshape(len(parts), -1)
    both = np.stack([scale, shift], axis=1).astype(np.float16).view(np.uint8)
    blocks = np.concatenate([both, _six_bits(scales, shifts), halves], axis=1)
    return np.ascontiguousarray(blocks.reshape(*weights.shape[:-1], -1))


def _rounded(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values (B, 8), none negative, as a factor (B,) that float16 holds and numbers (B, 8) of 6 bits."""
    factor = (values.max(axis=1) / _MOST_SCALE).astype(np.float16).astype(np.float32)
    divisor = np.where(factor > 0, factor, 1.0)
    return factor, np.rint(values / divisor[:, None]).clip(0, _MOST_SCALE).astype(np.uint8)


def _six_bits(scales: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    """Numbers of 6 bits, twice (B, 8), in 12 bytes: the upper two bits of the last four lie above the first four."""
    first, last = slice(0, 4), slice(4, 8)
    return np.concatenate(
        [
            scales[:, first] | (scales[:, last] >> 4) << 6,
            shifts[:, first] | (shifts[:, last] >> 4) << 6,
            (scales[:, last] & 15) | (shifts[:, last] & 15) << 4,
        ],
        axis=1,
    )
