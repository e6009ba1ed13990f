"""Drop the shapes and types that an ONNX file states of its tensors where they contradict what its nodes make."""

from __future__ import annotations

import contextlib

from bench.api.errors import InputError
from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.digest import all_graphs, inferred
from bench.onnxfile.file.replace import replace_all
from bench.onnxfile.file.sizes import stated_size

_Stated = tuple[int, tuple[int | None, ...] | None]
"""The element type, and the sizes by axis (None for an open size; None for an unknown rank)."""
_MOST_NAMED = 3


def drop_stale(model: onnx.ModelProto) -> str | None:
    """Drop stale statements from a model, in place.

    Statements are optional and runtimes refuse a model that contradicts itself. Where inference fails or finds none
    that is wrong, all statements are dropped, because a runtime may infer more. Those of subgraphs are dropped in any
    case.

    Returns:
        A sentence that says what was dropped; None if there was nothing to drop.
    """
    graph = model.graph
    follows: dict[str, onnx.ValueInfoProto] = {}
    with contextlib.suppress(InputError):  # a runtime may know operators that onnx does not
        inferred_model = inferred(onnx.ModelProto.FromString(model.SerializeToString()))
        follows = {value.name: value for value in (*inferred_model.value_info, *inferred_model.output)}
    in_subgraphs = 0
    for inner in all_graphs(model):
        if inner is not graph:
            in_subgraphs += len(inner.value_info)
            inner.ClearField("value_info")
    stated = [*graph.value_info, *(value for value in graph.output if value.type.tensor_type.HasField("shape"))]
    stale = [value for value in stated if value.name in follows and contradict(value, follows[value.name])]
    clauses = [f"{value.name!r} is {text(value)}, not {text(follows[value.name])}" for value in stale[:_MOST_NAMED]]
    dropped = {value.name for value in stale or stated}
    replace_all(graph.value_info, (value for value in graph.value_info if value.name not in dropped))
    for value in graph.output:
        if value.name in dropped and value.name in follows:
            value.CopyFrom(follows[value.name])
        elif value.name in dropped:
            value.type.tensor_type.ClearField("shape")
    if stale:
        more = f" and {len(stale) - _MOST_NAMED} more" if len(stale) > _MOST_NAMED else ""
        return f"its stated shapes contradict its nodes, and were dropped: {', '.join(clauses)}{more}"
    count = len(dropped) + in_subgraphs
    return f"all {count} shapes that it states besides those of its inputs were dropped" if count else None


def contradict(statement: onnx.ValueInfoProto, other: onnx.ValueInfoProto) -> bool:
    """Whether two statements cannot be true of the same tensor."""
    (dtype, sizes), (other_dtype, other_sizes) = _stated(statement), _stated(other)
    if dtype and other_dtype and dtype != other_dtype:
        return True
    if sizes is None or other_sizes is None:
        return False
    return len(sizes) != len(other_sizes) or any(
        None not in pair and pair[0] != pair[1] for pair in zip(sizes, other_sizes, strict=True)
    )


def _stated(value: onnx.ValueInfoProto) -> _Stated:
    tensor = value.type.tensor_type
    sizes = tuple(map(stated_size, tensor.shape.dim))
    return tensor.elem_type, sizes if tensor.HasField("shape") else None


def text(value: onnx.ValueInfoProto) -> str:
    """A statement in words, such as `float of ?x4`."""
    dtype, sizes = _stated(value)
    kind = onnx.TensorProto.DataType.Name(dtype).lower() if dtype else "?"
    if not sizes:
        return f"{kind} of {'an unknown shape' if sizes is None else 'no axes'}"
    return f"{kind} of {'x'.join('?' if size is None else str(size) for size in sizes)}"
