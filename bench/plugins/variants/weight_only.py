"""Weights stored in 8 or 4 bits, in standard ONNX: a DequantizeLinear makes floats of them at run time."""

from __future__ import annotations

import math
from pathlib import Path

from bench.api import Info, Task, Variant
from bench.api.errors import RefusedError
from bench.onnxfile.deferred import np, onnx
from bench.onnxfile.edits.opset import raise_opset
from bench.onnxfile.edits.rewire import load_settled, shorten_names
from bench.onnxfile.file.digest import all_graphs
from bench.onnxfile.weights.affine import BLOCK, BLOCK_SIZE, SCHEMES, TENSOR, Scheme, pack, quantize, scheme
from bench.onnxfile.weights.quantizable import Weight, expected_bytes, num_floats, told_if_few, worth_quantizing

_OPSET_CHANNELS = 13
_OPSET_BLOCKS = 21
"""The first operator sets whose DequantizeLinear takes channels, and blocks and types of 4 bits."""


class WeightOnly(Variant):
    """Quantizes every weight that gets smaller; activations stay float32."""

    portable = True
    requires = ("onnx", "onnxruntime")
    options = tuple(item.name for item in SCHEMES)
    lossy = True

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        chosen = scheme(option)
        needed = _OPSET_BLOCKS if chosen.bits == 4 or chosen.per == BLOCK else _OPSET_CHANNELS
        model = raise_opset(load_settled(source), needed, task)
        shorten_names(model)
        weights = worth_quantizing(model, chosen)
        if not weights:
            raise RefusedError("no float32 weights of matrix products, convolutions, LSTMs or embeddings in this file")
        size_bytes, num_stored = expected_bytes(model, chosen), num_floats(model)
        quantize_weights(model, weights, chosen)
        onnx.save(model, target)
        return {
            "bits": chosen.bits,
            "expected_bytes": size_bytes,
            "num_quantized": len(weights),
            "num_left_in_subgraphs": _num_inner_weights(model),
            **told_if_few(sum(math.prod(weight.shape) for weight in weights), num_stored),
        }


def quantize_weights(model: onnx.ModelProto, weights: list[Weight], scheme: Scheme) -> None:
    """Replace initializers by quantized tensors, and by nodes that make floats of them under the old names.

    So every reader of a weight, in a subgraph as well, reads the floats that are made once from the stored tensor.
    """
    graph = model.graph
    floats, nodes = {tensor.name: tensor for tensor in graph.initializer}, list(graph.node)
    del graph.initializer[:], graph.node[:]
    for weight in weights:
        _dequantize(weight, onnx.numpy_helper.to_array(floats.pop(weight.name)), scheme, graph)
    graph.initializer.extend(floats.values())
    graph.node.extend(nodes)


def _dequantize(weight: Weight, array: np.ndarray, scheme: Scheme, graph: onnx.GraphProto) -> None:
    """Add the tensors that store a quantized weight to a graph, and the nodes that make the weight of them."""
    shape, axis = weight.layout(scheme)
    quantized = quantize(array.reshape(shape), scheme, axis)
    kind = f"{'' if scheme.symmetric else 'U'}INT{scheme.bits}"

    def integers(name: str, values: np.ndarray) -> onnx.TensorProto:
        data_type = getattr(onnx.TensorProto, kind)
        return onnx.helper.make_tensor(name, data_type, values.shape, pack(values, scheme.bits), raw=True)

    scales = onnx.numpy_helper.from_array(quantized.scale, f"{weight.name}_s")
    tensors = [integers(f"{weight.name}_q", quantized.codes), scales]
    if not scheme.symmetric:
        tensors.append(integers(f"{weight.name}_z", quantized.zero_point))
    attributes = {} if scheme.per == TENSOR else {"axis": axis}
    if scheme.per == BLOCK:
        attributes["block_size"] = min(BLOCK_SIZE, shape[axis])
    # ONNX Runtime (1.31) gives every reader of a DequantizeLinear a copy of it, so that a tied weight is dequantized
    # once for each reader; a Reshape after it, which copies nothing, is not doubled.
    reshaped = shape != weight.shape or weight.num_readers > 1
    output = f"{weight.name}_f" if reshaped else weight.name
    inputs = [tensor.name for tensor in tensors]
    graph.node.append(onnx.helper.make_node("DequantizeLinear", inputs, [output], name=output, **attributes))
    if reshaped:
        tensors.append(onnx.numpy_helper.from_array(np.array(weight.shape), f"{weight.name}_d"))
        shaping = onnx.helper.make_node("Reshape", [output, tensors[-1].name], [weight.name], name=weight.name)
        graph.node.append(shaping)
    graph.initializer.extend(tensors)


def _num_inner_weights(model: onnx.ModelProto) -> int:
    """The number of float32 tensors of rank 2 and more in subgraphs, where nothing is quantized."""
    inner = [tensor for graph in all_graphs(model) if graph is not model.graph for tensor in graph.initializer]
    return sum(tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) > 1 for tensor in inner)
