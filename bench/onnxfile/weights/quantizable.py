"""The weights of an ONNX model that can be quantized: how operators use them, and how much quantizing them saves."""

from __future__ import annotations

import collections
import dataclasses
import math

from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.digest import all_graphs, all_nodes
from bench.onnxfile.weights.affine import BLOCK, CHANNEL, Scheme

_FLOAT_BYTES = 4
_FEW = 0.5
"""Share of the stored numbers below which a quantizer's work is told to be little: the file is mostly what it was."""
_NODE_BYTES = 64
"""About the bytes that a DequantizeLinear adds to a file besides the data of its tensors."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Weight:
    """An initializer that an operator takes as its weights.

    Attributes:
        channel_axis: the axis whose indices stand for outputs, or for the rows of a table.
        block_axis: the axis along which an operator sums, or along which a row of a table lies.
        flat: whether the sum goes on over all axes after `block_axis`, as a convolution's does over its window.
        num_readers: number of inputs of nodes that read the weight.
    """

    name: str
    shape: tuple[int, ...]
    channel_axis: int
    block_axis: int
    flat: bool = False
    num_readers: int = 1

    def layout(self, scheme: Scheme) -> tuple[tuple[int, ...], int]:
        """The shape in which a scheme stores the weight, and the axis of the scheme's channels or blocks."""
        if scheme.per == BLOCK and self.flat:
            return (*self.shape[: self.block_axis], math.prod(self.shape[self.block_axis :])), self.block_axis
        return self.shape, self.channel_axis if scheme.per == CHANNEL else self.block_axis

    def saved_bytes(self, scheme: Scheme) -> int:
        """Bytes that a scheme saves for this weight."""
        return _FLOAT_BYTES * math.prod(self.shape) - scheme.stored_bytes(*self.layout(scheme))


def find_weights(model: onnx.ModelProto, *, inside: bool = False) -> list[Weight]:
    """Float32 initializers of rank 2 and more that an operator of the model or of a subgraph takes as its weights.

    Biases, the parameters of normalizations and the constants of formulas are not weights. A tensor that several
    operators read is one weight, with the axes of the first of them. An initializer that is an input, too, can be
    replaced at each run, so it is left out.

    Args:
        inside: whether initializers of subgraphs are weights, too; those with the same name are one weight.
    """
    inputs = {value.name for value in model.graph.input}
    stored = {
        tensor.name: tuple(tensor.dims)
        for graph in (all_graphs(model) if inside else (model.graph,))
        for tensor in _float_tensors(graph)
        if tensor.name not in inputs
    }
    num_readers = collections.Counter(name for node in all_nodes(model) for name in node.input)
    weights: dict[str, Weight] = {}
    for node in all_nodes(model):
        for index, name in enumerate(node.input):
            if name not in stored or name in weights or (axes := _axes(node, index, len(stored[name]))) is None:
                continue
            weights[name] = Weight(
                name=name,
                shape=stored[name],
                channel_axis=axes[0],
                block_axis=axes[1],
                flat=node.op_type in ("Conv", "FusedConv"),
                num_readers=num_readers[name],
            )
    return [weights[name] for name in stored if name in weights]


def num_floats(model: onnx.ModelProto) -> int:
    """Numbers in all float32 initializers of rank 2 and more, those of subgraphs included."""
    return sum(math.prod(tensor.dims) for graph in all_graphs(model) for tensor in _float_tensors(graph))


def weight_sizes(model: onnx.ModelProto) -> list[int]:
    """Numbers in each weight of a model and of its subgraphs; a weight counts once for each graph that stores it."""
    names = {weight.name for weight in find_weights(model, inside=True)}
    tensors = (tensor for graph in all_graphs(model) for tensor in _float_tensors(graph))
    return [math.prod(tensor.dims) for tensor in tensors if tensor.name in names]


def _float_tensors(graph: onnx.GraphProto) -> list[onnx.TensorProto]:
    """The float32 initializers of a graph of rank 2 and more."""
    return [
        tensor for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) > 1
    ]


def told_if_few(num_quantized: int, num_stored: int) -> dict[str, str]:
    """A `note` about a file of which a quantizer left most as it was; empty about any other.

    Args:
        num_quantized: numbers in the weights that were quantized.
        num_stored: numbers that the file stored before, see `num_floats`.
    """
    if not num_stored or num_quantized >= _FEW * num_stored:
        return {}
    share = 100 * num_quantized / num_stored
    return {"note": f"only {share:.2g} % of the weights' numbers are quantized; the others are float32 as before"}


def worth_quantizing(model: onnx.ModelProto, scheme: Scheme) -> list[Weight]:
    """The weights that take fewer bytes of the file if they are quantized."""
    return [weight for weight in find_weights(model) if weight.saved_bytes(scheme) > _NODE_BYTES]


def expected_bytes(model: onnx.ModelProto, scheme: Scheme) -> int:
    """Bytes that a float model should take once its weights are quantized.

    That is its size now, with codes, scales and zero points in the place of the floats; the nodes that quantization
    adds are not counted.
    """
    return int(model.ByteSize()) - sum(weight.saved_bytes(scheme) for weight in worth_quantizing(model, scheme))


def _axes(node: onnx.NodeProto, index: int, rank: int) -> tuple[int, int] | None:
    """The axes of the channels and of the sum, or None where an operator takes no weights at that input.

    Operators are recognized by name: ONNX Runtime's fused operators have the layout of those that they stand for.
    """
    last = rank - 1
    match node.op_type, index:
        case "Conv" | "FusedConv", 1:
            return 0, 1
        case "ConvTranspose", 1:
            return 1, 0
        case "MatMul" | "Gemm" | "FusedGemm" | "FusedMatMul", 0:
            return (last, last - 1) if _integer(node, "transA") else (last - 1, last)
        case "MatMul" | "Gemm" | "FusedGemm" | "FusedMatMul", 1:
            return (last - 1, last) if _integer(node, "transB") else (last, last - 1)
        case "LSTM" | "GRU" | "RNN", 1 | 2:  # (directions, gates x hidden, inputs or hidden)
            return 1, 2
        case "Gather", 0:
            rows = _integer(node, "axis") % rank
            return rows, last if rows != last else last - 1
        case "Attention", 1 if node.domain == "com.microsoft":  # (inputs, queries and keys and values)
            return 1, 0
        case "EmbedLayerNormalization", 2 | 3 | 4:  # tables of words, positions and segments
            return 0, 1
        case _:
            return None


def _integer(node: onnx.NodeProto, name: str) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == name), 0)
