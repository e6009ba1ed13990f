"""The interface of a model, found by running it: which axes of the outputs follow which dimensions of the inputs."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from bench.api import UNKNOWN, Arrays, TensorSpec
from bench.api.arrays import dtype_name, repeated
from bench.api.errors import InputError
from bench.onnxfile.deferred import np
from bench.onnxfile.file.foreign import is_of_samples
from bench.onnxfile.shapes.constraints import value_of
from bench.onnxfile.shapes.size_choice import Chosen, choose
from bench.onnxfile.shapes.stated_sizes import Stated, stated
from bench.tasks.options import Interface

Run = Callable[[Arrays], Arrays]
"""Runs a model once: output arrays by name, for input arrays by name."""

BATCH = "batch"
KINDS = "fiubU"
"""Kinds of NumPy dtypes that can be made up, fed and compared: numbers, bools and strings."""


def _named_dims(specs: Iterable[TensorSpec]) -> Iterator[tuple[TensorSpec, int, str]]:
    """The named dimensions of all inputs: the spec of the input, the axis and the name of each."""
    return ((spec, axis, dim) for spec in specs for axis, dim in enumerate(spec.shape) if isinstance(dim, str))


def stated_of(specs: Iterable[TensorSpec]) -> Stated:
    """What the names of the dimensions of all inputs stand for: dimensions, or expressions of them."""
    return stated(dim for _, _, dim in _named_dims(specs))


def specs_of(fields: Sequence[tuple[str, str, Sequence[int | None]]]) -> tuple[TensorSpec, ...]:
    """Specs of inputs from their names, dtypes and shapes, where None is an open dimension.

    The first dimension is named `batch` where all inputs leave it open; other open dimensions are named by the input
    and the axis.
    """
    batched = all(len(shape) and shape[0] is None for _, _, shape in fields)
    specs = []
    for name, dtype, shape in fields:
        names = [BATCH if batched and axis == 0 else f"{name}_{axis}" for axis in range(len(shape))]
        dims = tuple(name if dim is None else int(dim) for name, dim in zip(names, shape, strict=True))
        specs.append(TensorSpec(name=name, dtype=str(dtype), shape=dims))
    return tuple(specs)


def from_example(run: Run, example: Arrays, opened: tuple[TensorSpec, ...] | None = None) -> Interface:
    """The interface of a model that does not state its shapes.

    The shapes are those of an example, unless the model also runs with other sizes.

    Args:
        run: runs the model once.
        example: arrays by input name, in the order in which the model takes them.
        opened: specs of the inputs with every dimension left open that may have another size; None for the batch alone.

    Raises:
        Exception: whatever the model raises when it is run on the example.
        InputError: an output cannot be compared.
    """
    fixed = tuple(TensorSpec(name=name, dtype=dtype_name(array), shape=array.shape) for name, array in example.items())
    if len({spec.shape[:1] for spec in fixed}) == 1 and fixed[0].shape:
        opened = opened or tuple(dataclasses.replace(spec, shape=(BATCH, *spec.shape[1:])) for spec in fixed)
        with contextlib.suppress(Exception):  # then the model takes the example as it is, or not at all
            if (interface := from_specs(run, opened, example)).batched:
                return interface
    return from_specs(run, fixed, example)


def from_specs(run: Run, inputs: tuple[TensorSpec, ...], example: Arrays) -> Interface:
    """The interface of a model whose inputs are known.

    Args:
        run: runs the model once.
        inputs: specs of the inputs, in order.
        example: arrays by input name; each open dimension is run with two sizes.

    Raises:
        InputError: the model has no outputs, or an output that cannot be compared.
    """
    outputs = _outputs(run, inputs, example)
    shapes = [spec.shape for spec in (*inputs, *outputs)]
    first, *others = {shape[0] if shape else None for shape in shapes}
    later = [dim for shape in shapes for dim in shape[1:] if isinstance(dim, str)]
    is_named = isinstance(first, str) and first != UNKNOWN and is_of_samples(first, later)
    batched = not others and (first == 1 or is_named)
    return Interface(inputs=inputs, outputs=outputs, batched=batched)


def resized(example: Arrays, inputs: tuple[TensorSpec, ...], sizes: Mapping[str, int]) -> Arrays:
    """The example with these sizes of its dynamic dimensions: cut short, or repeated from its start."""
    arrays = {}
    for spec in inputs:
        array = np.asarray(example[spec.name])
        for axis, dim in enumerate(spec.shape):
            if isinstance(dim, str) and sizes.get(dim, array.shape[axis]) != array.shape[axis]:
                array = repeated(array, sizes[dim], axis)
        arrays[spec.name] = np.ascontiguousarray(array) if array.ndim else array
    return arrays


def _outputs(run: Run, inputs: tuple[TensorSpec, ...], example: Arrays) -> tuple[TensorSpec, ...]:
    sizes = {dim: example[spec.name].shape[axis] for spec, axis, dim in _named_dims(inputs)}
    first = run(resized(example, inputs, sizes))
    if not first:
        raise InputError("it has no outputs")
    shapes: dict[str, list[int | str]] = {name: list(array.shape) for name, array in first.items()}
    known = choose(stated_of(inputs), sizes, {}, strict=False)
    for dim in known.stated.dims:
        for others, outputs in _others(run, inputs, example, known, dim):
            if any(array.ndim != first[name].ndim for name, array in outputs.items()):
                continue  # as of a model that drops every axis of size 1: its outputs are those of this size
            for name, array in outputs.items():
                for axis, (before, after) in enumerate(zip(first[name].shape, array.shape, strict=True)):
                    if before != after:
                        follows = [
                            text for text, size in others.items() if (before, after) == (known.values[text], size)
                        ]
                        is_clear = follows and shapes[name][axis] in (before, follows[0])
                        shapes[name][axis] = follows[0] if is_clear else UNKNOWN
    for name, array in first.items():
        if array.dtype.kind not in KINDS:
            raise InputError(
                f"output {name!r} holds {array.dtype}; only real numbers, bools and strings can be compared"
            )
    return tuple(
        TensorSpec(name=name, dtype=dtype_name(array), shape=tuple(shapes[name])) for name, array in first.items()
    )


def _others(
    run: Run, inputs: tuple[TensorSpec, ...], example: Arrays, chosen: Chosen, dim: str
) -> Iterator[tuple[Mapping[str, int], Arrays]]:
    """Two other sizes of a dimension, with what follows, as far as the model runs with them, and its outputs.

    One more element changes no output whose windows move by several; twice as many do.
    """
    for other in (chosen.sizes[dim] + 1, 2 * chosen.sizes[dim]):
        sizes = {**chosen.sizes, dim: other}
        try:
            texts = {text: value_of(chosen.stated.sizes[text], sizes) for text in chosen.stated.following}
            others = {dim: other, **{text: size for text, size in texts.items() if size != chosen.values[text]}}
            outputs = run(resized(example, inputs, others))
        except Exception:
            continue
        yield others, outputs
