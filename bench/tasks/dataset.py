"""The data set that `--dataset` names: an `.npz`, a folder of samples, or a Python file. Only workers read it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from bench.api import TensorSpec
from bench.api.arrays import load_arrays
from bench.api.errors import InputError
from bench.tasks.kinds import DATASETS

if TYPE_CHECKING:
    import numpy as np

TARGETS = "targets"
NEEDED = ("samples", "metrics", "metric_name")
PYTHON = ".py"


def read(path: Path) -> tuple[dict[str, np.ndarray], Any]:
    """Inputs by name, the samples along the first axis, and the targets, or None.

    A lone input without a name, as in a folder of `.npy` files, is called `""`.

    Raises:
        InputError: it is no data set.
    """
    if path.suffix == PYTHON:
        return from_python(path, "test")
    arrays = _stacked(path) if path.is_dir() else load_arrays(path)
    if not arrays:
        raise InputError(f"{path} holds no arrays; {DATASETS}")
    targets = arrays.pop(TARGETS, None)
    return arrays, targets


def _stacked(folder: Path) -> dict[str, np.ndarray]:
    """The samples of a folder in the order of their names, stacked."""
    import numpy as np

    files = sorted(path for path in folder.iterdir() if path.suffix in (".npz", ".npy"))
    if not files:
        raise InputError(f"no .npz or .npy files in {folder}; {DATASETS}")
    samples = [load_arrays(path) if path.suffix == ".npz" else {"": _load_array(path)} for path in files]
    for path, sample in zip(files, samples, strict=True):
        for name, array in samples[0].items():
            if sample.keys() != samples[0].keys() or sample[name].shape != array.shape:
                raise InputError(
                    f"{path} does not hold arrays of the names and shapes of {files[0].name}: {_shapes(samples[0])}"
                )
    return {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}


def _load_array(path: Path) -> np.ndarray:
    import numpy as np

    try:
        array: np.ndarray = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path} as an array: {error}") from error
    return array


@functools.cache
def module(path: Path) -> ModuleType:
    """The Python file, executed.

    Raises:
        InputError: it lacks something.
    """
    from bench.tasks.code import load

    loaded = load(path)
    missing = [name for name in NEEDED if not hasattr(loaded, name)]
    if missing:
        raise InputError(f"{path} does not define {', '.join(missing)}; {DATASETS}")
    return loaded


def from_python(path: Path, split: str) -> tuple[dict[str, np.ndarray], Sequence[Any] | None]:
    """Inputs and targets of a split, as the Python file gives them."""
    import numpy as np

    found = module(path).samples(split)
    if not isinstance(found, tuple) or len(found) != 2 or not isinstance(found[0], Mapping) or not found[0]:
        raise InputError(f"{path}: samples() must return two things: a dict of arrays by input name, and the targets")
    inputs = {str(name): np.asarray(array) for name, array in found[0].items()}
    targets = found[1]
    count = len(next(iter(inputs.values()))) if all(array.ndim for array in inputs.values()) else 0
    if targets is not None and len(targets) != count:
        raise InputError(f"{path}: samples({split!r}) has {count} samples and {len(targets)} targets")
    return inputs, targets


def fitted(
    arrays: Mapping[str, np.ndarray], inputs: Sequence[TensorSpec], *, batched: bool, what: str
) -> dict[str, np.ndarray]:
    """The arrays in the order and with the dtypes of a model's inputs.

    Raises:
        InputError: names, dtypes or shapes do not fit; the message says which.
    """
    import numpy as np

    if list(arrays) == [""] and len(inputs) == 1:
        arrays = {inputs[0].name: arrays[""]}
    names = [spec.name for spec in inputs]
    if sorted(arrays) != sorted(names):
        raise InputError(f"{what} has the inputs {', '.join(arrays) or 'none'}; the model has {', '.join(names)}")
    result: dict[str, np.ndarray] = {}
    sizes: dict[str, int] = {}
    for spec in inputs:
        array = arrays[spec.name]
        if array.dtype.kind != np.dtype(spec.dtype).kind:
            raise InputError(f"{what}: {spec.name} holds {array.dtype}; the model takes {spec.dtype}")
        dims = spec.shape[1:] if batched else spec.shape
        fits = array.ndim == len(dims) + 1 and all(
            size == (sizes.setdefault(dim, size) if isinstance(dim, str) else dim)
            for dim, size in zip(dims, array.shape[1:], strict=True)
        )
        if not fits:
            wanted = ", ".join(str(dim) for dim in ("samples", *dims))
            raise InputError(f"{what}: {spec.name} has shape {array.shape}; the model takes ({wanted})")
        result[spec.name] = array.astype(spec.dtype, copy=False)
    if len({len(array) for array in result.values()}) != 1 or not len(result[names[0]]):
        raise InputError(f"{what} has not one number of samples: {_shapes(result)}")
    return result


def _shapes(arrays: Mapping[str, np.ndarray]) -> str:
    return ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
