"""Outputs whose shape depends on the data of a sample, as the boxes that a NonMaxSuppression leaves.

Where the samples of a split have outputs of one shape, they are one array with the samples along its first axis. Where
shapes differ, they are a one-dimensional array of objects: one array for each sample, so that `outputs[name][row]` is
the output of a sample in both cases. NumPy stores objects as pickles, which are never read here, so a file holds the
values of all samples in a row, and their shapes beside them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

SHAPES = "\x1fshapes of "
"""Begins the name of an array of shapes; no output has such a name, for its character cannot be printed."""


def is_ragged(array: np.ndarray) -> bool:
    """Whether the samples of an output may have different shapes."""
    return array.dtype.kind == "O"


def stacked(samples: Iterable[np.ndarray]) -> np.ndarray:
    """The arrays of samples along a first axis; an array of arrays where their shapes differ."""
    import numpy as np

    each = [np.asarray(sample) for sample in samples]
    if len({sample.shape for sample in each}) == 1:
        return np.stack(each)
    stack = np.empty(len(each), object)
    for row, sample in enumerate(each):  # an assignment of all at once would look for a common shape
        stack[row] = sample
    return stack


def joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Several arrays, each with samples along its first axis, one after another."""
    import numpy as np

    if len({part.shape[1:] for part in parts}) == 1 and not any(map(is_ragged, parts)):
        return np.concatenate(parts)
    return stacked(sample for part in parts for sample in part)


def replaced(array: np.ndarray, rows: Sequence[int], values: np.ndarray) -> np.ndarray:
    """A copy of an array of samples, with others in some rows."""
    import numpy as np

    if is_ragged(array) or is_ragged(values) or array.shape[1:] != values.shape[1:]:
        samples = list(array)
        for row, value in zip(rows, values, strict=True):
            samples[row] = value
        return stacked(samples)
    common = np.result_type(array.dtype, values.dtype)
    if {array.dtype.kind, values.dtype.kind} == {"i", "u"} and common.kind == "f":  # it would round both
        common = array.dtype
    copy = array.astype(common)
    copy[list(rows)] = values
    return copy


def dtype_of(array: np.ndarray) -> np.dtype[np.generic]:
    """The type of an output's elements."""
    import numpy as np

    return np.asarray(array[0]).dtype if is_ragged(array) and len(array) else array.dtype


def flat(array: np.ndarray | Sequence[np.ndarray]) -> np.ndarray:
    """The values of all samples in a row."""
    import numpy as np

    if isinstance(array, np.ndarray) and not is_ragged(array):
        return array.reshape(-1)
    return np.concatenate([np.ravel(sample) for sample in array])


def num_bytes(array: np.ndarray) -> int:
    """Bytes of the values of all samples."""
    return sum(sample.nbytes for sample in array) if is_ragged(array) else array.nbytes


def equal(output: np.ndarray, other: np.ndarray) -> bool:
    """Whether two outputs are the same in every shape and value; a NaN is the same as a NaN."""
    import numpy as np

    if is_ragged(output) or is_ragged(other):
        return len(output) == len(other) and all(
            equal(np.asarray(first), np.asarray(second)) for first, second in zip(output, other, strict=True)
        )
    if np.array_equal(output, other):  # quicker, and right for texts
        return True
    return output.dtype.kind == other.dtype.kind == "f" and np.array_equal(output, other, equal_nan=True)


def packed(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs as plain arrays, which a file can hold."""
    import numpy as np

    plain_arrays: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if not is_ragged(array):
            plain_arrays[name] = array
            continue
        rank = max(sample.ndim for sample in array)
        shapes = [(*sample.shape, *[-1] * (rank - sample.ndim)) for sample in array]
        plain_arrays |= {name: flat(array), SHAPES + name: np.array(shapes, np.int64).reshape(len(array), rank)}
    return plain_arrays


def unpacked(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs that `packed` made plain arrays of."""
    import numpy as np

    outputs: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if name.startswith(SHAPES):
            continue
        if (shapes := arrays.get(SHAPES + name)) is None:
            outputs[name] = array
            continue
        sizes = [tuple(int(size) for size in shape if size >= 0) for shape in shapes]
        ends = np.cumsum([math.prod(shape) for shape in sizes])
        samples = np.empty(len(sizes), object)
        for row, (shape, values) in enumerate(zip(sizes, np.split(array, ends[:-1]), strict=True)):
            samples[row] = values.reshape(shape)
        outputs[name] = samples
    return outputs
