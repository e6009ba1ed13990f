"""Counts MACs and parameters of an ONNX file without bench: `python counted.py MODEL FEEDS_JSON`.

The model runs once in onnxruntime, without its optimizations, with every tensor as an output. The counts are sums over
the shapes that come out. Printed is a JSON object with `macs` and `params`.

A MAC is a product that is summed: of convolutions, matrix products and recurrent layers. A parameter is an element of a
tensor with an axis that is stored, or made for a stored shape, and holds floats or integers that quantization made of
them; but no running statistics of a normalization, no scale or zero point, no scales of a Resize, and no single
number that stands in a formula. Subgraphs are not counted: the files that are counted have none.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import alone
import numpy as np
import onnx
import onnxruntime

NO_PARAMETERS = {
    "BatchNormalization": {3, 4},
    "ConvInteger": {2, 3},
    "DequantizeLinear": {1, 2},
    "DynamicQuantizeLSTM": {8, 9, 10, 11},
    "MatMulInteger": {2, 3},
    "QuantizeLinear": {1, 2},
    "Resize": {1, 2},
}
GATES = {"LSTM": 4, "DynamicQuantizeLSTM": 4, "GRU": 3, "RNN": 1}

Shapes = dict[str, tuple[int, ...]]


def shapes_in_a_run(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> Shapes:
    """The shape of every tensor of a model, by name, as onnxruntime gives them."""
    stored = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    outputs = [name for node in model.graph.node for name in node.output if name]
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    arrays = session.run(outputs, feeds)
    run = {name: np.shape(array) for name, array in zip(outputs, arrays, strict=True)}
    return {**stored, **{name: array.shape for name, array in feeds.items()}, **run}


def macs(node: onnx.NodeProto, shapes: Shapes) -> int:
    """The products that a node sums."""
    first, second, *_ = [*(shapes.get(name, ()) for name in node.input), (), ()]
    output = math.prod(shapes[node.output[0]]) if node.output[0] else 0
    attributes: dict[str, Any] = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
    if node.op_type in ("Conv", "ConvInteger"):
        return output * math.prod(second[1:])
    if node.op_type == "ConvTranspose":
        return math.prod(first) * math.prod(second[1:])
    if node.op_type in ("MatMul", "MatMulInteger"):
        return output * first[-1]
    if node.op_type == "Gemm":
        return output * first[0 if attributes.get("transA") else 1]
    if node.op_type in GATES:
        steps, batch, inputs = first
        hidden = attributes["hidden_size"]
        return steps * batch * second[0] * GATES[node.op_type] * hidden * (inputs + hidden)
    return 0


FORMULAS = {"Clip", "Div", "Max", "Min", "Mul", "Pow", "Sqrt", "Sub", "Where"}
"""Operators whose operands may be single numbers of a formula."""
MULTIPLYING = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Operators to whose outputs biases are added."""


def params(model: onnx.ModelProto, shapes: Shapes) -> int:
    """The elements of stored tensors that a node reads as parameters.

    Of single numbers, biases of products count, and a factor and a summand that follow each other.
    """
    types = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    for node in model.graph.node:
        tensors = [entry.t for entry in node.attribute if entry.name == "value" and entry.HasField("t")]
        made = node.op_type == "ConstantOfShape" and node.input[0] in types
        if tensors and (made or node.op_type == "Constant"):
            types[node.output[0]] = tensors[0].data_type
    nodes = model.graph.node
    products = {name for node in nodes if node.op_type in MULTIPLYING for name in node.output}
    singles = {name for name in types if shapes[name] and math.prod(shapes[name]) == 1}
    scaled = {node.output[0] for node in nodes if node.op_type == "Mul" and singles & {*node.input}}
    shifted = {name for node in nodes if node.op_type == "Add" and singles & {*node.input} for name in node.input}
    learned = {getattr(onnx.TensorProto, name) for name in ("FLOAT", "FLOAT16", "DOUBLE", "INT8", "UINT8")}
    read = {
        name
        for node in model.graph.node
        for position, name in enumerate(node.input)
        if types.get(name) in learned
        and position not in NO_PARAMETERS.get(node.op_type, ())
        and not (name in singles and node.op_type in FORMULAS and shifted.isdisjoint(node.output))
        and not (name in singles and node.op_type == "Add" and (products | scaled).isdisjoint(node.input))
    }
    return sum(math.prod(shapes[name]) for name in read if shapes[name])


if __name__ == "__main__":
    model = onnx.load(Path(sys.argv[1]))
    generator = np.random.default_rng(0)
    feeds = {name: alone.array(text, generator) for name, text in json.loads(sys.argv[2]).items()}
    shapes = shapes_in_a_run(onnx.load(Path(sys.argv[1])), feeds)
    nodes = model.graph.node
    print(json.dumps({"macs": sum(macs(node, shapes) for node in nodes), "params": params(model, shapes)}))
