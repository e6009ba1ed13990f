"""Translations of recurrent layers: OpenVINO has the batch first, and one bias where ONNX has two.

Shapes: N batch, D directions, I inputs, H hidden units, G gates.
"""

from __future__ import annotations

from typing import Any

from bench.graphs.deferred import onnx
from bench.plugins.engines.openvino.graph.operation import Operation, UntranslatableError, rule

KINDS = {f"{kind}{form}": kind for kind in ("LSTM", "GRU", "RNN") for form in ("Sequence", "Cell")}


def _attributes(op: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {"hidden_size": op.attributes["hidden_size"]}
    if op.attributes.get("linear_before_reset"):
        found["linear_before_reset"] = 1
    return found


@rule("LSTMSequence", "GRUSequence", "RNNSequence")
def sequence(op: Operation) -> None:
    """X (N, T, I), states (N, D, H), lengths, W (D, G H, I), R, B to Y (N, D, T, H) and the last states."""
    states = 2 if KINDS[op.kind] == "LSTM" else 1
    lengths, *weights = range(1 + states, 5 + states)
    inputs = [op.x(), *(op.x(index) for index in weights), op.make("Cast", op.x(lengths), to=onnx.TensorProto.INT32)]
    inputs += [op.x(index) for index in range(1, 1 + states)]
    steps = op.graph.unique(f"{op.node.get_friendly_name()}_steps")
    direction = op.attributes["direction"].lower()
    last = [op.output(index) for index in range(1, 1 + states)]
    op.ends(KINDS[op.kind], inputs, [steps, *last], layout=1, direction=direction, **_attributes(op))
    name = op.output()
    op.nodes.append(onnx.helper.make_node("Transpose", [steps], [name], name=name, perm=[0, 2, 1, 3]))


@rule("LSTMCell", "GRUCell", "RNNCell")
def cell(op: Operation) -> None:
    """A layer of one step: X (N, I), states (N, H), W (G H, I), R, B to the next states."""
    states = 2 if KINDS[op.kind] == "LSTM" else 1
    if not op.has(3 + states):
        raise UntranslatableError
    weights = [op.shaped(index, (1, *op.shape(index))) for index in range(1 + states, 4 + states)]
    first = [op.make("Unsqueeze", op.x(index), op.constant([0])) for index in range(1 + states)]
    ends = [op.graph.unique(f"{op.node.get_friendly_name()}_last") for _ in range(states)]
    op.ends(KINDS[op.kind], [first[0], *weights, "", *first[1:]], ["", *ends], **_attributes(op))
    for index, end in enumerate(ends):
        name = op.output(index)
        op.nodes.append(onnx.helper.make_node("Squeeze", [end, op.constant([0])], [name], name=name))
