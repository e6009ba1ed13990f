"""Weights of an OpenVINO model that are stored as small integers, and the operations that make floats of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from bench.plugins.engines.openvino.graph.onnx_graph import Port
from bench.plugins.engines.openvino.graph.operation import Operation
from bench.plugins.engines.openvino.ir import QUANTIZED


@dataclasses.dataclass(frozen=True, kw_only=True)
class Weight:
    """A stored weight `(integer - zero_point) * scale`.

    Attributes:
        integer: the output of the constant.
        zero_point: the output of its constant, which has an element for each scale or one for all, or None.
        scale: the output of its constant, which may be converted.
        dims: shape of the scale and of the zero point in ONNX.
        along: attributes of ONNX's operator that say what each scale belongs to.
        absorbed: names of the operations before the multiplication, which nothing else reads.
    """

    integer: Port
    zero_point: Port | None
    scale: Port
    dims: Sequence[int]
    along: Mapping[str, int]
    absorbed: tuple[str, ...]


def find(model: Any) -> dict[str, Weight]:
    """The weights of a model that are stored as integers, by the names of the multiplications that end in them."""
    found = {}
    for node in model.get_ops():
        if node.get_type_name() == "Multiply":
            weight = _weight(node.input_value(0), node.input_value(1))
            if weight is not None:
                found[node.get_name()] = weight
    return found


def _weight(value: Port, scale: Port) -> Weight | None:
    if not _is_constant(scale):
        return None
    absorbed, zero_point = [], None
    node = value.get_node()
    if node.get_type_name() == "Subtract":
        absorbed.append(node)
        zero_point, node = node.input_value(1), node.input_value(0).get_node()
        if not _is_constant(zero_point):
            return None
        absorbed += [zero_point.get_node()] if zero_point.get_node().get_type_name() == "Convert" else []
        zero_point = _unconverted(zero_point)
    if node.get_type_name() != "Convert" or node.input_value(0).get_node().get_type_name() != "Constant":
        return None
    absorbed.append(node)
    integer = node.input_value(0)
    if integer.get_element_type().to_string() not in QUANTIZED:
        return None
    if zero_point is not None and zero_point.get_element_type() != integer.get_element_type():
        return None
    if any(len(one.output(0).get_target_inputs()) != 1 for one in absorbed):
        return None
    sizes, scales = (list(port.get_shape()) for port in (integer, scale))
    if len(scales) > len(sizes) or (arranged := _arrangement(sizes, scales)) is None:
        return None
    dims, along = arranged
    if zero_point is not None and math.prod(zero_point.get_shape()) not in (1, math.prod(dims)):
        return None
    names = tuple(one.get_name() for one in absorbed)
    return Weight(integer=integer, zero_point=zero_point, scale=scale, dims=dims, along=along, absorbed=names)


def _unconverted(port: Port) -> Port:
    return port.get_node().input_value(0) if port.get_node().get_type_name() == "Convert" else port


def _is_constant(port: Port) -> bool:
    return bool(_unconverted(port).get_node().get_type_name() == "Constant")


def translate(op: Operation, weight: Weight) -> None:
    """A DequantizeLinear."""
    parts = [weight.scale, *([] if weight.zero_point is None else [weight.zero_point])]
    inputs = [op.graph.value(weight.integer), *(op.constant_as(part, weight.dims) for part in parts)]
    attributes: dict[str, Any] = dict(weight.along)
    if weight.scale.get_element_type() != op.node.get_element_type():
        attributes["output_dtype"] = op.graph.dtype(op.node.output(0))
    op.result("DequantizeLinear", *inputs, **attributes)


def _arrangement(sizes: Sequence[int], scales: Sequence[int]) -> tuple[Sequence[int], Mapping[str, int]] | None:
    """The shape of the scales in ONNX with the attributes that say what they belong to; None if ONNX cannot say it.

    There is one scale, one for each index of an axis, or one for each block of an axis.
    """
    scales = [*[1] * (len(sizes) - len(scales)), *scales]
    several = [axis for axis, size in enumerate(scales) if size != 1]
    shared = [axis for axis, size in enumerate(scales) if size != sizes[axis]]
    if not several:
        return [], {}
    if len(several) == 1:
        return [scales[several[0]]], {"axis": several[0]}
    return (scales, {"axis": shared[0], "block_size": sizes[shared[0]]}) if len(shared) == 1 else None
