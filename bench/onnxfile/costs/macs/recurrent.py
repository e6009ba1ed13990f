"""Work of recurrent layers: the work of one step times the number of steps.

Shapes: T steps, N batch, D directions, I inputs, H hidden units. Where `sequence_lens` shortens some samples, all T
steps are counted: the lengths are data.
"""

from __future__ import annotations

from bench.onnxfile.costs.work import Work, rule
from bench.onnxfile.operators import MICROSOFT
from bench.onnxfile.shapes.node import Node

GATES = {"LSTM": 4, "DynamicQuantizeLSTM": 4, "GRU": 3, "RNN": 1}
OTHER_OPS = {"LSTM": 13, "DynamicQuantizeLSTM": 13, "GRU": 11, "RNN": 2}
"""Elementary operations on one unit in one step: biases, activations and the operations that join the gates."""


@rule("LSTM", "GRU", "RNN")
@rule("DynamicQuantizeLSTM", domains=(MICROSOFT,))
def recurrent(node: Node) -> Work:
    """Each gate of each unit sums over the inputs and over the hidden units."""
    steps, batch, inputs = node.shape()
    if node.integer("layout"):
        steps, batch = batch, steps
    directions = node.shape(2)[0]
    hidden = node.integer("hidden_size") or node.shape(2)[-1]
    units = steps * batch * directions * hidden
    return Work(units * GATES[node.op_type] * (inputs + hidden), units * OTHER_OPS[node.op_type])
