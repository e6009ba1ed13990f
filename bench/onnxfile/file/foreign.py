"""The inputs, outputs and external data of an ONNX file that a user brings; it is not trusted, so a child reads it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from bench.api import UNKNOWN
from bench.api.arrays import STRING
from bench.api.errors import InputError
from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.digest import fed_inputs, inferred_outputs
from bench.onnxfile.file.dtypes import is_number, type_name
from bench.onnxfile.file.lazy import read
from bench.onnxfile.file.ports import widen_ports
from bench.onnxfile.file.replace import replace_all
from bench.onnxfile.file.sizes import stated_size
from bench.onnxfile.file.text import value_type
from bench.onnxfile.shapes.stated_sizes import stated

Shape = tuple[int | str | None, ...]
Mend: TypeAlias = "Callable[[onnx.ModelProto], str | None]"
"""Changes a model in place, and returns a sentence that says what; None where there was nothing to change."""

LARGEST_BYTES = 2**31 - 1  # of a protobuf message
_IMAGE_SIDE = 224
OTHER_SIZE = 16


def inspect(path: Path) -> dict[str, Any]:
    """Read the interface of a model and the names of the files that belong to it, of which a task is made.

    Returns:
        `inputs` and `outputs` (fields of a `TensorSpec`), `data` (paths of its external data) and `rewritten` (a line
        for each output that is no tensor, and for each input and output of a type that NumPy lacks, which `write`
        therefore leaves out, replaces or casts).

    Raises:
        InputError: the file is no model, cannot be fed and compared, or needs a file outside its folder.
    """
    stored = read(path)
    rewritten = [*keep_tensors(stored.model), *widen_ports(stored.model)]
    data = [str(file) for file in stored.data_files()]
    inputs, outputs = _interface(stored.model)
    return {"inputs": inputs, "outputs": outputs, "data": data, "rewritten": rewritten}


def write(path: Path, target: Path, *, mends: Iterable[Mend] = (), ranks: Mapping[str, int] = {}) -> str | None:
    """Write a model with all its external data as one file, whose outputs are tensors of numbers that NumPy has.

    Args:
        mends: changes of what the file states wrongly, in their order.
        ranks: the number of axes of outputs whose sizes are left open instead of what the file states, by name.

    Returns:
        What was mended, a sentence each; None if there was nothing to mend.

    Raises:
        InputError: as `inspect`; or the model is too large for one file.
    """
    stored = read(path)
    keep_tensors(stored.model)
    widen_ports(stored.model)
    size_bytes = stored.model.ByteSize() + stored.data_bytes(stored.model)
    if size_bytes > LARGEST_BYTES:
        raise InputError(
            f"with its external data it has {size_bytes / 2**30:.1f} GiB; a model is measured as one ONNX file, which "
            "holds 2 GiB at most"
        )
    mended = [sentence for mend in mends if (sentence := mend(stored.model))]
    for value in stored.model.graph.output:
        if value.name in ranks:
            value.type.tensor_type.shape.SetInParent()
            replace_all(value.type.tensor_type.shape.dim, [onnx.TensorShapeProto.Dimension()] * ranks[value.name])
    stored.embed(stored.model)
    target.write_bytes(stored.model.SerializeToString())
    return "; ".join(mended) or None


def keep_tensors(model: onnx.ModelProto) -> list[str]:
    """Leave out outputs that are no tensors if others are tensors; return a line about each.

    Classifiers of scikit-learn end in ZipMap, which turns each row of scores into a dict by class: the scores stay.
    """
    made_by = {name: node for node in model.graph.node for name in node.output}
    is_tensor = {value.name: value.type.WhichOneof("value") == "tensor_type" for value in model.graph.output}
    outputs, notes = [], []
    for value in model.graph.output:
        node = made_by.get(value.name)
        if is_tensor[value.name]:
            outputs.append(value)
        elif node is not None and (node.domain, node.op_type) == ("ai.onnx.ml", "ZipMap") and node.input:
            scores, float32 = node.input[0], onnx.TensorProto.FLOAT  # ZipMap takes float32 alone
            if node in model.graph.node:  # a broken one may make several of the outputs
                outputs.append(onnx.helper.make_tensor_value_info(scores, float32, [None, None]))
                model.graph.node.remove(node)
            notes.append(f"output {value.name!r} is a dict for each sample; {scores!r}, its scores, is in its place")
        elif any(is_tensor.values()):
            notes.append(f"output {value.name!r} is left out: it is no tensor")
        else:
            outputs.append(value)
    replace_all(model.graph.output, outputs)
    return notes


def _interface(model: onnx.ModelProto) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The fields of a `TensorSpec` of each input and output."""
    graph = model.graph
    graph_inputs = fed_inputs(graph)
    for value in graph_inputs:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_param in ("", UNKNOWN) and stated_size(dim) is None:
                dim.dim_param = f"{value.name}_{axis}"  # so that inference tells which outputs share it
    inputs, stated = (
        [{"name": value.name, "dtype": _dtype(kind, value), "shape": _shape(value)} for value in values]
        for kind, values in (("input", graph_inputs), ("output", graph.output))
    )
    if not inputs or not stated:
        raise InputError(f"it has no {'outputs' if inputs else 'inputs'}")
    if any(None in spec["shape"] for spec in inputs):
        raise InputError("an input has no shape")
    names = {dim for spec in inputs for dim in spec["shape"] if isinstance(dim, str)}
    try:
        inferred = {value.name: _shape(value) for value in inferred_outputs(model)}
    except InputError:  # the runtime has the better message
        inferred = {}
    for spec in stated:
        spec["shape"] = _merged(spec["shape"], inferred.get(spec["name"], (None,)), names)
    return inputs, stated


