"""Affine quantization of weights in NumPy, such that ONNX's DequantizeLinear restores them.

`weight = (code - zero point) * scale`, with codes of 4 or 8 bits. Symmetric ones are signed, and their zero point is 0,
which is not stored. They go from -7 to 7 or from -127 to 127: with -8 or -128 as the code of the largest magnitude, a
weight as large but of the other sign would be wrong by a whole scale. Asymmetric ones are unsigned, use all codes, and
their range includes 0. So 0 is exact either way, and every weight is stored with an error of half a scale at most.

Source: QuantizeLinear and DequantizeLinear of the ONNX operator set 21 (rounding is to the nearest, half to even).
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

from bench.api.errors import ArtifactError, InputError
from bench.onnxfile.deferred import np

TENSOR, CHANNEL, BLOCK = "tensor", "channel", "block"
BLOCK_SIZE = 32
"""Weights that share a scale, so that a float32 scale costs one bit for each weight."""
_SCALE_BYTES = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scheme:
    """How weights are quantized.

    Attributes:
        bits: 4 or 8.
        symmetric: whether 0 is the middle of the range.
        per: the weights that share a scale: the `tensor`, a `channel` (one index along an axis) or a `block` of 32
            along an axis.
    """

    bits: int
    symmetric: bool
    per: str

    @property
    def name(self) -> str:
        """Such as `int4-sym-block`."""
        return f"int{self.bits}-{'sym' if self.symmetric else 'asym'}-{self.per}"

    @property
    def lowest(self) -> int:
        """The smallest code."""
        return 1 - 2 ** (self.bits - 1) if self.symmetric else 0

    @property
    def highest(self) -> int:
        """The largest code."""
        return 2 ** (self.bits - 1) - 1 if self.symmetric else 2**self.bits - 1

    def scale_shape(self, shape: Sequence[int], axis: int) -> tuple[int, ...]:
        """The shape of the scales, as DequantizeLinear takes them, of weights of a shape.

        Args:
            axis: of the channels, or along which the blocks lie; the last block may be shorter.
        """
        if self.per == TENSOR:
            return ()
        if self.per == CHANNEL:
            return (shape[axis],)
        return (*shape[:axis], math.ceil(shape[axis] / BLOCK_SIZE), *shape[axis + 1 :])

    def stored_bytes(self, shape: Sequence[int], axis: int) -> int:
        """Bytes of quantized weights of a shape: their codes, scales and zero points."""
        num_scales = math.prod(self.scale_shape(shape, axis))
        num_zero_points = 0 if self.symmetric else num_scales
        return _bytes(math.prod(shape), self.bits) + _SCALE_BYTES * num_scales + _bytes(num_zero_points, self.bits)


SCHEMES = tuple(
    Scheme(bits=bits, symmetric=symmetric, per=per)
    for bits, symmetric, per in itertools.product((8, 4), (True, False), (CHANNEL, BLOCK, TENSOR))
)
"""All schemes; the first one hardly changes outputs, and is as small as any other with 8 bits."""


def scheme(name: str) -> Scheme:
    """The scheme of a name, such as `int4-sym-block`.

    Raises:
        InputError: no scheme has that name.
    """
    schemes = {item.name: item for item in SCHEMES}
    if name not in schemes:
        raise InputError(f"no quantization named {name!r}; there are: {', '.join(schemes)}")
    return schemes[name]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Quantized:
    """Quantized weights.

    Attributes:
        codes: integers as `int16`, in the weights' shape.
        scale: float32, see `Scheme.scale_shape`.
        zero_point: as `scale`, in `int16`; 0 everywhere when symmetric.
        axis: see `Scheme.scale_shape`.
    """

    scheme: Scheme
    codes: np.ndarray
    scale: np.ndarray
    zero_point: np.ndarray
    axis: int


def quantize(weights: np.ndarray, scheme: Scheme, axis: int) -> Quantized:
    """Round weights to the nearest codes.

    Args:
        weights: float32.
        axis: of the channels, or along which the blocks lie.

    Raises:
        ArtifactError: a weight is not finite.
    """
    if not np.isfinite(weights).all():
        raise ArtifactError("a weight to quantize is not finite")
    lowest, highest = _extremes(weights, scheme, axis)
    span = np.maximum(-lowest, highest) if scheme.symmetric else highest - lowest
    scale = (span / scheme.highest).astype(np.float32)
    scale = np.where(scale >= np.finfo(np.float32).tiny, scale, np.float32(1))  # weights so small round to 0
    zero_point = np.zeros(scale.shape, np.int16)
    if not scheme.symmetric:
        zero_point = np.clip(np.rint(-lowest / scale), scheme.lowest, scheme.highest).astype(np.int16)
    steps = np.rint(weights / _spread(scale, scheme, weights.shape, axis))
    codes = steps + _spread(zero_point, scheme, weights.shape, axis)
    codes = np.clip(codes, scheme.lowest, scheme.highest).astype(np.int16)
    return Quantized(scheme=scheme, codes=codes, scale=scale, zero_point=zero_point, axis=axis)


def pack(codes: np.ndarray, bits: int) -> bytes:
    """Integers as ONNX stores them: two of 4 bits a byte, the first in the lower half."""
    flat = codes.ravel().astype(np.uint8)  # two's complement
    if bits == 8:
        return flat.tobytes()
    pairs = np.pad(flat & 0xF, (0, flat.size % 2)).reshape(-1, 2)
    return (pairs[:, 0] | pairs[:, 1] << 4).tobytes()


def _extremes(weights: np.ndarray, scheme: Scheme, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest of the weights that share a scale, extended to include 0; float64."""
    if scheme.per == BLOCK:
        starts = np.arange(0, weights.shape[axis], BLOCK_SIZE)
        lowest, highest = (reduce.reduceat(weights, starts, axis=axis) for reduce in (np.minimum, np.maximum))
    else:
        others = tuple(other for other in range(weights.ndim) if scheme.per == TENSOR or other != axis)
        lowest, highest = weights.min(axis=others), weights.max(axis=others)
    return np.minimum(lowest, 0).astype(np.float64), np.maximum(highest, 0).astype(np.float64)


def _spread(values: np.ndarray, scheme: Scheme, shape: Sequence[int], axis: int) -> np.ndarray:
    """Scales or zero points in a shape that broadcasts against the weights."""
    if scheme.per == CHANNEL:
        return values.reshape([-1 if other == axis else 1 for other in range(len(shape))])
    if scheme.per == BLOCK:
        return np.repeat(values, BLOCK_SIZE, axis=axis).take(range(shape[axis]), axis=axis)
    return values


def _bytes(num_values: int, bits: int) -> int:
    return math.ceil(num_values * bits / 8)
