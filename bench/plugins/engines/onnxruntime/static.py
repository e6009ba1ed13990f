"""What ONNX Runtime's static quantizer is given: samples, and the nodes that it must leave alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.api import Arrays
from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.digest import all_graphs

_REMOVED = ("Relu", "Clip")
"""Operators that the quantizer may remove."""


class Feeds:
    """Feeds for ONNX Runtime's calibration, which asks for a stride of them at a time.

    All samples at once would hold every activation of each in memory.
    """

    def __init__(self, feeds: Sequence[Arrays]) -> None:
        self._feeds = feeds

    def __len__(self) -> int:
        return len(self._feeds)

    def set_range(self, start_index: int, end_index: int) -> None:
        self.get_next = iter([*self._feeds[start_index:end_index], None]).__next__


def read_inside(model: onnx.ModelProto) -> list[str]:
    """Names of the activations that a subgraph reads.

    ONNX Runtime's quantizer removes a Relu or Clip whose range the scale has, and lets the nodes of the main graph
    read its input instead, but not those of subgraphs (1.31.1).
    """
    inner = list(all_graphs(model))[1:]
    read = {name for graph in inner for node in graph.node for name in node.input}
    read |= {value.name for graph in inner for value in graph.output}
    return [node.output[0] for node in model.graph.node if node.op_type in _REMOVED and node.output[0] in read]


def in_one_scale(model: onnx.ModelProto, kind: Any) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """The extra options that give some weights one scale, although others have one for each channel.

    They are those of transposed convolutions in groups with a bias: their second axis has the channels of one group,
    and the bias has those of all groups, so the quantizer cannot divide it by their scales (1.31.1).

    Args:
        kind: the `QuantType` of the weights.
    """
    stored = {tensor.name for tensor in model.graph.initializer}
    names = [
        node.input[1]
        for node in model.graph.node
        if node.op_type == "ConvTranspose" and len(node.input) > 2 and node.input[2] and _num_groups(node) > 1
    ]
    chosen = {name: [{"quant_type": kind}] for name in names if name in stored}
    return {"TensorQuantOverrides": chosen} if chosen else {}


def _num_groups(node: onnx.NodeProto) -> int:
    return next((int(attribute.i) for attribute in node.attribute if attribute.name == "group"), 1)
