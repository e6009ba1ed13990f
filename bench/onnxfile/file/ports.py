"""Inputs and outputs of element types that NumPy lacks: wider ones, and a Cast between them and the graph."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.digest import fed_inputs, subgraphs
from bench.onnxfile.file.dtypes import bits, is_floating, is_number, type_name
from bench.onnxfile.file.replace import replace_all


def widen_ports(model: onnx.ModelProto) -> list[str]:
    """Let a model be fed with, and give, float32 or bytes where its inputs and outputs are narrower, in place.

    `bfloat16` and the types of 8 bits and fewer are cast to what NumPy has and back without a loss.

    Returns:
        A line about each input and output that was changed.
    """
    graph, notes = model.graph, []
    names = _free_names(graph)
    narrow = {tensor.name for tensor in graph.initializer}.union(*(node.output for node in graph.node))
    """Names of values that a Cast can follow; an input that is an output at once is given as it is fed."""
    before, after = [], []
    fed: dict[str, int] = {}
    for value in fed_inputs(graph):
        if (wide := _wider(value)) is not None:
            tensor, inner = value.type.tensor_type, next(names)
            _rename(graph, {value.name: inner})
            before.append(onnx.helper.make_node("Cast", [value.name], [inner], inner, to=tensor.elem_type))
            notes.append(f"input {value.name!r} is {type_name(tensor.elem_type)}: it is fed as {type_name(wide)}, cast")
            tensor.elem_type = fed[value.name] = wide
    for value in graph.output:
        tensor = value.type.tensor_type
        if (wide := fed.get(value.name, _wider(value))) is None:
            continue
        if value.name in narrow:
            narrow.discard(value.name)  # it may be listed again
            inner = next(names)
            _rename(graph, {value.name: inner})
            _rename_stored(graph, value.name, inner)
            after.append(onnx.helper.make_node("Cast", [inner], [value.name], inner, to=wide))
        notes.append(f"output {value.name!r} is {type_name(tensor.elem_type)}: it is given as {type_name(wide)}")
        tensor.elem_type = wide
    if notes:
        ports = {value.name for value in (*graph.input, *graph.output)}
        replace_all(graph.value_info, [value for value in graph.value_info if value.name not in ports])
        replace_all(graph.node, [*before, *graph.node, *after])
    return notes


def _wider(value: onnx.ValueInfoProto) -> int | None:
    """A type of NumPy's that holds all numbers of a tensor's type; None where NumPy has the type or no such one."""
    dtype = value.type.tensor_type.elem_type
    if value.type.WhichOneof("value") != "tensor_type" or is_number(dtype):
        return None
    if is_floating(dtype):
        return int(onnx.TensorProto.FLOAT)
    if bits(dtype) < 8 and type_name(dtype).startswith(("int", "uint")):
        return int(onnx.TensorProto.INT8 if type_name(dtype).startswith("int") else onnx.TensorProto.UINT8)
    return None


def _rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Rename values of a graph that its nodes make and read, in its subgraphs, too, but not its inputs and outputs."""
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for inner in subgraphs(node):
            _rename(inner, names)
            for value in inner.output:
                value.name = names.get(value.name, value.name)


def _rename_stored(graph: onnx.GraphProto, name: str, other: str) -> None:
    """Rename a weight, and the input whose default it is."""
    for value in (*graph.initializer, *graph.input):
        if value.name == name:
            value.name = other


def _free_names(graph: onnx.GraphProto) -> Iterator[str]:
    """Names that no value of a graph or its subgraphs has."""
    taken = set(_names(graph))
    return (name for number in itertools.count() if (name := f"narrow_{number}") not in taken)


def _names(graph: onnx.GraphProto) -> Iterator[str]:
    for value in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        yield value.name
    for node in graph.node:
        yield from (*node.input, *node.output)
        for inner in subgraphs(node):
            yield from _names(inner)
