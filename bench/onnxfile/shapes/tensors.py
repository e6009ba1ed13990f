"""The shape and the size in bytes of every tensor of an ONNX model for given input sizes, without running the model."""

from __future__ import annotations

import dataclasses
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from bench.api.errors import InputError, suggest
from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.digest import fed_inputs
from bench.onnxfile.file.dtypes import bits, type_name
from bench.onnxfile.file.foreign import guess_size
from bench.onnxfile.file.sizes import stated_size
from bench.onnxfile.shapes.dims import Shape, shape_text
from bench.onnxfile.shapes.node import Value
from bench.onnxfile.shapes.size_choice import Chosen, choose
from bench.onnxfile.shapes.stated_sizes import Stated, stated
from bench.onnxfile.shapes.steps import Inferred, Step


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorInfo:
    """The type and shape of a tensor of a model.

    Attributes:
        name: as in the main graph; a tensor inside a subgraph is named `<path>:<name>`.
        dtype: such as `float32` or `int4`; `unknown` for a value that is no tensor.
        shape: None if it depends on data.
        bytes: size of the elements, packed as the type allows: two `int4` a byte. None if the size is not known.
        observed: whether the shape was observed in a run, and does not follow from the file.
        is_weight: whether the tensor is stored in the file, or a ConstantOfShape makes it of a stored shape.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] | None
    bytes: int | None
    observed: bool = False
    is_weight: bool = False


def tensors(inferred: Inferred) -> dict[str, TensorInfo]:
    """Describe each tensor of a model, by name; names in a subgraph are `<path>:<name>`."""
    return {name: tensor_info(name, value) for name, value in named_values(inferred)}


def named_values(inferred: Inferred) -> Iterator[tuple[str, Value]]:
    """Iterate over all values of a model and its subgraphs; names in a subgraph are `<path>:<name>`."""
    pending: list[tuple[str, Mapping[str, Value], Sequence[Step]]] = [("", inferred.values, inferred.steps)]
    while pending:
        prefix, values, steps = pending.pop()
        for name, value in values.items():
            yield f"{prefix}{name}", value  # a damaged name is bytes
        for body in (body for step in steps for body in step.bodies):
            inner = body.values.maps[0] if isinstance(body.values, ChainMap) else body.values
            own = {name: value for name, value in inner.items() if values.get(name) is not value}
            pending.append((f"{body.path}:", own, body.steps))


def tensor_info(name: str, value: Value) -> TensorInfo:
    """Describe a value as a tensor named `name`."""
    shape = value.numbers
    return TensorInfo(
        name=name,
        dtype=type_name(value.dtype),
        shape=shape,
        bytes=value.bytes if shape is not None and bits(value.dtype) else None,
        is_weight=value.is_weight,
    )


def stated_dims(model: onnx.ModelProto) -> dict[str, tuple[int | str, ...] | None]:
    """Shapes of a graph's inputs as the file states them, with a text for each size that it leaves open."""
    shapes: dict[str, tuple[int | str, ...] | None] = {}
    for value in fed_inputs(model.graph):
        tensor = value.type.tensor_type
        if value.type.WhichOneof("value") != "tensor_type" or not tensor.HasField("shape"):
            shapes[value.name] = None
            continue
        sizes: list[int | str] = []
        for axis, dim in enumerate(tensor.shape.dim):
            size = stated_size(dim)
            text = dim.dim_param if dim.dim_param not in ("", "?") else f"{value.name}_{axis}"
            sizes.append(text if size is None else size)
        shapes[value.name] = tuple(sizes)
    return shapes


def stated_of(shapes: Mapping[str, Sequence[int | str] | None], known: Mapping[str, int] = {}) -> Stated:
    """What the texts in shapes stand for; `known` is as `stated` takes it."""
    return stated((size for shape in shapes.values() for size in shape or () if isinstance(size, str)), known)


def dynamic_inputs(model: onnx.ModelProto, known: Mapping[str, int] = {}) -> dict[str, Shape | None]:
    """Shapes of a graph's inputs, with a dimension, or an expression of dimensions, for each size that is left open.

    Args:
        known: sizes of dimensions, which are numbers in the shapes.
    """
    shapes = stated_dims(model)
    sizes = stated_of(shapes, known).sizes
    return {
        name: None if shape is None else tuple(sizes[size] if isinstance(size, str) else size for size in shape)
        for name, shape in shapes.items()
    }


def bind_inputs(
    model: onnx.ModelProto, *, shapes: Mapping[str, Sequence[int]] | None = None, dims: Mapping[str, int] | None = None
) -> tuple[dict[str, tuple[int, ...]], Chosen]:
    """Choose a size for every dimension of a model's inputs; dimensions that are not given are guessed.

    Args:
        shapes: of inputs, by name.
        dims: sizes of dynamic dimensions, by name.

    Returns:
        Shapes of the inputs by name, and the sizes of all dimensions.

    Raises:
        InputError: there is no such input or dimension, or a size does not fit.
    """
    inputs = stated_dims(model)
    reading = stated_of(inputs)
    options = _given_dims(reading, dict(dims or {}))
    free: dict[str, tuple[int, ...]] = {}  # inputs whose shape the file does not state
    for name, wanted in (shapes or {}).items():
        if name not in inputs:
            raise InputError(f"no input {name!r}; {suggest(name, inputs)}")
        declared = inputs[name]
        if declared is None:
            free[name] = tuple(wanted)
            continue
        if len(declared) != len(wanted):
            raise InputError(
                f"input {name!r} has {len(declared)} axes, {shape_text(declared)}; {shape_text(wanted)} was given"
            )
        for axis, (size, length) in enumerate(zip(declared, wanted, strict=True)):
            if length < 0:
                raise InputError(f"axis {axis} of input {name!r} is given {length}; a size is 0 or more")
            if isinstance(size, int) and size != length:
                raise InputError(f"axis {axis} of input {name!r} is fixed to {size} in the file; {length} was given")
            if isinstance(size, str) and options.setdefault(size, length) != length:
                raise InputError(f"dimension {size} is given two sizes, {options[size]} and {length}")
    chosen = choose(reading, options, likely_sizes(reading, (shape for shape in inputs.values() if shape is not None)))
    bound = {
        name: tuple(chosen.values[size] if isinstance(size, str) else size for size in shape)
        for name, shape in inputs.items()
        if shape is not None
    }
    return {**bound, **free}, chosen


def likely_sizes(reading: Stated, shapes: Iterable[Sequence[int | str]]) -> dict[str, int]:
    """The likely size of each dimension, by its name and its first place: as a size of its own, if it has such a place.

    Args:
        reading: what the texts in the shapes stand for.
        shapes: of the inputs.
    """
    places = [(size, axis, len(shape)) for shape in shapes for axis, size in enumerate(shape) if isinstance(size, str)]
    bare = {
        text: guess_size(text, axis, rank) for text, axis, rank in reversed(places) if text not in reading.following
    }
    within = {dim: guess_size(dim, axis, rank) for text, axis, rank in reversed(places) for dim in reading.of(text)}
    return {dim: bare.get(dim, within[dim]) for dim in reading.dims}


def _given_dims(reading: Stated, dims: dict[str, int]) -> dict[str, int]:
    names = list(dict.fromkeys((*reading.sizes, *reading.dims)))
    for name, size in dims.items():
        if name not in names:
            raise InputError(f"no dimension {name!r}; {suggest(name, names)}")
        if size < 0:
            raise InputError(f"dimension {name!r} is given {size}; a size is 0 or more")
    return dims
