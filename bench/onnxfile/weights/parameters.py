"""The one rule that says which stored numbers of an ONNX model are parameters, and how many there are.

A parameter is an element of a stored tensor with at least one axis that an operator reads, or that the model gives as
an output, as a number that training sets. In detail:

- Floating-point elements are parameters, and so are the integers of 16 bits or fewer that quantization makes of them,
  each counted as 1 however many are packed into a byte. Integers of 32 or 64 bits are shapes, axes and indices, and
  are not parameters; the only exceptions are the 32-bit biases and weights of quantized layers.
- Scales and zero points of quantization are not parameters, nor are the smaller numbers of which a Cast, or a Cast and
  a Mul, makes them. Neither are running means and variances (nor are they in PyTorch and Keras), the regions and
  scales of a Resize and the cosines and sines of an attention, or the frequencies that these are computed of.
- A tensor without an axis is a constant of a formula, such as the epsilon of a normalization, and is no parameter.
  So is a single number with axes that an elementwise operator reads, such as the scale of an attention, but for the
  bias of a product with weights, and for a scale and a shift that follow each other, as of a normalization of one
  channel or a learnable affine block.
- A tensor counts once, however many nodes read it; a tensor that nothing reads does not count.
- Constant nodes store tensors like initializers do. Floats that a ConstantOfShape makes of a stored shape count as if
  they were stored. Local functions are inlined before anything is counted.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from bench.onnxfile.deferred import onnx
from bench.onnxfile.file import lazy
from bench.onnxfile.file.digest import subgraphs
from bench.onnxfile.file.dtypes import bits, is_floating, type_name
from bench.onnxfile.file.normalized import settle
from bench.onnxfile.file.wiring import constant_of
from bench.onnxfile.shapes.node import Node, Value, stored_value
from bench.onnxfile.shapes.rules import RULES

_NOT_LEARNED = {
    "BatchNormalization": (3, 4),
    "DynamicQuantizeLSTM": (8, 9, 10, 11),
    "FakeQuantize": (1, 2, 3, 4),
    "GroupQueryAttention": (7, 8),
    "MatMulBnb4": (2,),
    "MatMulIntegerToFloat": (2, 3, 4, 5),
    "MatMulNBits": (2, 3, 4),
    "QAttention": (3, 4, 6, 7),
    "QEmbedLayerNormalization": range(8, 18),
    "QGemm": (1, 2, 4, 5, 7, 8),
    "Upsample": (1,),
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear", "Resize"), (1, 2)),
    **dict.fromkeys(("ConvInteger", "DynamicQuantizeMatMul", "GatherBlockQuantized", "MatMulInteger"), (2, 3)),
    **dict.fromkeys(("QLinearAdd", "QLinearConv", "QLinearMatMul", "QLinearMul"), (1, 2, 4, 5, 6, 7)),
    **dict.fromkeys(("QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearReduceMean"), (1, 2, 3, 4)),
    **dict.fromkeys(("QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax"), (1, 2, 3, 4)),
}
"""Inputs of operators, by position, that hold no parameters."""
_WIDENING = ("Cast", "Mul")
"""Operators that make scales of quantization of smaller numbers."""
_WIDE_INTEGERS = {
    "DequantizeLinear": 0,
    "QGemm": 6,
    "QLinearConv": 8,
    **dict.fromkeys(("Conv", "FusedMatMul", "MatMul"), 1),
}
"""Inputs whose 32-bit integers are parameters: biases in the scale of the products they are added to, and weights."""

_ELEMENTWISE = {
    "Add",
    "Clip",
    "Div",
    "Equal",
    "Expand",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Max",
    "Mean",
}
_ELEMENTWISE |= {"Min", "Mod", "Mul", "Pow", "Sqrt", "SquaredDifference", "Sub", "Sum", "Where"}
"""Operators whose operands may be single numbers that stand in a formula."""
_PRODUCTS = {"Conv", "ConvInteger", "ConvTranspose", "DynamicQuantizeMatMul", "FusedConv", "FusedGemm", "FusedMatMul"}
_PRODUCTS |= {"Gemm", "MatMul", "MatMulBnb4", "MatMulInteger", "MatMulIntegerToFloat", "MatMulNBits", "QGemm"}
_PRODUCTS |= {"QLinearConv", "QLinearMatMul"}
"""Operators that multiply with weights, to whose outputs a bias is added."""
_PASSING = {
    "Cast",
    "DequantizeLinear",
    "Identity",
    "Mul",
    "QuantizeLinear",
    "Reshape",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
}
"""Operators between a product and its bias, or between weights and their product."""
_TURNING = _PASSING | {"Concat", "Einsum", "Expand", "MatMul"}
"""Operators between the frequencies of rotary positions and the cosines and sines of the angles."""


def learned(nodes: Iterable[Node], outputs: Iterable[Value | None] = ()) -> dict[int, int]:
    """Number of parameters in each tensor that holds some, by the `id` of its `Value`.

    Args:
        nodes: all nodes of a model, those of its subgraphs included.
        outputs: outputs of the model and of its subgraphs.
    """
    counts = {id(value): numel(value) for value in outputs if value is not None and _may_be_learned(value)}
    nodes = list(nodes)
    behind, products, angles = _behind_scales(nodes), _products(nodes), _behind_angles(nodes)
    affine = _affine(nodes)
    for node in nodes:
        if node.op_type in _WIDENING and behind.issuperset(node.makes):
            continue
        is_bias = node.op_type == "Add" and not products.isdisjoint(node.reads)
        for position, value in enumerate(node.inputs):
            if value is None or not value.is_weight:
                continue
            number = _parameters(node, position, value)
            if number == 1 and node.op_type in _ELEMENTWISE and not is_bias and id(node) not in affine:
                continue
            if number and not (node.reads[position] in angles and number == max(value.numbers or (0,))):
                counts[id(value)] = number
    return counts


def _affine(nodes: Sequence[Node]) -> set[int]:
    """The `id` of each Mul by a single number to whose output alone an Add adds another, and of that Add.

    A Mul of a product of integers by its scale is none.
    """
    readers: dict[str, list[Node]] = {}
    integers: set[str] = set()
    for node in nodes:
        for name in node.reads:
            readers.setdefault(name, []).append(node)
        if node.op_type in ("ConvInteger", "MatMulInteger") or (node.op_type == "Cast" and integers & {*node.reads}):
            integers |= {*node.makes}
    ids: set[int] = set()
    for node in nodes:
        if node.op_type == "Mul" and _has_single(node) and integers.isdisjoint(node.reads):
            after = [reader for name in node.makes for reader in readers.get(name, ())]
            if len(after) == 1 and after[0].op_type == "Add" and _has_single(after[0]):
                ids |= {id(node), id(after[0])}
    return ids


def _has_single(node: Node) -> bool:
    """Whether a node reads a stored number with axes that may be a parameter."""
    values = enumerate(node.inputs)
    return any(value is not None and value.is_weight and _parameters(node, at, value) == 1 for at, value in values)


def _products(nodes: Iterable[Node]) -> set[str]:
    """Names of the values that are products with weights, before anything is added to them."""
    weights: set[str] = set()
    products: set[str] = set()
    for node in nodes:
        stored = {
            name
            for name, value in zip(node.reads, node.inputs, strict=False)
            if name in weights or (value is not None and value.is_weight)
        }
        if node.op_type in _PRODUCTS:
            products |= {*node.makes} if stored else set()
        elif node.op_type in _PASSING:
            products |= {*node.makes} if not products.isdisjoint(node.reads[:2]) else set()
            weights |= {*node.makes} if not stored.isdisjoint(node.reads[:1]) else set()
    return products


def _behind_angles(nodes: Sequence[Node]) -> set[str]:
    """Names of the values of which nothing but angles is made, whose cosines and whose sines are taken."""
    ends: dict[str, set[str]] = {}
    for node in reversed(nodes):
        if node.op_type in _TURNING:
            reached = set().union(*(ends.get(name, {""}) for name in node.makes))
        else:
            reached = {node.op_type}
        for name in node.reads:
            ends.setdefault(name, set()).update(reached)
    return {name for name, reached in ends.items() if reached == {"Cos", "Sin"}}


def _behind_scales(nodes: Sequence[Node]) -> set[str]:
    """Names of the values that are scales or zero points, or that these are made of where they are stored smaller."""
    scales: set[str] = set()
    others: set[str] = set()
    for node in reversed(nodes):
        not_learned = _NOT_LEARNED.get(node.op_type, ())
        is_behind = node.op_type in _WIDENING and scales.issuperset(node.makes) and others.isdisjoint(node.makes)
        for position, name in enumerate(node.reads):
            (scales if is_behind or position in not_learned else others).add(name)
    return scales - others - {""}


def numel(value: Value) -> int:
    """Number of elements of a value; 1 where its shape is not known in numbers."""
    return math.prod(value.numbers or ())


def _parameters(node: Node, position: int, value: Value) -> int:
    """Number of parameters that a node reads as one of its inputs."""
    if position in _NOT_LEARNED.get(node.op_type, ()):
        return 0
    is_wide = _WIDE_INTEGERS.get(node.op_type) == position and type_name(value.dtype) in ("int32", "uint32")
    if not _may_be_learned(value) and not (value.shape and is_wide):
        return 0
    if node.op_type in ("MatMulNBits", "MatMulBnb4") and position == 1:
        return node.integer("N") * node.integer("K")
    if node.op_type == "GatherBlockQuantized" and position == 0 and type_name(value.dtype) == "uint8":
        return numel(value) * 8 // node.integer("bits", 4)
    return numel(value)


def _may_be_learned(value: Value) -> bool:
    return value.is_weight and bool(value.shape) and _is_learned_type(value.dtype)


@functools.cache
def _is_learned_type(dtype: int) -> bool:
    """Whether elements of the type may be parameters: floats, and integers of 16 bits or fewer."""
    return is_floating(dtype) or (type_name(dtype).startswith(("int", "uint")) and bits(dtype) <= 16)


def stored_nodes(stored: lazy.Stored) -> Iterator[Node]:
    """The nodes of a model and its subgraphs with the stored values that they read, and None for all other inputs.

    The outputs of each graph come last, as the inputs of an Identity.
    """
    model = settle(stored.model)
    versions = {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in model.opset_import}
    return _stored_nodes(model.graph, {}, versions, stored)


def _stored_nodes(
    graph: onnx.GraphProto, outer: Mapping[str, Value | None], versions: Mapping[str, int], stored: lazy.Stored
) -> Iterator[Node]:
    values = {**outer, **{value.name: None for value in graph.input}}
    values |= {tensor.name: stored_value(tensor, stored) for tensor in graph.initializer}
    values |= {sparse.values.name: stored_value(sparse, stored) for sparse in graph.sparse_initializer}
    for proto in graph.node:
        node = Node(proto, [values.get(name) for name in proto.input])
        node.version = versions.get(node.domain, 0)
        yield node
        for inner in subgraphs(proto):
            yield from _stored_nodes(inner, values, versions, stored)
        values |= dict.fromkeys(proto.output)
        if (constant := constant_of(proto)) is not None:
            values[proto.output[0]] = stored_value(constant, stored)
        elif node.op_type == "ConstantOfShape" and node.has(0) and node.input().elements is not None:
            output = RULES["", "ConstantOfShape"](node)
            assert isinstance(output, Value)
            values[proto.output[0]] = output
    names = [value.name for value in graph.output]
    yield Node(onnx.NodeProto(op_type="Identity", input=names), [values.get(name) for name in names])
