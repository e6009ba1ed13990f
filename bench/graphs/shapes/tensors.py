"""The shape and the size in bytes of every tensor of an ONNX model for given input sizes, without running the model."""

from __future__ import annotations

import dataclasses
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence

from bench.api.errors import InputError, suggest
from bench.graphs.deferred import onnx
from bench.graphs.file.digest import fed_inputs
from bench.graphs.file.dtypes import bits, type_name
from bench.graphs.file.foreign import guess_size
from bench.graphs.file.sizes import stated_size
from bench.graphs.shapes.dims import Dim, Shape, Size, shape_text, symbol
from bench.graphs.shapes.node import Value
from bench.graphs.shapes.steps import Inferred, Step


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


def dynamic_inputs(model: onnx.ModelProto) -> dict[str, Shape | None]:
    """Shapes of a graph's inputs, with a named dimension for each size that the file leaves open."""
    found: dict[str, Shape | None] = {}
    for value in fed_inputs(model.graph):
        tensor = value.type.tensor_type
        if value.type.WhichOneof("value") != "tensor_type" or not tensor.HasField("shape"):
            found[value.name] = None
            continue
        sizes: list[Size] = []
        for axis, dim in enumerate(tensor.shape.dim):
            size = stated_size(dim)
            name = dim.dim_param if dim.dim_param not in ("", "?") else f"{value.name}_{axis}"
            sizes.append(symbol(name) if size is None else size)
        found[value.name] = tuple(sizes)
    return found


def bind_inputs(
    model: onnx.ModelProto, *, shapes: Mapping[str, Sequence[int]] | None = None, dims: Mapping[str, int] | None = None
) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    """Choose a size for every dimension of a model's inputs; dimensions that are not given are guessed.

    Args:
        shapes: of inputs, by name.
        dims: sizes of dynamic dimensions, by name.

    Returns:
        Shapes of the inputs by name, and the guessed sizes of dimensions by name.

    Raises:
        InputError: there is no such input or dimension, or a size does not fit.
    """
    inputs = dynamic_inputs(model)
    sizes = _given_dims(inputs, dict(dims or {}))
    for name, given in (shapes or {}).items():
        if name not in inputs:
            raise InputError(f"no input {name!r}; {suggest(name, inputs)}")
        declared = inputs[name]
        if declared is None:
            inputs[name] = tuple(given)
            continue
        if len(declared) != len(given):
            raise InputError(
                f"input {name!r} has {len(declared)} axes, {shape_text(declared)}; {shape_text(given)} was given"
            )
        for axis, (size, wanted) in enumerate(zip(declared, given, strict=True)):
            if wanted < 0:
                raise InputError(f"axis {axis} of input {name!r} is given {wanted}; a size is 0 or more")
            if isinstance(size, int) and size != wanted:
                raise InputError(f"axis {axis} of input {name!r} is fixed to {size} in the file; {wanted} was given")
            if isinstance(size, Dim) and sizes.setdefault(str(size), wanted) != wanted:
                raise InputError(f"dimension {size} is given two sizes, {sizes[str(size)]} and {wanted}")
    guessed: dict[str, int] = {}
    bound: dict[str, tuple[int, ...]] = {}
    for name, shape in inputs.items():
        for axis, size in enumerate(shape or ()):
            if isinstance(size, Dim) and str(size) not in sizes:
                sizes[str(size)] = guessed[str(size)] = guess_size(str(size), axis, len(shape or ()))
        if shape is not None:
            bound[name] = tuple(sizes[str(size)] if isinstance(size, Dim) else size for size in shape)
    return bound, guessed


def _given_dims(inputs: Mapping[str, Shape | None], dims: dict[str, int]) -> dict[str, int]:
    names = list(dict.fromkeys(str(size) for shape in inputs.values() for size in shape or () if isinstance(size, Dim)))
    for name, size in dims.items():
        if name not in names:
            raise InputError(f"no dimension {name!r}; {suggest(name, names)}")
        if size < 0:
            raise InputError(f"dimension {name!r} is given {size}; a size is 0 or more")
    return dims
