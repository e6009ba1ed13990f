"""Statistics of the elements of weights: range, mean, standard deviation, zeros and outliers.

An outlier lies more than `_OUTLIER` standard deviations from the mean. A few outliers stretch the range that a
quantizer has to cover, and leave fewer levels for all other elements.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from bench.onnxfile.deferred import np

_OUTLIER = 6.0
_CHUNK = 1 << 20
"""Elements that are converted to float64 at a time, so that a large weight is not copied whole."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightStatistics:
    """Statistics of a tensor; all but the counts are of its finite elements, and None if no element is finite.

    Attributes:
        num_outliers: elements more than `_OUTLIER` standard deviations from the mean.
        largest_deviation: distance of the farthest element from the mean, in standard deviations; None if all
            elements are equal.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    num_elements: int
    min: float | None
    max: float | None
    mean: float | None
    std: float | None
    num_zeros: int
    num_outliers: int
    largest_deviation: float | None
    num_nan: int
    num_infinite: int


def measure_weight(name: str, array: np.ndarray) -> WeightStatistics:
    """Statistics of one tensor of real numbers, computed in float64."""
    num_finite = num_zeros = num_outliers = 0
    total = 0.0
    low, high = np.inf, -np.inf
    for finite in _finite(array):
        num_finite += finite.size
        num_zeros += finite.size - int(np.count_nonzero(finite))
        total += float(finite.sum())
        low, high = min(low, finite.min(initial=np.inf)), max(high, finite.max(initial=-np.inf))
    mean = std = deviation = None
    if num_finite:
        mean = total / num_finite
        std = float(np.sqrt(sum(float(np.square(finite - mean).sum()) for finite in _finite(array)) / num_finite))
        deviation = max(high - mean, mean - low) / std if std else None
        if deviation and deviation > _OUTLIER:
            for finite in _finite(array):
                num_outliers += int((np.abs(finite - mean) > _OUTLIER * std).sum())
    num_nan = int(np.count_nonzero(array != array))  # NaN alone differs from itself
    return WeightStatistics(
        name=name,
        dtype=str(array.dtype),
        shape=tuple(array.shape),
        num_elements=int(array.size),
        min=float(low) if num_finite else None,
        max=float(high) if num_finite else None,
        mean=mean,
        std=std,
        num_zeros=num_zeros,
        num_outliers=num_outliers,
        largest_deviation=deviation,
        num_nan=num_nan,
        num_infinite=int(array.size) - num_finite - num_nan,
    )


def _finite(array: np.ndarray) -> Iterator[np.ndarray]:
    """The finite elements in chunks of float64."""
    flat = array.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        chunk = flat[start : start + _CHUNK].astype(np.float64)
        yield chunk[np.isfinite(chunk)]
