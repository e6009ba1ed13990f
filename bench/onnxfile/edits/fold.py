"""A model without the arithmetic of shapes: values that follow from the sizes of its inputs become constants."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from bench.api.errors import InputError, suggest
from bench.onnxfile.deferred import np, onnx
from bench.onnxfile.file import normalized
from bench.onnxfile.file.digest import all_graphs, all_nodes
from bench.onnxfile.file.lazy import Stored
from bench.onnxfile.file.reads import node_reads
from bench.onnxfile.file.replace import replace_all
from bench.onnxfile.shapes import fitting, inference, tensors
from bench.onnxfile.shapes.dims import Dim, Shape, Size, equal
from bench.onnxfile.shapes.node import Node, UnknownError, Value
from bench.onnxfile.shapes.size_choice import Chosen
from bench.onnxfile.shapes.steps import Inferred, Step

_KEPT = ("Constant", "Identity")
"""Operators that are never folded: a Constant is constant already, and an Identity may tie two weights."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Folded:
    """A model without its shape arithmetic, and lines about the sizes that were guessed for it."""

    model: onnx.ModelProto
    notes: tuple[str, ...]


def compute_graph(
    model: onnx.ModelProto,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    free: Iterable[str] = (),
    path: Path | None = None,
) -> Folded:
    """Return the same model for given sizes of its inputs, with constants in the place of all shape arithmetic.

    Args:
        model: is not changed. Its external data need not be loaded.
        shapes: of inputs, by name.
        dims: sizes of dynamic dimensions, by name; sizes that neither `shapes` nor `dims` states are found, see
            `bench.onnxfile.shapes.fitting`.
        free: names of dynamic dimensions that stay dynamic, such as the batch. The shape that a Reshape or Expand is
            given becomes a constant, too, if only one size depends on a free dimension.
        path: of the model's file; without it, values computed from external data are not folded.

    Raises:
        InputError: as `bench.onnxfile.profile`.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy = normalized.settle(copy)
    stored, free_dims = Stored(model=copy, path=path), set(free)
    bound, chosen = tensors.bind_inputs(copy, shapes=shapes, dims=dims)
    _check_free(copy, free_dims)
    notes: list[str] = []
    if chosen.guessed.keys() - free_dims:
        fitted = fitting.infer(stored, bound, chosen)
        bound, chosen, notes = dict(fitted.inputs), fitted.chosen, fitted.notes(without=free_dims)
    inferred = inference.infer(stored, _with_free(copy, bound, chosen, free_dims))
    fold_known(inferred)
    for value in (*copy.graph.input, *copy.graph.output):
        shape, stated = inferred.values[value.name].shape, value.type.tensor_type
        if shape is not None:
            sizes = [size if isinstance(size, int) else str(size) for size in shape]
            stated.shape.CopyFrom(onnx.helper.make_tensor_type_proto(stated.elem_type, sizes).tensor_type.shape)
    return Folded(model=copy, notes=tuple(notes))


def fold_known(inferred: Inferred) -> None:
    """Replace every known value of a model by a constant, and drop the shapes that the file states of inner values.

    Args:
        inferred: the result of inference for the model. The model is changed in place; `values` and `steps` are not,
            and describe the model as it was.
    """
    model = inferred.model
    for graph in all_graphs(model):
        graph.ClearField("value_info")
    names = (f"shape_{number}" for number in itertools.count())
    taken = {name for node in all_nodes(model) for name in (*node.input, *node.output)}
    _fold(model.graph, inferred.steps, inferred.values, (name for name in names if name not in taken))


def _check_free(model: onnx.ModelProto, free: set[str]) -> None:
    """Refuse free dimensions that the inputs do not have."""
    names = set(tensors.stated_of(tensors.stated_dims(model)).dims)
    for name in free - names:
        raise InputError(f"no dimension {name!r}; {suggest(name, sorted(names))}")


def _with_free(model: onnx.ModelProto, bound: Mapping[str, Shape], chosen: Chosen, free: set[str]) -> dict[str, Shape]:
    """Sizes of the inputs, in which the free dimensions stay as they are."""
    fixed = {dim: size for dim, size in chosen.sizes.items() if dim not in free}
    declared = tensors.dynamic_inputs(model, fixed)
    return {name: declared.get(name) or sizes for name, sizes in bound.items()}


def _fold(graph: onnx.GraphProto, steps: Sequence[Step], values: Mapping[str, Value], names: Iterator[str]) -> None:
    """Put constants in the place of known values in a graph and its subgraphs, and drop what only led to them."""
    outputs = {value.name for value in graph.output}
    left, folded = [], set()
    for step in steps:
        node = step.node
        own_outputs = [name for name in node.makes if name]
        if (
            node.op_type not in _KEPT
            and own_outputs
            and all(_is_known(values[name]) and name not in outputs for name in own_outputs)
        ):
            folded.update(own_outputs)
            continue
        for body in step.bodies:
            if body.steps or body.values:  # inference went through it
                _fold(node.attributes[body.path.rpartition(".")[2]].g, body.steps, body.values, names)
        _tell_shape(graph, node, names)
        left.append(node.proto)
    read, nodes = outputs, []
    for proto in reversed(left):
        if not read.isdisjoint(proto.output):
            read |= node_reads(proto).keys()
            nodes.append(proto)
    replace_all(graph.node, reversed(nodes))
    replace_all(graph.initializer, [tensor for tensor in graph.initializer if tensor.name in read])
    graph.initializer.extend(_tensor(name, values[name]) for name in sorted(folded & read))


def _is_known(value: Value) -> bool:
    return value.elements is not None and not _is_open(value.elements.reshape(-1))


def _is_open(sizes: Iterable[Size]) -> bool:
    return any(isinstance(size, Dim) for size in sizes)


def _tell_shape(graph: onnx.GraphProto, node: Node, names: Iterator[str]) -> None:
    """Give a Reshape or Expand a constant shape, if the operator can infer the size that is not known."""
    if node.domain or node.op_type not in ("Reshape", "Expand"):
        return
    try:
        wanted = node.items(1)
        shape = _reshape_to(node.out()) if node.op_type == "Reshape" else _expand_to(wanted, node.shape())
    except UnknownError:
        return
    if _is_open(wanted) and not _is_open(shape):
        node.proto.input[1] = next(names)
        graph.initializer.append(onnx.numpy_helper.from_array(np.array(shape, np.int64), node.proto.input[1]))
        replace_all(node.proto.attribute, [own for own in node.proto.attribute if own.name != "allowzero"])


def _reshape_to(shape: Shape) -> list[Size]:
    """The shape with a -1 for its only open size; a Reshape can infer neither two sizes nor one beside a 0."""
    if 0 in shape or sum(isinstance(size, Dim) for size in shape) > 1:
        raise UnknownError
    return [-1 if isinstance(size, Dim) else size for size in shape]


def _expand_to(wanted: Sequence[Size], data: Shape) -> list[Size]:
    """The wanted shape with a 1 wherever the data have the same size: an Expand leaves such an axis as it is."""
    aligned = (1,) * (len(wanted) - len(data)) + data
    here = aligned[len(aligned) - len(wanted) :]
    return [1 if equal(size, there) == 1 else size for size, there in zip(wanted, here, strict=True)]


def _tensor(name: str, value: Value) -> onnx.TensorProto:
    assert value.elements is not None
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.dtype)
    return onnx.numpy_helper.from_array(value.elements.astype(dtype), name)
