"""Bytes of the stored tensors that an inference of an ONNX model reads, which looks up only rows of some tables."""

from __future__ import annotations

import collections
import math
from collections.abc import Iterator
from pathlib import Path

from bench.onnxfile.deferred import onnx
from bench.onnxfile.file import dtypes

_LOOKUPS = {"Gather": (0,), "GatherBlockQuantized": (0, 2, 3)}
"""Operators that read rows of a table, and their inputs that hold it, its scales and its zero points."""


def bytes_read(path: Path) -> int:
    """Bytes of the stored tensors of an ONNX file but for tables of which rows are looked up, and which count as none.

    The data may lie in another file, which is not read.
    """
    graph = onnx.load(path, load_external_data=False).graph
    ways = collections.defaultdict(set)
    for each in _graphs(graph):
        for node in each.node:
            for place, name in enumerate(node.input):
                ways[name].add(place in _LOOKUPS.get(node.op_type, ()))
    return sum(
        _num_bytes(tensor) for each in _graphs(graph) for tensor in each.initializer if ways[tensor.name] != {True}
    )


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _graphs(attribute.g)


def _num_bytes(tensor: onnx.TensorProto) -> int:
    return -(-math.prod(tensor.dims) * dtypes.bits(tensor.data_type) // 8)
