"""The precision in which ONNX Runtime really multiplies: read from the graph that it optimized, not from the file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.digest import all_graphs, all_nodes
from bench.plugins.engines.onnxruntime.optimized import load_optimized

_INTEGER = {
    *("ConvInteger", "MatMulInteger", "MatMulIntegerToFloat", "QLinearConv", "QLinearMatMul", "QGemm"),
    *("DynamicQuantizeMatMul", "DynamicQuantizeLSTM", "QAttention"),
}
"""Operators that multiply integers."""
_FLOATING = {
    *("Attention", "Conv", "ConvTranspose", "FusedConv", "FusedGemm", "FusedMatMul", "GRU", "Gemm", "LSTM", "MatMul"),
    *("MultiHeadAttention", "NhwcFusedConv", "RNN"),
}
"""Operators that multiply in the precision of their weights."""
_INT8_ACCURACY_LEVEL = 4  # of MatMulNBits: activations are rounded to 8 bits


def multiplies_in(artifact: Path) -> str:
    """The most reduced precision in which the processor's provider multiplies; ONNX Runtime loads the model for it.

    The optimized model is read: only ONNX Runtime's optimizations make quantized operators, and they cast to float32
    the products of half precision that it has no code for.
    """
    return most_reduced(load_optimized(artifact))


def is_plain(artifact: Path) -> bool:
    """Whether a file has only float32 products: no quantized operator and no weight of half precision."""
    model = onnx.load(artifact)
    quantized = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulNBits")
    return most_reduced(model) == "float32" and not any(node.op_type in quantized for node in all_nodes(model))


def most_reduced(model: onnx.ModelProto) -> str:
    """The precision of a model's products: `int8` before `float16` before `bfloat16`, or `float32`."""
    stored = {tensor.name: tensor.data_type for graph in all_graphs(model) for tensor in graph.initializer}
    names = {onnx.TensorProto.FLOAT16: "float16", onnx.TensorProto.BFLOAT16: "bfloat16"}
    precisions = set(_precisions(all_nodes(model), {name: names.get(kind, "float32") for name, kind in stored.items()}))
    return next((name for name in ("int8", "float16", "bfloat16") if name in precisions), "float32")


def _precisions(nodes: Iterable[onnx.NodeProto], weights: dict[str, str]) -> Iterable[str]:
    for node in nodes:
        if node.op_type in _INTEGER:
            yield "int8"
        elif node.op_type == "MatMulNBits":
            levels = [attribute.i for attribute in node.attribute if attribute.name == "accuracy_level"]
            yield "int8" if levels == [_INT8_ACCURACY_LEVEL] else "float32"
        elif node.op_type in _FLOATING:
            yield from (weights[name] for name in node.input if name in weights)
