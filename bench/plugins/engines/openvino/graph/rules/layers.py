"""Translations of products, convolutions, pools, attention and interpolation."""

from __future__ import annotations

from typing import Any

from bench.graphs.operators import MICROSOFT
from bench.plugins.engines.openvino.graph.operation import Operation, UntranslatableError, rule

PADS = {"same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID"}
COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
INTERPOLATIONS = {"nearest": "nearest", "linear": "linear", "linear_onnx": "linear", "cubic": "cubic"}


@rule("MatMul")
def matmul(op: Operation) -> None:
    """Matrices that are transposed on the way are inputs of ONNX Runtime's FusedMatMul; a vector has no transpose."""
    transposed = [
        int(op.attributes[name] and op.rank(index) > 1) for index, name in enumerate(("transpose_a", "transpose_b"))
    ]
    if any(transposed):
        op.result("FusedMatMul", op.x(), op.x(1), domain=MICROSOFT, transA=transposed[0], transB=transposed[1])
    else:
        op.result("MatMul", op.x(), op.x(1))


@rule("Einsum")
def einsum(op: Operation) -> None:
    op.result("Einsum", *op.all(), equation=op.attributes["equation"])


@rule("ScaledDotProductAttention")
def attention(op: Operation) -> None:
    """A mask of one number masks nothing; ONNX's operator has the axes (batch, heads, tokens, size of a head)."""
    if op.rank() != 4:
        raise UntranslatableError
    attributes: dict[str, Any] = {"is_causal": int(op.attributes["causal"])}
    if op.has(4):
        attributes["scale"] = op.number(4)
    mask = [op.x(3)] if op.has(3) and op.rank(3) > 0 else []
    op.result("Attention", op.x(), op.x(1), op.x(2), *mask, **attributes)


def _windows(op: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {"strides": op.attributes["strides"]}
    if "dilations" in op.attributes:
        found["dilations"] = op.attributes["dilations"]
    if op.attributes["auto_pad"] in PADS:
        found["auto_pad"] = PADS[op.attributes["auto_pad"]]
    else:
        found["pads"] = [*op.attributes["pads_begin"], *op.attributes["pads_end"]]
    return found


@rule("Convolution")
def convolution(op: Operation) -> None:
    op.result("Conv", op.x(), op.x(1), kernel_shape=op.shape(1)[2:], **_windows(op))


@rule("GroupConvolution")
def group_convolution(op: Operation) -> None:
    """Weights (groups, outputs, inputs, ...) are (groups * outputs, inputs, ...) in ONNX."""
    groups, outputs, *others = op.shape(1)
    weights = op.shaped(1, (groups * outputs, *others))
    op.result("Conv", op.x(), weights, group=groups, kernel_shape=others[1:], **_windows(op))


@rule("ConvolutionBackpropData")
def transposed_convolution(op: Operation) -> None:
    _transposed(op, op.x(1), 1, op.shape(1)[2:])


@rule("GroupConvolutionBackpropData")
def transposed_group_convolution(op: Operation) -> None:
    """Weights (groups, inputs, outputs, ...) are (groups * inputs, outputs, ...) in ONNX."""
    groups, inputs, *others = op.shape(1)
    _transposed(op, op.shaped(1, (groups * inputs, *others)), groups, others[1:])


def _transposed(op: Operation, weights: str, groups: int, kernel: Any) -> None:
    attributes = _windows(op)
    if op.has(2):
        attributes["output_shape"] = op.integers(2)
    elif any(op.attributes.get("output_padding", ())):
        attributes["output_padding"] = op.attributes["output_padding"]
    op.result("ConvTranspose", op.x(), weights, group=groups, kernel_shape=kernel, **attributes)


def _pool(op: Operation) -> dict[str, Any]:
    mode = op.attributes["rounding_type"]
    if mode not in ("floor", "ceil"):
        raise UntranslatableError
    return {**_windows(op), "kernel_shape": op.attributes["kernel"], "ceil_mode": int(mode == "ceil")}


@rule("AvgPool")
def average_pool(op: Operation) -> None:
    op.result("AveragePool", op.x(), count_include_pad=int(not op.attributes["exclude-pad"]), **_pool(op))


@rule("MaxPool")
def max_pool(op: Operation) -> None:
    """The places of the maxima are numbered in another way than in ONNX, so they must not be read."""
    if op.node.get_output_size() > 1 and op.is_read(1):
        raise UntranslatableError
    op.ends("MaxPool", [op.x()], [op.output()], **_pool(op))


@rule("AdaptiveAvgPool")
def adaptive_pool(op: Operation) -> None:
    if set(op.integers(1)) != {1}:
        raise UntranslatableError
    op.result("GlobalAveragePool", op.x())


@rule("Interpolate")
def interpolate(op: Operation) -> None:
    """The sizes are those that OpenVINO states; scales must make whole sizes, or the coordinates would differ."""
    if op.attributes.get("shape_calculation_mode") == "scales":
        axes = op.integers(2) if op.has(2) else range(op.rank())
        for axis, scale in zip(axes, op.array(1).reshape(-1).tolist(), strict=True):
            if abs(op.shape()[axis] * scale - op.out()[axis]) > 1e-4:
                raise UntranslatableError
    mode = INTERPOLATIONS.get(op.attributes["mode"])
    coordinates = op.attributes.get("coordinate_transformation_mode")
    padded = any(op.attributes.get("pads_begin", ())) or any(op.attributes.get("pads_end", ()))
    if mode is None or coordinates not in COORDINATES or padded:
        raise UntranslatableError
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        if op.attributes["nearest_mode"] == "simple":
            raise UntranslatableError
        attributes["nearest_mode"] = op.attributes["nearest_mode"]
    if mode == "cubic":
        attributes["cubic_coeff_a"] = float(op.attributes["cube_coeff"])
    if op.attributes.get("antialias"):
        attributes["antialias"] = 1
    op.result("Resize", op.x(), "", "", op.constant(op.out()), **attributes)


@rule("GridSample")
def grid_sample(op: Operation) -> None:
    mode = {"bilinear": "linear", "bicubic": "cubic", "nearest": "nearest"}[op.attributes["mode"]]
    padding, aligned = op.attributes["padding_mode"], int(op.attributes["align_corners"])
    op.result("GridSample", op.x(), op.x(1), mode=mode, padding_mode=padding, align_corners=aligned)
