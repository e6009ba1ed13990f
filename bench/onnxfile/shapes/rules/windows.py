"""Shape rules of operators that slide a window: convolutions, pools and resampling.

Shapes: N batch, C channels, M output channels, G groups; "..." stands for the spatial axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.onnxfile.operators import MICROSOFT, NCHWC
from bench.onnxfile.shapes.dims import Dim, Shape, Size, ceil_div, less, scaled
from bench.onnxfile.shapes.node import FLOAT, INT32, INT64, Node, ShapeError, UnknownError, Value
from bench.onnxfile.shapes.rules.registry import rule

_CHANNELS_LAST = ("NhwcConv", "NhwcFusedConv", "NhwcMaxPool")


def window(node: Node, spatial: Shape, kernel: Shape) -> list[Size]:
    """Spatial sizes of the output of a convolution or pool.

    The last window of a pool with `ceil_mode` starts inside the input or its padding at the front.

    Source: the ONNX operator specification of Conv and MaxPool.
    """
    rank = len(spatial)
    strides, dilations, pads, padding = _steps(node, rank)
    if not rank == len(kernel) == len(strides) == len(dilations) == len(pads) // 2:
        raise ShapeError(f"{node.what} has a window of {len(kernel)} axes over {rank} spatial axes")
    if rank and min(strides) < 1:
        raise ShapeError(f"{node.what} has strides {strides}")
    if padding.startswith("SAME"):
        return [ceil_div(size, stride) for size, stride in zip(spatial, strides, strict=True)]
    if padding == "VALID":
        pads = [0] * (2 * rank)
    rounded_up = node.integer("ceil_mode")
    sizes: list[Size] = []
    for axis, size in enumerate(spatial):
        stride, before = strides[axis], pads[axis]
        reach = dilations[axis] * (kernel[axis] - 1) + 1
        free = size + before + pads[axis + rank] - reach
        number = (ceil_div(free, stride) if rounded_up else free // stride) + 1
        if rounded_up:
            number = number - (1 - less((number - 1) * stride, size + before))
        if isinstance(number, int) and number < 1 and size != 0:
            raise ShapeError(f"{node.what} slides a window of {reach} over {free + reach}")
        sizes.append(number)
    return sizes


def _steps(node: Node, rank: int) -> tuple[list[int], list[int], list[int], str]:
    """Strides, dilations, pads and automatic padding of a window over `rank` axes; each as ONNX defines it if unset."""
    strides, dilations = node.integers("strides") or [1] * rank, node.integers("dilations") or [1] * rank
    return strides, dilations, node.integers("pads") or [0] * (2 * rank), node.text("auto_pad", "NOTSET")


def _convolved(node: Node, data: Shape, weights: Shape) -> Shape:
    """(N, C, ...) and (M, C / G, ...) -> (N, M, ...).

    Where channels are in blocks, the padding of the last block counts, and C need not be that of the weights.
    """
    if len(data) != len(weights) or len(data) < 2:
        raise ShapeError(f"{node.what} has weights of {len(weights)} axes for an input of {len(data)}")
    channels, taken = data[1], weights[1] * node.integer("group", 1)
    if isinstance(channels, int) and isinstance(taken, int) and channels != taken and node.domain != NCHWC:
        raise ShapeError(f"{node.what} takes {taken} channels; its input has {channels}")
    return (data[0], weights[0], *window(node, data[2:], weights[2:]))


@rule("Conv", "ConvInteger", "QLinearConv")
@rule("FusedConv", "QLinearConv", "NhwcConv", "NhwcFusedConv", domains=(MICROSOFT,))
@rule("Conv", domains=(NCHWC,))
def conv(node: Node) -> Value:
    quantized = node.op_type == "QLinearConv"
    weights = node.shape(3 if quantized else 1)
    if node.op_type in _CHANNELS_LAST:
        weights = _first(weights)
    dtype = INT32 if node.op_type == "ConvInteger" else node.input(7 if quantized else 0).dtype
    return Value(dtype, _with_channels_first(node, lambda data: _convolved(node, data, weights)))


def _with_channels_first(node: Node, rule: Callable[[Shape], Shape]) -> Shape:
    """Apply a rule that expects the channels at axis 1 to a node that may have them at the last axis."""
    if node.op_type in _CHANNELS_LAST or (node.domain and node.integer("channels_last")):
        return _last(rule(_first(node.shape())))
    return rule(node.shape())


def _first(shape: Shape) -> Shape:
    return (shape[0], shape[-1], *shape[1:-1])


def _last(shape: Shape) -> Shape:
    return (shape[0], *shape[2:], shape[1])


@rule("ConvTranspose")
def conv_transpose(node: Node) -> Value:
    """(N, C, ...) and (C, M / G, ...) -> (N, M, ...)."""
    data, weights = node.shape(0), node.shape(1)
    output_shape = node.integers("output_shape")
    kernel = node.integers("kernel_shape") or weights[2:]
    sizes = output_shape[2 - len(data) :] if output_shape else _spread(node, data[2:], kernel)
    return Value(node.input().dtype, (data[0], weights[1] * node.integer("group", 1), *sizes))


def _spread(node: Node, spatial: Shape, kernel: Sequence[Size]) -> list[Size]:
    """Spatial sizes of the output of an operator that undoes a window, such as a transposed convolution."""
    rank = len(spatial)
    strides, dilations, pads, padding = _steps(node, rank)
    extra = node.integers("output_padding") or [0] * rank
    if padding.startswith("SAME"):
        return [size * strides[axis] for axis, size in enumerate(spatial)]
    around = [0] * rank if padding == "VALID" else [pads[axis] + pads[axis + rank] for axis in range(rank)]
    return [
        strides[axis] * (size - 1) + extra[axis] + dilations[axis] * (kernel[axis] - 1) + 1 - around[axis]
        for axis, size in enumerate(spatial)
    ]


@rule("MaxPool", "AveragePool", "LpPool")
@rule("MaxPool", "AveragePool", domains=(NCHWC,))
@rule("NhwcMaxPool", "QLinearAveragePool", domains=(MICROSOFT,))
def pool(node: Node) -> list[Value | None]:
    kernel = tuple(node.integers("kernel_shape") or ())
    shape = _with_channels_first(node, lambda data: (*data[:2], *window(node, data[2:], kernel)))
    return [Value(node.input().dtype, shape), Value(INT64, shape)]


@rule("MaxUnpool")
def unpool(node: Node) -> Value:
    """The shape before a MaxPool, or the output shape that an input states."""
    if node.has(2):
        return Value(node.input().dtype, node.items(2))
    data = node.shape()
    return Value(node.input().dtype, (*data[:2], *_spread(node, data[2:], tuple(node.integers("kernel_shape") or ()))))


@rule("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
@rule("GlobalAveragePool", "GlobalMaxPool", domains=(NCHWC,))
@rule("QLinearGlobalAveragePool", domains=(MICROSOFT,))
def global_pool(node: Node) -> Value:
    return Value(node.input().dtype, _with_channels_first(node, lambda data: (*data[:2], *(1 for _ in data[2:]))))


@rule("MaxRoiPool", "RoiAlign")
def pool_regions(node: Node) -> Value:
    sizes = node.integers("pooled_shape") or (node.integer("output_height", 1), node.integer("output_width", 1))
    return Value(node.input().dtype, (node.shape(1)[0], node.shape()[1], *sizes))


@rule("DepthToSpace", "SpaceToDepth")
def depth_to_space(node: Node) -> Value:
    shape, block = node.shape(), node.integer("blocksize", 1)
    if len(shape) != 4 or block < 1:
        raise ShapeError(f"{node.what} takes 4 axes and a block of 1 or more; it is given {len(shape)} axes")
    batch, channels, height, width = shape
    if node.op_type == "DepthToSpace":
        return Value(node.input().dtype, (batch, channels // block**2, height * block, width * block))
    return Value(node.input().dtype, (batch, channels * block**2, height // block, width // block))


@rule("HannWindow", "HammingWindow", "BlackmanWindow")
def window_function(node: Node) -> Value:
    return Value(node.integer("output_datatype", FLOAT), (node.number(0),))


@rule("STFT")
def short_time_fourier(node: Node) -> Value:
    """(N, samples, 1 or 2) -> (N, frames, frequencies, 2)."""
    signal, step = node.shape(0), node.number(1)
    length = node.number(3) if node.has(3) else node.shape(2)[0]
    frequencies = length // 2 + 1 if node.integer("onesided", 1) else length
    return Value(node.input().dtype, (signal[0], (signal[1] - length) // step + 1, frequencies, 2))


@rule("ReorderInput", domains=(NCHWC,))
def reorder_input(node: Node) -> Value:
    """The channels move to axis 1, where they are grouped into blocks."""
    return Value(node.input().dtype, _first(node.shape()) if node.integer("channels_last") else node.shape())


@rule("ReorderOutput", domains=(NCHWC,))
def reorder_output(node: Node) -> Value:
    """The channels leave their blocks, without the padding of the last block."""
    batch, padded, *spatial = node.shape()
    shape = (batch, node.integer("channels") or padded, *spatial)
    return Value(node.input().dtype, _last(shape) if node.integer("channels_last") else shape)


@rule("Resize", "Upsample")
@rule("Upsample", domains=(NCHWC,))
def resize(node: Node) -> Value:
    """The sizes that an input states, or the data's sizes times the scales, rounded down."""
    if node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise UnknownError  # onnx's own inference has the rounding of each policy
    shape = list(node.shape())
    axes = [node.checked_axis(axis, len(shape)) for axis in node.integers("axes") or range(len(shape))]
    has_sizes = node.has(3) and node.input(3).shape != (0,)
    numbers = node.numbers("scales") or node.items(3 if has_sizes else 1 if node.version < 11 else 2)
    if len(numbers) != len(axes) or (not has_sizes and any(isinstance(factor, Dim) for factor in numbers)):
        raise UnknownError
    for axis, number in zip(axes, numbers, strict=True):
        shape[axis] = number if has_sizes else scaled(shape[axis], number)
    return Value(node.input().dtype, shape)
