"""The numbers that an ONNX model stores, with their parameters and the zero points of those that are quantized."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.digest import all_graphs, all_nodes
from bench.onnxfile.file.dtypes import is_floating, type_name
from bench.onnxfile.file.lazy import Stored
from bench.onnxfile.weights.parameters import learned, stored_nodes

_ZERO_POINTS: dict[str, tuple[int, dict[int, int]]] = {
    "DequantizeLinear": (1, {0: 2}),
    "QLinearConv": (0, {3: 5}),
    "QLinearMatMul": (-1, {0: 2, 3: 5}),
    "ConvInteger": (0, {1: 3}),
    "MatMulInteger": (-1, {0: 2, 1: 3}),
    "DynamicQuantizeMatMul": (-1, {1: 3}),
    "MatMulIntegerToFloat": (-1, {0: 4, 1: 5}),
}
"""For operators that take quantized tensors: the axis of the zero points unless an attribute states another one, and
the inputs that take the tensors, each with the input that takes its zero points."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightTensor:
    """A stored tensor of numbers with at least one axis.

    Attributes:
        num_params: how many parameters it holds by the rule of `parameters`; 0 for scales and for what nothing reads.
        zero_point: the codes that stand for zero; None where the tensor is not quantized or they are not stored.
        axis: of the tensor, along which zero points differ if there are several.
    """

    name: str
    tensor: onnx.TensorProto
    num_params: int = 0
    zero_point: onnx.TensorProto | None = None
    axis: int = 0


def weight_tensors(stored: Stored) -> Iterator[WeightTensor]:
    """Stored tensors of floats with an axis or more, and of integers with two or more, which are no lists of indices.

    Initializers come first, then the tensors of Constant nodes; those of subgraphs and functions are included.
    """
    nodes = list(stored_nodes(stored))
    counts = learned(nodes)
    num_params: dict[str, int] = {}
    zero_points: dict[str, tuple[onnx.TensorProto, int]] = {}
    for node in nodes:
        axis, places = _ZERO_POINTS.get(node.op_type, (0, {}))
        for position, (name, value) in enumerate(zip(node.reads, node.inputs, strict=True)):
            num_params[name] = max(num_params.get(name, 0), counts.get(id(value), 0))
            zero = places.get(position)
            if zero is not None and node.has(zero) and (tensor := node.input(zero).tensor) is not None:
                zero_points.setdefault(name, (tensor, node.integer("axis", axis)))
    for name, tensor in dict(_stored_tensors(stored.model)).items():
        least = 1 if is_floating(tensor.data_type) else 2 if "int" in type_name(tensor.data_type) else None
        if least is not None and len(tensor.dims) >= least:
            zero_point, axis = zero_points.get(name, (None, 0))
            yield WeightTensor(
                name=name, tensor=tensor, num_params=num_params.get(name, 0), zero_point=zero_point, axis=axis
            )


def _stored_tensors(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    for graph in all_graphs(model):
        yield from ((tensor.name, tensor) for tensor in graph.initializer)
    for node in all_nodes(model):
        if node.op_type == "Constant":
            yield from ((node.output[0], attribute.t) for attribute in node.attribute if attribute.HasField("t"))
