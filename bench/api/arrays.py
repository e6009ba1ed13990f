"""Arrays by name in an `.npz` file."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from bench.api import array_files

if TYPE_CHECKING:
    import numpy as np

Domain: TypeAlias = "tuple[float | tuple[float, ...], float | tuple[float, ...]] | tuple[str | tuple[str, ...], ...]"
"""The least and the largest value of an input; tuples of an input with a domain for each place of its last axis.

Of an input of strings, the strings to draw from; tuples of an input with strings of its own for each place.
"""
STRING = "str"
"""The name of the element type of strings; NumPy's own names have the length of the longest string."""
WORDS = ("apple", "bridge", "cloud", "door", "engine", "forest", "garden", "house")
"""Strings for inputs whose model tells none."""


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays to an `.npz` file under their names.

    `numpy.savez` takes the names as arguments, so that an array could not be called `file`.
    """
    import numpy as np

    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read all arrays of an `.npz` file that a user gave.

    Raises:
        InputError: the file cannot be read, is no `.npz` file of plain arrays, or is much larger unpacked.
    """
    return array_files.load_npz(path)


def dtype_name(array: np.ndarray) -> str:
    """The name of an array's element type, as in a `TensorSpec`."""
    return STRING if array.dtype.kind == "U" else array.dtype.name


def without_objects(array: np.ndarray) -> np.ndarray:
    """An array of strings in NumPy's own type, which can be compared and stored; all other arrays as they are."""
    import numpy as np

    return array.astype(np.str_) if array.dtype.kind == "O" else array


def repeated(array: np.ndarray, size: int, axis: int) -> np.ndarray:
    """The array with a size along an axis: cut short, or repeated from its start; zeros where it had no elements."""
    import numpy as np

    if array.shape[axis] == 0:
        return np.zeros((*array.shape[:axis], size, *array.shape[axis + 1 :]), array.dtype)
    return np.take(array, np.arange(size), axis=axis, mode="wrap")


def generate(
    generator: np.random.Generator, dtype: str, shape: tuple[int, ...], domain: Domain | None = None
) -> np.ndarray:
    """Random values for an input: floats of a standard normal distribution, small integers, bools, or words.

    Args:
        domain: the least and the largest value, between which numbers are uniform instead; of integers, one for all. Of
            strings, those to draw from.
    """
    import numpy as np

    kind = np.dtype(dtype)
    if kind.kind == "U":
        strings: Any = domain or WORDS
        if isinstance(strings[0], str):
            return np.asarray(generator.choice(np.array(strings), shape))
        return np.stack([generator.choice(np.array(several), shape[:-1]) for several in strings], axis=-1)
    if domain is not None:
        low, high = cast("tuple[float | tuple[float, ...], float | tuple[float, ...]]", domain)
        if kind.kind == "f":
            return generator.uniform(low, high, shape).astype(kind)
        assert not isinstance(low, tuple), "integers have one domain"
        assert not isinstance(high, tuple)
        return generator.integers(int(low), int(high), shape, endpoint=True).astype(kind)
    if kind.kind == "f":
        return generator.standard_normal(shape, dtype=np.float32).astype(kind, copy=False)
    # Integers of 32 or 64 bits are nearly always indices, and every table has two rows; smaller ones are levels.
    high = 1 if kind.kind == "b" or kind.itemsize > 2 else 127
    return generator.integers(0, high, shape, endpoint=True).astype(kind, copy=False)


def like(generator: np.random.Generator, example: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Random numbers that resemble an example.

    Integers, bools and a single number are drawn from the example; floats have its mean and standard deviation.
    """
    import numpy as np

    if example.dtype.kind != "f" or example.size == 1:
        return generator.choice(example.ravel(), shape).astype(example.dtype) if example.size else np.zeros(shape)
    values = example.astype(np.float64)
    spread = float(values.std()) or 1.0  # an example that is all zeros has no spread
    return (values.mean() + spread * generator.standard_normal(shape)).astype(example.dtype)
