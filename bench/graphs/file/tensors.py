"""The weights that an ONNX model stores, wherever they are, and what stands for zero in those that are quantized."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from bench.graphs.file.digest import all_graphs, all_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx

ZERO_POINTS = {
    "DequantizeLinear": ((0, 2),),
    "QLinearConv": ((3, 5),),
    "QLinearMatMul": ((0, 2), (3, 5)),
    "ConvInteger": ((1, 3),),
    "MatMulInteger": ((0, 2), (1, 3)),
    "DynamicQuantizeMatMul": ((1, 3),),
    "MatMulIntegerToFloat": ((0, 4), (1, 5)),
}
"""Inputs of operators that hold a quantized tensor, each with the input that holds its zero point."""
MULTIPLIED = ("QLinearMatMul", "MatMulInteger", "DynamicQuantizeMatMul", "MatMulIntegerToFloat")


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightTensor:
    """A stored tensor of at least one axis.

    Attributes:
        zero_point: what stands for zero, if that is stored, too.
        axis: of the tensor, along which zero points differ if there are several.
    """

    name: str
    tensor: onnx.TensorProto
    zero_point: onnx.TensorProto | None = None
    axis: int = 0


def weight_tensors(model: onnx.ModelProto) -> Iterator[WeightTensor]:
    """Initializers and the tensors of Constant nodes: numbers, but not those that are a shape or a list of indices.

    These are the floating-point ones with an axis or more, and the integers with two or more.
    """
    stored = dict(stored_tensors(model))
    zero_points: dict[str, tuple[str, int]] = {}
    for node in all_nodes(model):
        for data, zero in ZERO_POINTS.get(node.op_type, ()):
            if zero < len(node.input) and node.input[zero] in stored:
                zero_points.setdefault(node.input[data], (node.input[zero], _axis(node)))
    for name, tensor in stored.items():
        if _is_weight(tensor):
            zero_name, axis = zero_points.get(name, ("", 0))
            yield WeightTensor(name=name, tensor=tensor, zero_point=stored.get(zero_name), axis=axis)


def stored_tensors(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    """Names and tensors of all initializers and Constant nodes, those of subgraphs and functions included."""
    for graph in all_graphs(model):
        for tensor in graph.initializer:
            yield tensor.name, tensor
    for node in all_nodes(model):
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield node.output[0], attribute.t


def _axis(node: onnx.NodeProto) -> int:
    default = -1 if node.op_type in MULTIPLIED else 1 if node.op_type == "DequantizeLinear" else 0
    return next((attribute.i for attribute in node.attribute if attribute.name == "axis"), default)


def _is_weight(tensor: onnx.TensorProto) -> bool:
    import onnx

    name = onnx.TensorProto.DataType.Name(tensor.data_type)
    least = 1 if name.startswith(("FLOAT", "DOUBLE", "BFLOAT")) else 2 if "INT" in name else None
    return least is not None and len(tensor.dims) >= least
