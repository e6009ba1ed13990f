"""How sparse weights are, and in which blocks their zeros lie.

Zeros save time only where they come in blocks that a kernel can skip. For each tensor the blocks that are tried are
whole slices along any axes, such as a filter or an input channel of a convolution, and rectangles with sides of 1 to
32: on its last two axes, and on its first two, either of single elements or of all elements of the further axes. The
best block is the largest one that loses few of the zeros. Larger rectangles are made from smaller ones, so that all of
them together cost a few passes over the tensor.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import math
from collections.abc import Iterator

from bench.onnxfile.deferred import np
from bench.onnxfile.file.lazy import Stored
from bench.onnxfile.weights.tensors import WeightTensor

SIDES = (1, 2, 4, 8, 16, 32)
_KEPT = 0.9
"""Share of the zeros that must lie in zero blocks."""
_Block = tuple[int, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sparsity:
    """The zeros of one tensor.

    Attributes:
        element_ratio: share of the elements that are zero.
        block: shape of the best block, with as many axes as the tensor; all ones if the zeros have no structure.
        block_ratio: share of the elements that lie in blocks of that shape with nothing but zeros. The last block
            along an axis may be cut off by the edge.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    element_ratio: float
    block: _Block
    block_ratio: float


def zero_of(stored: Stored, weight: WeightTensor) -> np.ndarray | int:
    """The code that stands for zero in a weight, in a shape that broadcasts against it.

    Raises:
        InputError: external data are missing.
    """
    if weight.zero_point is None:
        return 0
    zero = stored.array(weight.zero_point)
    if zero.size == 1:
        return zero.reshape(())
    rank = len(weight.tensor.dims)
    axis = weight.axis % rank
    if zero.ndim == rank:  # quantized in blocks along the axis
        block = -(-weight.tensor.dims[axis] // zero.shape[axis])
        return zero.repeat(block, axis).take(range(weight.tensor.dims[axis]), axis)
    return zero.reshape([-1 if at == axis else 1 for at in range(rank)])


def measure_sparsity(name: str, array: np.ndarray, *, zero: np.ndarray | int = 0) -> Sparsity:
    """The sparsity of one tensor; NaN is not zero.

    Args:
        array: of any numeric dtype and any rank.
        zero: the code that stands for zero, in a shape that broadcasts: a quantized weight's zero point.
    """
    filled = np.asarray(array != zero)
    num_zeros = filled.size - int(np.count_nonzero(filled))
    best: _Block = (1,) * filled.ndim
    best_zeros = num_zeros
    if 0 < num_zeros < filled.size:
        fitting = [(block, zeros) for block, zeros in _blocks(filled) if zeros >= _KEPT * num_zeros]
        best, best_zeros = max(
            ((best, num_zeros), *fitting), key=lambda candidate: (math.prod(candidate[0]), candidate[1])
        )
    elif num_zeros:
        best = filled.shape  # one block
    return Sparsity(
        name=name,
        shape=tuple(filled.shape),
        dtype=str(array.dtype),
        element_ratio=num_zeros / max(filled.size, 1),
        block=tuple(best),
        block_ratio=best_zeros / max(filled.size, 1),
    )


def _blocks(filled: np.ndarray) -> Iterator[tuple[_Block, int]]:
    """Shapes of blocks, each with the number of elements that lie in blocks of that shape with nothing but zeros."""
    rank = filled.ndim
    for axes in itertools.chain.from_iterable(itertools.combinations(range(rank), count) for count in range(1, rank)):
        block = tuple(filled.shape[axis] if axis in axes else 1 for axis in range(rank))
        yield block, int((~filled.any(axis=axes)).sum()) * math.prod(block)
    # The first two axes and the last two, which may be the same; or the only axis.
    for rows, columns in sorted({(0, min(1, rank - 1)), (max(rank - 2, 0), rank - 1)}):
        yield from _rectangles(filled, filled.shape, rows, columns)
    if rank > 2:
        behind = np.asarray(filled.any(axis=tuple(range(2, rank)), keepdims=True))
        yield from _rectangles(behind, filled.shape, 0, 1)


def _rectangles(filled: np.ndarray, shape: _Block, rows: int, columns: int) -> Iterator[tuple[_Block, int]]:
    """Blocks with sides of `SIDES` on two axes; on one only, if both are the same.

    Args:
        shape: that of the tensor; where `filled` has one element along an axis, it stands for all of them.
    """
    for height, tall in _coarsened(filled, rows) if rows != columns else [(1, filled)]:
        for width, wide in _coarsened(tall, columns):
            block = [size // num for size, num in zip(shape, filled.shape, strict=True)]
            block[rows], block[columns] = height, width  # one axis only: its height is 1
            yield tuple(block), _covered(~wide, shape, block)


def _coarsened(filled: np.ndarray, axis: int) -> Iterator[tuple[int, np.ndarray]]:
    """For each of `SIDES` that an axis is long enough for: the side, and whether each block of that side is filled."""
    for side in SIDES[: bisect.bisect(SIDES, filled.shape[axis])]:
        if side > 1:  # two blocks of half the side; the last block of an odd number stays by itself
            num_blocks = filled.shape[axis]
            first = np.arange(0, num_blocks, 2)
            filled = np.take(filled, first, axis) | np.take(filled, np.minimum(first + 1, num_blocks - 1), axis)
        yield side, filled


def _covered(zero_blocks: np.ndarray, shape: tuple[int, ...], block: list[int]) -> int:
    """Elements in zero blocks, where the last block along an axis may be smaller."""
    counts = zero_blocks
    for axis in reversed(range(zero_blocks.ndim)):
        counts = counts @ np.diff([*range(0, shape[axis], block[axis]), shape[axis]])
    return int(counts)
