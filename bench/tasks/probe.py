"""What a model's outputs look like, found by running it: which axes follow which dimensions of the inputs."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from bench.api import UNKNOWN, TensorSpec
from bench.api.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray]
    Run = Callable[[Arrays], Arrays]

BATCH = "batch"
KINDS = "fiub"
"""Kinds of NumPy dtypes that can be made up, fed and compared."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Interface:
    """The inputs and outputs of a model, and whether its first axis is that of the samples (see `Task.batched`)."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    batched: bool


def from_example(run: Run, example: Arrays, dynamic: Mapping[str, Mapping[int, str]] | None = None) -> Interface:
    """The interface of a model that says nothing of its shapes: those of an example, in batches of any size if it can.

    Args:
        example: by input name, in the order that the model takes them.
        dynamic: by input name the names of the axes that may have any size, besides the first one.

    Raises:
        InputError: the model cannot be run on the example.
    """
    plain = tuple(
        TensorSpec(name=name, dtype=array.dtype.name, shape=tuple(array.shape)) for name, array in example.items()
    )
    if len({array.shape[:1] for array in example.values()}) == 1 and all(array.ndim for array in example.values()):
        named = {name: {0: BATCH, **(dynamic or {}).get(name, {})} for name in example}
        specs = tuple(
            dataclasses.replace(
                spec, shape=tuple(named[spec.name].get(axis, dim) for axis, dim in enumerate(spec.shape))
            )
            for spec in plain
        )
        with contextlib.suppress(Exception):  # it takes the example as it is, or not at all
            found = from_specs(run, specs, example)
            if found.batched:
                return found
    return from_specs(run, plain, example)


def from_specs(run: Run, inputs: tuple[TensorSpec, ...], example: Arrays) -> Interface:
    """The interface of a model whose inputs are known.

    Raises:
        InputError: an output cannot be compared.
    """
    outputs = _outputs(run, inputs, example)
    firsts = {spec.shape[0] if spec.shape else None for spec in (*inputs, *outputs)}
    first = firsts.pop()
    batched = not firsts and (first == 1 or (isinstance(first, str) and first != UNKNOWN))
    return Interface(inputs=inputs, outputs=outputs, batched=batched)


def resized(example: Arrays, inputs: tuple[TensorSpec, ...], sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """The example with other sizes of its dynamic dimensions: cut, or begun again."""
    import numpy as np

    arrays = {}
    for spec in inputs:
        array = np.asarray(example[spec.name])
        for axis, dim in enumerate(spec.shape):
            if isinstance(dim, str) and sizes.get(dim, array.shape[axis]) != array.shape[axis]:
                array = np.take(array, np.arange(sizes[dim]), axis=axis, mode="wrap")
        arrays[spec.name] = np.ascontiguousarray(array) if array.ndim else array
    return arrays


def _outputs(run: Run, inputs: tuple[TensorSpec, ...], example: Arrays) -> tuple[TensorSpec, ...]:
    sizes = {
        dim: example[spec.name].shape[axis]
        for spec in inputs
        for axis, dim in enumerate(spec.shape)
        if isinstance(dim, str)
    }
    first = run(resized(example, inputs, sizes))
    if not first:
        raise InputError("it has no outputs")
    shapes: dict[str, list[int | str]] = {name: list(array.shape) for name, array in first.items()}
    for dim, size in sizes.items():
        other, found = _other(run, inputs, example, sizes, dim)
        for name, array in (found or {}).items():
            if array.ndim != first[name].ndim:
                raise InputError(f"output {name!r} has now {first[name].ndim} axes, now {array.ndim}")
            for axis, (before, after) in enumerate(zip(first[name].shape, array.shape, strict=True)):
                if before != after:
                    follows = (before, after) == (size, other) and shapes[name][axis] == before
                    shapes[name][axis] = dim if follows else UNKNOWN
    for name, array in first.items():
        if array.dtype.kind not in KINDS:
            raise InputError(f"output {name!r} holds {array.dtype}; only real numbers and bools can be compared")
    return tuple(
        TensorSpec(name=name, dtype=array.dtype.name, shape=tuple(shapes[name])) for name, array in first.items()
    )


def _other(
    run: Run, inputs: tuple[TensorSpec, ...], example: Arrays, sizes: Mapping[str, int], dim: str
) -> tuple[int, Arrays | None]:
    """Another size of a dimension that the model takes, and its outputs then; None where it takes no other."""
    for other in (sizes[dim] + 1, 2 * sizes[dim]):
        with contextlib.suppress(Exception):
            return other, run(resized(example, inputs, {**sizes, dim: other}))
    return sizes[dim], None
