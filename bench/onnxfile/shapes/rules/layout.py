"""Shape rules of operators that move, repeat, cut or join elements, and of those that make tensors of a given size."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from bench.onnxfile.deferred import np, onnx
from bench.onnxfile.file.dtypes import is_floating
from bench.onnxfile.operators import MICROSOFT
from bench.onnxfile.shapes import dims
from bench.onnxfile.shapes.dims import Dim, Size, maximum, minimum, shape_text
from bench.onnxfile.shapes.node import FLOAT, INT64, MAX_ELEMENTS, Node, ShapeError, UnknownError, Value
from bench.onnxfile.shapes.rules.arithmetic import broadcast_shapes, known_operands
from bench.onnxfile.shapes.rules.registry import rule

END = 10**9
"""Exporters write this, or more, for the end of an axis."""


def _plain(sizes: Sequence[Size]) -> bool:
    return all(isinstance(size, int) for size in sizes)


@rule("Shape")
def shape(node: Node) -> Value:
    sizes = list(node.shape())
    start, end = node.integer("start", 0), node.integer("end", len(sizes))
    taken = sizes[start:end]
    return Value(INT64, (len(taken),), np.array(taken, object))


@rule("Size")
def size(node: Node) -> Value:
    return Value(INT64, (), np.array(math.prod(node.shape()), object))


@rule("Reshape")
def reshape(node: Node) -> Value:
    """A 0 stands for the input's size of that axis, unless `allowzero` is set; a -1 for the size that is left."""
    first = node.input()
    target = node.static_integers("shape", 1, since=5)
    data = first.shape
    sizes: list[Size] = list(target)
    if not node.integer("allowzero"):
        for axis, wanted in enumerate(sizes):
            if wanted == 0:
                if data is None or axis >= len(data):
                    raise UnknownError
                sizes[axis] = data[axis]
    if sizes.count(-1) > 1:
        raise ShapeError(f"{node.what} has more than one size of -1 in its shape")
    if -1 in sizes:
        if data is None:
            raise UnknownError
        rest = sizes.index(-1)
        sizes[rest] = _rest(node, data, sizes[:rest] + sizes[rest + 1 :])
    elif data is not None and _plain(data) and _plain(sizes) and math.prod(data) != math.prod(sizes):
        raise ShapeError(f"{node.what} cannot make {shape_text(sizes)} of {shape_text(data)}")
    return _moved(first, sizes, np.reshape, sizes)


def _rest(node: Node, data: Sequence[Size], others: Sequence[Size]) -> Size:
    """The size that -1 stands for. Sizes that both shapes contain are cancelled first, because they may be 0."""
    have, factors = list(data), []
    for wanted in others:
        if wanted in have:
            have.remove(wanted)
        else:
            factors.append(wanted)
    total, part = math.prod(have), math.prod(factors)
    if isinstance(part, int) and (part == 0 or (isinstance(total, int) and total % part)):
        raise ShapeError(f"{node.what} cannot make {shape_text((*others, -1))} of {shape_text(data)}")
    return total // part


def _moved(value: Value, sizes: Sequence[Any], move: Callable[..., np.ndarray], *arguments: Any) -> Value:
    """A value of the shape `sizes`, whose elements `move` computes from those of `value` if they are known and few."""
    elements = value.elements
    if elements is None or not _plain(sizes) or math.prod(sizes) > MAX_ELEMENTS:
        return Value(value.dtype, sizes)
    return Value(value.dtype, sizes, move(elements, *arguments))


@rule("Flatten")
def flatten(node: Node) -> Value:
    sizes = node.shape()
    axis = node.integer("axis", 1)
    axis = axis + len(sizes) if axis < 0 else axis
    result = (math.prod(sizes[:axis]), math.prod(sizes[axis:]))
    return _moved(node.input(), result, np.reshape, result)


@rule("Squeeze")
def squeeze(node: Node) -> Value:
    first, sizes = node.input(), node.shape()
    axes = node.static_integers("axes", 1, since=13)
    if axes is None:
        if not _plain(sizes):
            raise UnknownError
        dropped = {axis for axis, length in enumerate(sizes) if length == 1}
    else:
        dropped = {node.checked_axis(axis, len(sizes)) for axis in axes}
        if any(isinstance(sizes[axis], int) and sizes[axis] != 1 for axis in dropped):
            raise ShapeError(f"{node.what} cannot drop axes {sorted(dropped)} of {shape_text(sizes)}")
    rest = [length for axis, length in enumerate(sizes) if axis not in dropped]
    return _moved(first, rest, np.reshape, rest)


