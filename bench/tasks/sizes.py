"""Sizes of the dimensions that a model leaves open: as asked for, as in the data set, or guesses that run."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bench.api import Arrays, TensorSpec, lengths
from bench.api.arrays import Domain, generate
from bench.api.errors import InputError
from bench.onnxfile.deferred import np
from bench.onnxfile.file.foreign import OTHER_SIZE
from bench.onnxfile.shapes import size_choice as sizing
from bench.onnxfile.shapes import tensors
from bench.onnxfile.shapes.size_choice import Chosen
from bench.onnxfile.shapes.size_options import GivenShape, option
from bench.tasks import dataset, plausible, probe
from bench.tasks.failures import one_line
from bench.tasks.options import Asked, Found, Interface
from bench.tasks.user_task import OwnTask, sized

_OTHER_SIZES = (OTHER_SIZE, 64, 256, 512, 1024)
"""Tried in this order for dimensions whose names and places say nothing."""
_MOST_TRIES = 40
MOST_BYTES = 2**29
"""In a made-up input of a size that nobody gave."""


class NothingRunsError(InputError):
    """A model that runs with none of the sizes that were tried."""


def choose(
    task: type[OwnTask],
    run: probe.Run,
    inputs: tuple[TensorSpec, ...],
    options: Asked,
    attributes: Mapping[str, Any] = {},
    *,
    likely: Mapping[str, int] = {},
    domains: Mapping[str, Domain] = {},
    num_samples: int = 1,
) -> Found:
    """Choose sizes with which a model runs, and learn its outputs.

    Args:
        task: the class of the model's task.
        run: runs the model once.
        inputs: specs of the inputs, in order.
        options: sizes and samples that the user gave.
        attributes: class attributes of the generated task besides those that follow from running the model.
        likely: sizes to try first, by dimension, where the model's format tells more than the dimension's name.
        domains: the least and the largest value of made-up inputs, by name.
        num_samples: samples in the batch that tells whether outputs say little.

    Raises:
        InputError: an input cannot be fed, the sizes asked for are not the model's, or the model does not run.
    """
    for spec in inputs:
        try:
            kind = np.dtype(spec.dtype).kind
        except TypeError:  # a type of the model's framework alone, such as that of texts
            kind = "O"
        if kind not in probe.KINDS:
            raise InputError(f"input {spec.name!r} holds {spec.dtype}; only real numbers, bools and strings can be fed")
    user_sizes = given_sizes(inputs, options)
    first = chosen(inputs, user_sizes, options, likely).values
    sizes, interface = try_out(run, inputs, user_sizes, options, [first] if likely else [], domains)
    tried = {dim: max(size, num_samples) if dim == probe.BATCH else size for dim, size in sizes.items()}
    notes = doubts(run, inputs, tried, options, domains)
    if domains:
        attributes = {**attributes, "domains": dict(domains)}
    return interface.facts(task, sizes=sizes, user_sizes=user_sizes, attributes=attributes, notes=notes, run=run)


def doubts(
    run: probe.Run,
    inputs: Sequence[TensorSpec],
    sizes: Mapping[str, int],
    options: Asked,
    domains: Mapping[str, Domain] = {},
) -> tuple[str, ...]:
    """Lines about outputs whose fidelity says little, see `plausible.doubts`; none where there are real samples."""
    if options.arrays is not None:
        return ()
    examples = (_example_of(inputs, sizes, options, domains, seed=seed) for seed in (0, 1))
    return plausible.doubts(run, *examples)


def try_out(
    run: probe.Run,
    inputs: tuple[TensorSpec, ...],
    user_sizes: Mapping[str, int],
    options: Asked,
    first: Iterable[Mapping[str, int]] = (),
    domains: Mapping[str, Domain] = {},
) -> tuple[dict[str, int], Interface]:
    """The first guess of sizes with which the model runs, and the model's interface.

    Args:
        run: runs the model once.
        inputs: specs of the inputs, in order.
        user_sizes: sizes by name that stay.
        options: sizes and samples that the user gave.
        first: sizes to try before the guesses.
        domains: the least and the largest value of made-up inputs, by name.

    Raises:
        NothingRunsError: the model runs with none of the guesses; the message has the first error.
        InputError: an output cannot be compared.
    """
    failures: list[tuple[dict[str, int], Exception]] = []
    for sizes in itertools.chain(first, guesses(inputs, user_sizes, options)):
        try:
            return dict(sizes), probe.from_specs(run, inputs, _example_of(inputs, sizes, options, domains))
        except InputError:
            raise
        except Exception as error:
            failures.append((dict(sizes), error))
    sizes, reason = failures[0]
    with_sizes = " with " + ", ".join(f"{dim}={size}" for dim, size in sizes.items()) if sizes else ""
    open_dims = [dim for dim in probe.stated_of(inputs).dims if dim != probe.BATCH and dim not in user_sizes]
    fix = f"; say its sizes, such as {option(open_dims[0], 'SIZE')}" if open_dims else ""
    raise NothingRunsError(f"it does not run{with_sizes}: {one_line(reason)}{fix}") from reason


def given_sizes(inputs: Sequence[TensorSpec], options: Asked) -> dict[str, int]:
    """Sizes of named dimensions that the user gave by `--dim` or `--shape`, or that the data set has.

    Raises:
        InputError: the model has no such input or dimension, or the input's shape is another.
    """
    specs = {spec.name: spec for spec in inputs}
    sizes: dict[str, int] = {}
    shapes = dict(options.shapes)
    if options.arrays is not None:
        for name, array in dataset.named(options.arrays, list(specs)).items():
            if name in specs:  # `dataset.fitted` says what does not fit
                whole = array.shape[1:] if array.ndim == len(specs[name].shape) + 1 else (1, *array.shape[1:])
                shapes.setdefault(name, GivenShape(sizes=tuple(whole), dtype=None))
    for name, shape in shapes.items():
        if name not in specs:
            raise InputError(f"it has no input {name!r}; its inputs: {', '.join(specs)}")
        dims = specs[name].shape
        is_fitting = dataset.fits(dims, shape.sizes)
        if not is_fitting and name in options.shapes:
            raise InputError(f"input {name!r} is {'x'.join(map(str, dims))}, not {'x'.join(map(str, shape.sizes))}")
        if is_fitting:
            for dim, size in zip(dims, shape.sizes, strict=True):
                if isinstance(dim, str) and sizes.setdefault(dim, size) != size and name in options.shapes:
                    raise InputError(f"dimension {dim!r} is given two sizes, {sizes[dim]} and {size}")
    known = probe.stated_of(inputs)
    names = {*known.sizes, *known.dims}
    shaped = {dim for name in options.shapes for dim in specs[name].shape}
    for dim, size in options.dims.items():
        if dim in shaped and sizes[dim] != size:
            raise InputError(f"dimension {dim!r} is given two sizes, {sizes[dim]} and {size}")
        if dim not in names:
            if not names:
                raise InputError(f"it has no dynamic dimension {dim!r}, nor any other")
            raise InputError(f"it has no dynamic dimension {dim!r}; its dynamic dimensions: {', '.join(sorted(names))}")
        sizes[dim] = size
    return sizes


def chosen(
    inputs: Sequence[TensorSpec], user_sizes: Mapping[str, int], options: Asked, likely: Mapping[str, int] = {}
) -> Chosen:
    """The likeliest sizes of all dimensions; sizes that were given stay, and what follows from them follows.

    Args:
        inputs: specs of the inputs.
        user_sizes: see `given_sizes`.
        options: sizes and samples that the user gave. The sizes of samples are as they are, whatever the model states.
        likely: sizes by dimension that the model's format tells.

    Raises:
        InputError: the sizes that were given contradict each other.
    """
    known = probe.stated_of(inputs)
    guessed = tensors.likely_sizes(known, [spec.shape for spec in inputs])
    return sizing.choose(known, user_sizes, {**guessed, **likely}, strict=options.arrays is None)


def guesses(inputs: Sequence[TensorSpec], user_sizes: Mapping[str, int], options: Asked) -> Iterator[dict[str, int]]:
    """Sizes of every dimension to try, the likeliest first; sizes that were given stay, and others follow.

    Raises:
        InputError: the sizes that were given contradict each other.
    """
    first = chosen(inputs, user_sizes, options)
    yield first.values
    free = [dim for dim, size in first.guessed.items() if size == _OTHER_SIZES[0]]
    tries = (  # a recurrent state's unnamed dimension is often the batch, so any of them may be 1
        {**first.sizes, **dict.fromkeys(free, size), **dict.fromkeys(ones, 1)}
        for size in _OTHER_SIZES
        for count in range(len(free) + 1)
        for ones in itertools.combinations(free, count)
    )
    for sizes in itertools.islice(tries, _MOST_TRIES):
        with contextlib.suppress(InputError):  # with these sizes an expression is no whole number
            yield sizing.choose(first.stated, user_sizes, sizes, strict=options.arrays is None).values


def _example_of(
    inputs: Sequence[TensorSpec],
    sizes: Mapping[str, int],
    options: Asked,
    domains: Mapping[str, Domain] = {},
    *,
    seed: int = 0,
) -> Arrays:
    """Arrays of one request by input name: the data set's first sample, or made-up values.

    Raises:
        InputError: the data set does not fit the inputs.
    """
    if options.arrays is not None:
        try:
            rows = dataset.fitted(options.arrays, inputs, batched=True, what="the data set")
        except InputError as error:  # each sample may be a whole request
            with contextlib.suppress(InputError):
                rows = dataset.fitted(options.arrays, inputs, batched=False, what="the data set")
                return {name: np.asarray(array[0]) for name, array in rows.items()}
            raise error
        return {name: array[:1] for name, array in rows.items()}
    for spec in inputs:
        shape, num_bytes = sized(spec.shape, sizes), np.dtype(spec.dtype).itemsize * math.prod(sized(spec.shape, sizes))
        if num_bytes > MOST_BYTES and not (options.dims or options.shapes):
            raise InputError(
                f"its input {spec.name!r} is {'x'.join(map(str, shape))} of {spec.dtype}, {num_bytes:,} bytes; up to "
                f"{MOST_BYTES:,} are made up: give samples by --dataset, or its size by --shape"
            )
    generator = np.random.default_rng(seed)
    limits = {**lengths.domains(inputs, sizes), **domains}
    return {
        spec.name: np.asarray(generate(generator, spec.dtype, sized(spec.shape, sizes), limits.get(spec.name)))
        for spec in inputs
    }
