"""Sizes of the dimensions that a model leaves open: what was asked for, those of the data set, or a guess that runs."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bench.api import TensorSpec
from bench.api.arrays import generate
from bench.api.errors import InputError
from bench.graphs.file.foreign import OTHER_SIZE, guess_size
from bench.graphs.shapes.given import GivenShape
from bench.tasks import dataset, probe
from bench.tasks.options import Asked, Found

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray]

OTHER_SIZES = (OTHER_SIZE, 64, 256, 512, 1024)
"""Of a dimension that nothing is known of, the first with which the model runs."""
MOST_TRIES = 40


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chosen:
    """An interface with the sizes of its open dimensions."""

    interface: probe.Interface
    sizes: Mapping[str, int]
    guessed: tuple[str, ...]

    def found(self, *, base: str, weights: str, **more: Any) -> Found:
        """The same as a part of all that is told of a model."""
        return Found(
            base=base,
            weights=weights,
            inputs=self.interface.inputs,
            outputs=self.interface.outputs,
            batched=self.interface.batched,
            sizes=self.sizes,
            guessed=self.guessed,
            **more,
        )


class NothingRunsError(InputError):
    """A model runs with no size that was tried."""


def choose(run: probe.Run, inputs: tuple[TensorSpec, ...], asked: Asked) -> Chosen:
    """Choose sizes with which the model runs, and find its outputs.

    Raises:
        InputError: what was asked for is not of this model, or it runs with no size that was tried.
    """
    check_kinds(inputs)
    given = given_sizes(inputs, asked)
    sizes, found = try_out(run, inputs, given, asked)
    return Chosen(interface=found, **chosen_sizes(found.inputs, sizes, given, batched=found.batched))


def try_out(
    run: probe.Run, inputs: tuple[TensorSpec, ...], given: Mapping[str, int], asked: Asked
) -> tuple[dict[str, int], probe.Interface]:
    """The first guess with which the model runs, and its interface.

    Raises:
        NothingRunsError: there is none.
        InputError: its outputs cannot be compared.
    """
    failures: list[tuple[dict[str, int], Exception]] = []
    for sizes in guesses(inputs, given):
        try:
            return sizes, probe.from_specs(run, inputs, example_of(inputs, sizes, asked))
        except InputError:
            raise
        except Exception as error:
            failures.append((sizes, error))
    sizes, first = failures[0]
    with_sizes = " with " + ", ".join(f"{dim}={size}" for dim, size in sizes.items()) if sizes else ""
    fix = f"; say its sizes, such as --dim {next(iter(sizes))}=SIZE" if sizes else ""
    raise NothingRunsError(f"it does not run{with_sizes}: {one_line(first)}{fix}") from first


def chosen_sizes(
    inputs: Sequence[TensorSpec], sizes: Mapping[str, int], given: Mapping[str, int], *, batched: bool
) -> dict[str, Any]:
    """`sizes` without the batch, and which of them were `guessed`."""
    kept = {dim: size for dim, size in sizes.items() if not (batched and dim == inputs[0].shape[0])}
    return {"sizes": kept, "guessed": tuple(dim for dim in kept if dim not in given)}


def check_kinds(inputs: Sequence[TensorSpec]) -> None:
    """Refuse inputs that nothing can be made up for.

    Raises:
        InputError: one holds texts or the like.
    """
    import numpy as np

    for spec in inputs:
        try:
            kind = np.dtype(spec.dtype).kind
        except TypeError:
            kind = "O"
        if kind not in probe.KINDS:
            raise InputError(f"input {spec.name!r} holds {spec.dtype}; only real numbers and bools can be fed")


def given_sizes(inputs: Sequence[TensorSpec], asked: Asked) -> dict[str, int]:
    """Sizes of dimensions that were asked for by name, as a shape, or are those of the data set.

    Raises:
        InputError: the model has no such input or dimension, or not of that size.
    """
    specs = {spec.name: spec for spec in inputs}
    found: dict[str, int] = {}
    shapes = dict(asked.shapes)
    if asked.arrays is not None:
        arrays = {inputs[0].name: asked.arrays[""]} if list(asked.arrays) == [""] else asked.arrays
        for name, array in arrays.items():
            if name in specs:  # what does not fit is told where it is fed
                whole = array.shape[1:] if array.ndim == len(specs[name].shape) + 1 else (1, *array.shape[1:])
                shapes.setdefault(name, GivenShape(sizes=tuple(whole), dtype=None))
    for name, shape in shapes.items():
        if name not in specs:
            raise InputError(f"it has no input {name!r}; its inputs: {', '.join(specs)}")
        dims = specs[name].shape
        fits = len(dims) == len(shape.sizes) and all(
            isinstance(dim, str) or dim == size for dim, size in zip(dims, shape.sizes, strict=True)
        )
        if not fits and name in asked.shapes:
            raise InputError(f"input {name!r} is {'x'.join(map(str, dims))}, not {'x'.join(map(str, shape.sizes))}")
        if fits:
            found |= {dim: size for dim, size in zip(dims, shape.sizes, strict=True) if isinstance(dim, str)}
    names = {dim for spec in inputs for dim in spec.shape if isinstance(dim, str)}
    for dim, size in asked.dims.items():
        if dim not in names:
            known = ", ".join(sorted(names)) or "none"
            raise InputError(f"it has no dynamic dimension {dim!r}; its dynamic dimensions: {known}")
        found[dim] = size
    return found


def guesses(inputs: Sequence[TensorSpec], given: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Sizes of every open dimension to try, the likeliest first."""
    first = {
        dim: given[dim] if dim in given else guess_size(dim, axis, len(spec.shape))
        for spec in reversed(inputs)
        for axis, dim in enumerate(spec.shape)
        if isinstance(dim, str)
    }
    yield first
    free = [dim for dim in first if dim not in given and first[dim] == OTHER_SIZES[0]]
    tries = 0
    for size in OTHER_SIZES:
        for count in range(len(free) + 1):
            for ones in itertools.combinations(free, count):  # a state's dimension without a name is often the batch
                tries += 1
                if tries > MOST_TRIES:
                    return
                yield {**first, **dict.fromkeys(free, size), **dict.fromkeys(ones, 1)}


def example_of(inputs: Sequence[TensorSpec], sizes: Mapping[str, int], asked: Asked) -> dict[str, np.ndarray]:
    """Arrays of one request: the data set's first sample, or made up."""
    import numpy as np

    if asked.arrays is not None:
        try:
            rows = dataset.fitted(asked.arrays, inputs, batched=True, what="the data set")
        except InputError as error:  # unless each sample is a whole request
            with contextlib.suppress(InputError):
                rows = dataset.fitted(asked.arrays, inputs, batched=False, what="the data set")
                return {name: np.asarray(array[0]) for name, array in rows.items()}
            raise error
        return {name: array[:1] for name, array in rows.items()}
    generator = np.random.default_rng(0)
    return {
        spec.name: np.asarray(
            generate(generator, spec.dtype, tuple(sizes[dim] if isinstance(dim, str) else dim for dim in spec.shape))
        )
        for spec in inputs
    }


def one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text if len(text) <= 200 else text[:197] + '...'}"