@rule("Unsqueeze")
@rule("ExpandDims", domains=(MICROSOFT,))
def unsqueeze(node: Node) -> Value:
    first, sizes = node.input(), list(node.shape())
    axes = node.items(1) if node.domain else node.static_integers("axes", 1, since=13) or ()
    for axis in sorted(node.checked_axis(axis, len(sizes) + len(axes)) for axis in axes):
        sizes.insert(axis, 1)
    return _moved(first, sizes, np.reshape, sizes)


@rule("Transpose")
def transpose(node: Node) -> Value:
    first, sizes = node.input(), node.shape()
    order = node.integers("perm") or list(reversed(range(len(sizes))))
    if sorted(order) != list(range(len(sizes))):
        raise ShapeError(f"{node.what} orders axes {order} of {shape_text(sizes)}")
    return _moved(first, [sizes[axis] for axis in order], np.transpose, order)


@rule("Concat")
@rule("QLinearConcat", domains=(MICROSOFT,))
def concat(node: Node) -> Value:
    """A quantized tensor is followed by its scale and its zero point, and those of the output come before the first."""
    places = range(2, len(node.inputs), 3) if node.domain else range(len(node.inputs))
    shapes = [node.shape(index) for index in places]
    rank = len(shapes[0])
    if {len(sizes) for sizes in shapes} != {rank}:
        raise ShapeError(f"{node.what} joins {' and '.join(map(shape_text, shapes))}")
    along = node.axis(rank, 1)  # version 1 had a default
    result = list(shapes[0])
    for sizes in shapes[1:]:
        for axis, here in enumerate(sizes):
            if axis == along:
                result[axis] = result[axis] + here
            elif here is not result[axis] and isinstance(here, int):
                if isinstance(result[axis], int) and here != result[axis]:
                    raise ShapeError(f"{node.what} joins {' and '.join(map(shape_text, shapes))} along axis {along}")
                result[axis] = here
    parts = known_operands(node) if rank < 2 and not node.domain else None  # tensors of sizes have no more axes
    return Value(node.input(places[0]).dtype, result, np.concatenate(parts, axis=along) if parts else None)


@rule("Slice")
def slice_(node: Node) -> Value:
    first, sizes = node.input(), list(node.shape())
    starts, ends, axes, steps = (
        node.static_integers(name, index, since=10) for index, name in enumerate(("starts", "ends", "axes", "steps"), 1)
    )
    axes = axes or list(range(len(starts)))
    steps = steps or [1] * len(starts)
    cuts: dict[int, slice] = {}
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        at = node.checked_axis(axis, len(sizes))
        here = sizes[at]
        clamped = _clamped if step > 0 else _clamped_down
        low, high = clamped(start, here), clamped(end, here)
        sizes[at] = maximum(dims.ceil_div(high - low if step > 0 else low - high, abs(step)), 0)
        if isinstance(low, int) and isinstance(high, int):
            cuts[at] = slice(low, None if high < 0 else high, step)
    if len(cuts) < len(axes):
        return Value(first.dtype, sizes)
    return _moved(first, sizes, operator.getitem, tuple(cuts.get(axis, slice(None)) for axis in range(len(sizes))))


def _clamped(position: Size, size: Size) -> Size:
    """The start or end of a slice, clamped from 0 to the size; a negative position counts from the end."""
    if isinstance(position, int) and position >= END:
        return size
    if dims.never_negative(position):
        return minimum(position, size)
    if dims.never_negative(-position):
        return maximum(size + position, 0)
    counted = dims.select(dims.less(position, 0), size + position, position)
    return maximum(minimum(counted, size), 0)


def _clamped_down(position: Size, size: Size) -> Size:
    """The start or end of a slice with a negative step, clamped from -1 to the last position."""
    if not isinstance(position, int):
        raise UnknownError
    return minimum(position, size - 1) if position >= 0 else maximum(size + position, -1)


@rule("Split")
def split(node: Node) -> list[Value | None]:
    first, sizes = node.input(), node.shape()
    along, count = node.axis(len(sizes), 0), len(node.makes)
    parts = node.static_integers("split", 1, since=13)
    if parts is None:
        part = dims.ceil_div(sizes[along], node.integer("num_outputs", count))
        parts = [part] * (count - 1) + [sizes[along] - part * (count - 1)]
    if _plain(parts) and isinstance(sizes[along], int) and sum(parts) != sizes[along]:
        raise ShapeError(f"{node.what} splits {sizes[along]} into {parts}")
    results: list[Value | None] = []
    at: Size = 0
    for part in parts:
        cut = (*[slice(None)] * along, slice(at, at + part))
        results.append(_moved(first, (*sizes[:along], part, *sizes[along + 1 :]), operator.getitem, cut))
        at = at + part
    return results