def _dtype(kind: str, value: onnx.ValueInfoProto) -> str:
    """NumPy's name of the element type."""
    what = f"{kind} {value.name!r}"
    if not value.name or not value.name.isprintable():
        raise InputError(f"{what} has no name that can be printed")
    if value.type.WhichOneof("value") != "tensor_type":
        raise InputError(
            f"{what} is not a tensor ({value_type(value)}); only tensors can be fed and compared",
            fix="cut the model where tensors go in and come out",
        )
    number = value.type.tensor_type.elem_type
    if number == onnx.TensorProto.STRING:
        return STRING
    if not is_number(number):
        raise InputError(f"{what} holds {type_name(number)}; only real numbers, bools and strings can be compared")
    return type_name(number)


def _shape(value: onnx.ValueInfoProto) -> Shape:
    """The dimensions of a value: a size, a name, or None where it has neither; (None,) for an unknown rank."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return (None,)
    return tuple(dim.dim_param or None if (size := stated_size(dim)) is None else size for dim in tensor.shape.dim)


def _merged(stated: Shape, inferred: Shape, names: set[str]) -> Shape:
    """The shape of an output as the file states it, completed by the inferred shape.

    Only sizes, and names that inputs use as well, are kept: many exporters invent a name for each dimension of each
    output, which says nothing.
    """
    if stated == (None,):
        stated = inferred
    if len(inferred) != len(stated):
        inferred = stated
    pairs = zip(stated, inferred, strict=True)
    return tuple(next((dim for dim in pair if isinstance(dim, int) or dim in names), UNKNOWN) for pair in pairs)


def is_batched(shapes: Sequence[Shape]) -> bool:
    """Whether all inputs and outputs begin with the same dimension, and it can be that of the samples."""
    first, *others = {shape[0] if shape else None for shape in shapes}
    if others:
        return False
    if not isinstance(first, str):
        return first == 1
    later = [dim for shape in shapes for dim in shape[1:] if isinstance(dim, str)]
    return is_of_samples(first, later) and not any("batch" in dim.lower() for dim in later)


def is_of_samples(first: str, later: Iterable[str]) -> bool:
    """Whether a row along a first dimension can be a sample, given the texts of all later axes.

    A row of `2*batch` is no request, and where a later axis follows the first, a sample has another shape in a larger
    batch.
    """
    reading = stated((first, *later))
    return first not in reading.following and not any(first in reading.of(dim) for dim in later)


def guess_size(name: str, axis: int, rank: int) -> int:
    """Guess the size of a dynamic dimension from its name, its axis and the number of axes of its tensor."""
    name = name.lower()
    nameless = re.search(rf"^unk__|^unknown|dynamic|^s\d+$|_{axis}$", name) is not None
    if "batch" in name or (axis == 0 and (nameless or rank == 4 or name in ("n", "b"))):
        return 1
    side = re.search(r"height|width|^[hw]$", name) is not None
    return _IMAGE_SIDE if rank == 4 and (side or nameless) else OTHER_SIZE
