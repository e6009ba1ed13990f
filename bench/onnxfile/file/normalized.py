"""A model prepared for a walk over its nodes: functions are inlined, nodes have names, and weights are no inputs."""

from __future__ import annotations

import itertools
from pathlib import Path

from bench.onnxfile.deferred import onnx
from bench.onnxfile.file import refusals
from bench.onnxfile.file.digest import fed_inputs
from bench.onnxfile.file.lazy import read
from bench.onnxfile.file.replace import replace_all

_WEIGHTS_APART = 4
"""The first version of the format in which weights need not be listed as inputs."""
_HOLD_GRAPHS = ("If", "Loop", "Scan", "SequenceMap")
"""ONNX's own operators that have graphs as attributes; operators of other domains may have them, too."""


def settle(model: onnx.ModelProto) -> onnx.ModelProto:
    """Inline the local functions of a model, give each node a name that no other node has, and unlist its weights.

    A model without local functions is changed in place.

    Raises:
        InputError: as `inline_functions`.
    """
    model = inline_functions(model)
    _name_nodes(model.graph, set(), onnx.AttributeProto.GRAPH)
    unlist_weights(model)
    return model


def inline_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its local functions written out where they are called; itself if it has none.

    Functions that state another version of an operator set than the model stay: onnx cannot convert those that read
    initializers (1.23.2).

    Raises:
        InputError: onnx cannot, as for a call with more inputs than its function has.
    """
    if not model.functions:
        return model
    with refusals.as_input_errors("write out the functions of the model where they are called"):
        return onnx.inliner.inline_local_functions(model)


def unlist_weights(model: onnx.ModelProto) -> None:
    """Take the weights off the list of inputs, in place: before version 4 of the format, they had to stand there.

    A weight that is listed is the default of an input, so tools take it for one that a request may replace.
    """
    fed = fed_inputs(model.graph)
    if len(fed) < len(model.graph.input):
        replace_all(model.graph.input, fed)
    model.ir_version = max(model.ir_version, _WEIGHTS_APART)  # so that weights that are added need not stand there


def unlisted(path: Path, folder: Path) -> Path:
    """An ONNX file whose weights are no inputs: the file itself, or a copy of it in a folder."""
    model = read(path).model
    if model.ir_version >= _WEIGHTS_APART and len(fed_inputs(model.graph)) == len(model.graph.input):
        return path
    model, copy = onnx.load(path), folder / path.name
    unlist_weights(model)
    onnx.save(model, copy)
    return copy


def _name_nodes(graph: onnx.GraphProto, taken: set[str], holds_graph: int) -> None:
    for node in graph.node[:]:  # a slice is read at once, an iterator item by item
        name = node.name
        if not name or name in taken:
            others = (f"{name or node.op_type}_{number}" for number in itertools.count(len(taken)))
            node.name = name = next(other for other in others if other not in taken)
        taken.add(name)
        if not node.domain and node.op_type not in _HOLD_GRAPHS:
            continue
        for attribute in node.attribute:
            if attribute.type == holds_graph:
                _name_nodes(attribute.g, taken, holds_graph)