@rule("Gather")
def gather(node: Node) -> Value:
    first, data, indices = node.input(), node.shape(0), node.shape(1)
    along = node.axis(len(data), 0)
    sizes = (*data[:along], *indices, *data[along + 1 :])
    elements = first.elements
    positions = node.input(1).elements if elements is not None else None
    if elements is None or positions is None or any(isinstance(position, Dim) for position in positions.reshape(-1)):
        return Value(first.dtype, sizes)
    if any(not -data[along] <= position < data[along] for position in positions.reshape(-1)):
        raise ShapeError(f"{node.what} takes index {positions.tolist()} of {data[along]} elements")
    taken = elements.take(positions.astype(int), axis=along)
    return Value(first.dtype, sizes, np.asarray(taken, object))


@rule("Tile")
def tile(node: Node) -> Value:
    first, sizes = node.input(), node.shape()
    if node.version < 6:
        raise UnknownError
    repeats = node.items(1)
    if len(repeats) != len(sizes):
        raise ShapeError(f"{node.what} repeats {len(sizes)} axes {len(repeats)} times")
    return _moved(first, [length * many for length, many in zip(sizes, repeats, strict=True)], np.tile, repeats)


@rule("Expand")
def expand(node: Node) -> Value:
    sizes = broadcast_shapes(node, [node.shape(), tuple(node.items(1))])
    return _moved(node.input(), sizes, np.broadcast_to, sizes)


@rule("Pad")
def pad(node: Node) -> Value:
    first, sizes = node.input(), list(node.shape())
    pads: list[Any] = (node.integers("pads") or node.integers("paddings") or []) if node.version < 11 else node.items(1)
    axes = node.items(3) if node.version >= 18 and node.has(3) else list(range(len(sizes)))
    if len(pads) != 2 * len(axes):
        raise ShapeError(f"{node.what} pads {len(axes)} axes by {len(pads)} numbers")
    for position, axis in enumerate(axes):
        at = node.checked_axis(axis, len(sizes))
        sizes[at] = sizes[at] + pads[position] + pads[position + len(axes)]
    return Value(first.dtype, sizes)


@rule("ConstantOfShape")
def constant_of_shape(node: Node) -> Value:
    """Floats count as a weight if the shape that they are made of is stored in the file."""
    sizes = node.items(0)
    value = node.attributes["value"].t if "value" in node.attributes else None
    dtype = value.data_type if value is not None else FLOAT
    elements = None
    if _plain(sizes) and min(sizes, default=0) >= 0 and math.prod(sizes) <= MAX_ELEMENTS:
        element = onnx.numpy_helper.to_array(value).reshape(-1)[0].item() if value is not None else 0.0
        elements = np.full(sizes, element, object)
    result = Value(dtype, sizes, elements)
    result.generated = result.is_weight = node.input().stored is not None and is_floating(dtype) and bool(sizes)
    return result


@rule("Range", domains=("", MICROSOFT))
def range_(node: Node) -> Value:
    start, limit = node.number(0), node.number(1)
    step = node.number(2) if node.has(2) else 1
    numbers = (start, limit, step)
    dtype = node.input().dtype
    if isinstance(step, Dim) or not step:
        raise UnknownError
    if float in map(type, numbers):
        return Value(dtype, (max(math.ceil((limit - start) / step), 0),))
    count: Any = maximum(dims.ceil_div(limit - start, step), 0)
    is_known = _plain(numbers) and count <= MAX_ELEMENTS
    return Value(dtype, (count,), np.array(range(*numbers), object) if is_known else None)


@rule("OneHot")
def one_hot(node: Node) -> Value:
    indices = list(node.shape())
    at = node.integer("axis", -1)
    depth = node.number(1)
    indices.insert(at + len(indices) + 1 if at < 0 else at, depth if isinstance(depth, Dim) else int(depth))
    return Value(node.input(2).dtype, indices)


@rule("NonZero")
def non_zero(node: Node) -> Value:
    """(rank, number of elements that are not 0); the number is known only if the elements are."""
    elements = node.input().elements
    rank = len(node.shape())
    if elements is None or any(isinstance(element, Dim) for element in elements.reshape(-1)):
        return Value(INT64, (rank, node.fresh(0, 1)))
    indices = np.argwhere(elements.astype(bool)).T
    return Value(INT64, indices.shape, indices.astype(object))
