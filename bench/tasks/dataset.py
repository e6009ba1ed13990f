"""The data set that `--dataset` names: an `.npz`, a folder of samples, or a Python file. Only children open it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from bench.api import Arrays, TensorSpec, array_files
from bench.api.arrays import load_arrays
from bench.api.errors import InputError
from bench.api.files import refuse_special
from bench.onnxfile.deferred import np
from bench.tasks.code import load

_DATASETS = (
    "--dataset takes an .npz file of arrays by input name, a folder with an .npz (or .npy) file for each sample, or a "
    "Python file with samples(split), metrics(outputs, targets) and metric_name"
)
TARGETS = "targets"
"""Name of the array in an `.npz` that holds the targets."""
NEEDED = ("samples", "metrics", "metric_name")
"""Names that a data set's Python file must define."""
PYTHON = ".py"


def check(path: Path) -> None:
    """Refuse a path that cannot be a data set, without opening it.

    Raises:
        InputError: the path does not exist, or is a file of another kind; the message says which kinds can be read.
    """
    if not path.exists():
        raise InputError(f"no such file or folder: {path}; {_DATASETS}")
    refuse_special(path)
    if path.is_file() and path.suffix not in (".npz", PYTHON):
        raise InputError(f"{path} is of no kind that can be read; {_DATASETS}")


def read(path: Path) -> tuple[Arrays, Any]:
    """The input arrays by name, with samples along their first axis, and the targets, or None without targets.

    A lone input without a name, as in a folder of `.npy` files, is called `""`.

    Raises:
        InputError: the path holds no data set; the message says why.
    """
    if path.suffix == PYTHON:
        return from_python(path, "test")
    arrays = _stacked(path) if path.is_dir() else load_arrays(path)
    if not arrays:
        raise InputError(f"{path} holds no arrays; {_DATASETS}")
    return {name: array for name, array in arrays.items() if name != TARGETS}, arrays.get(TARGETS)


def _stacked(folder: Path) -> Arrays:
    """The arrays of all samples of a folder, stacked in the order of the files' names."""
    files = sorted(path for path in folder.iterdir() if path.suffix in (".npz", ".npy"))
    if not files:
        raise InputError(f"no .npz or .npy files in {folder}; {_DATASETS}")
    array_files.check_unpacked(path for path in files if path.suffix == ".npz")
    samples = [load_arrays(path) if path.suffix == ".npz" else {"": array_files.load_npy(path)} for path in files]
    first = {name: (array.shape, array.dtype.kind) for name, array in samples[0].items()}
    for path, sample in zip(files, samples, strict=True):
        if {name: (array.shape, array.dtype.kind) for name, array in sample.items()} != first:
            raise InputError(
                f"{path} does not hold arrays of the names, shapes and kinds of {files[0].name}: {_shapes(samples[0])}"
            )
    return {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}


@functools.cache
def module(path: Path) -> ModuleType:
    """The executed Python file of a data set.

    Raises:
        InputError: the file does not define all that a data set needs.
    """
    loaded = load(path)
    missing = [name for name in NEEDED if not hasattr(loaded, name)]
    if missing:
        raise InputError(f"{path} does not define {', '.join(missing)}; {_DATASETS}")
    return loaded


def from_python(path: Path, split: str) -> tuple[Arrays, Sequence[Any] | None]:
    """The inputs by name and the targets of a split (`test` or `train`), as a data set's Python file returns them.

    Raises:
        InputError: `samples()` returns something else, or numbers of samples and targets differ.
    """
    pair = module(path).samples(split)
    if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], Mapping) or not pair[0]:
        raise InputError(f"{path}: samples() must return two things: a dict of arrays by input name, and the targets")
    inputs = {str(name): np.asarray(array) for name, array in pair[0].items()}
    targets = pair[1]
    count = len(next(iter(inputs.values()))) if all(array.ndim for array in inputs.values()) else 0
    if targets is not None and len(targets) != count:
        raise InputError(f"{path}: samples({split!r}) has {count} samples and {len(targets)} targets")
    return inputs, targets


def named(arrays: Arrays, names: Sequence[str]) -> Arrays:
    """The arrays by input name: a lone array without a name is that of the model's only input."""
    return {names[0]: arrays[""]} if list(arrays) == [""] and len(names) == 1 else arrays


def check_names(arrays: Arrays, names: Sequence[str], what: str) -> None:
    """Refuse a data set that has not exactly the model's inputs.

    Args:
        what: the data set, as the message names it.

    Raises:
        InputError: an input is missing, or is not the model's.
    """
    if sorted(arrays) != sorted(names):
        has = f"the inputs {', '.join(arrays)}" if arrays else "no inputs"
        raise InputError(
            f"{what} has {has}; the model has {', '.join(names)}",
            fix=f"give the arrays the model's names, as numpy.savez(FILE, {_as_keyword(names[0])}) does",
        )


def _as_keyword(name: str) -> str:
    """An array of this name as an argument of a call."""
    return f"{name}=..." if name.isidentifier() else f"**{{{name!r}: ...}}"


def fits(dims: Sequence[int | str], sizes: Sequence[int]) -> bool:
    """Whether an array of these sizes has the shape: a named dimension takes any size."""
    return len(dims) == len(sizes) and all(
        isinstance(dim, str) or dim == size for dim, size in zip(dims, sizes, strict=True)
    )


def fits_but_ones(dims: Sequence[int | str], sizes: Sequence[int]) -> bool:
    """Whether an array of these sizes has the shape but for axes of size 1; a named dimension takes any size."""
    return fits([dim for dim in dims if dim != 1], [size for size in sizes if size != 1])


def fitted(arrays: Arrays, inputs: Sequence[TensorSpec], *, batched: bool, what: str) -> Arrays:
    """The arrays in the order and with the dtypes of a model's inputs, samples along their first axis.

    Args:
        batched: whether the first axis of each input is that of the samples; if not, each sample is a whole request.
        what: the data set, as messages name it.

    Raises:
        InputError: names, dtypes, shapes or numbers of samples do not fit; the message says which.
    """
    names = [spec.name for spec in inputs]
    arrays = named(arrays, names)
    check_names(arrays, names, what)
    result: dict[str, np.ndarray] = {}
    sizes: dict[str, int] = {}
    for spec in inputs:
        array = arrays[spec.name]
        if array.dtype.kind != np.dtype(spec.dtype).kind:
            raise InputError(f"{what}: {spec.name} holds {array.dtype}; the model takes {spec.dtype}")
        dims = spec.shape[1:] if batched else spec.shape
        is_fitting = array.ndim == len(dims) + 1 and all(
            size == (sizes.setdefault(dim, size) if isinstance(dim, str) else dim)
            for dim, size in zip(dims, array.shape[1:], strict=True)
        )
        if not is_fitting:
            wanted = ", ".join(str(dim) for dim in ("samples", *dims))
            raise InputError(f"{what}: {spec.name} has shape {array.shape}; the model takes ({wanted})")
        result[spec.name] = array.astype(spec.dtype, copy=False)
    if len({len(array) for array in result.values()}) != 1 or not len(result[names[0]]):
        raise InputError(f"{what} has not one number of samples: {_shapes(result)}")
    return result


def _shapes(arrays: Arrays) -> str:
    return ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
