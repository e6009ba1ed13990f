"""Translations of operations that move, select, sort or make elements."""

from __future__ import annotations

from bench.graphs.deferred import onnx
from bench.plugins.engines.openvino.graph.operation import Operation, UntranslatableError, rule

LAST = 2**31 - 1


@rule("Concat")
def concat(op: Operation) -> None:
    op.result("Concat", *op.all(), axis=op.attributes["axis"])


@rule("Reshape")
def reshape(op: Operation) -> None:
    op.result("Reshape", op.x(), op.indices(1), allowzero=int(not op.attributes["special_zero"]))


@rule("Squeeze", "Unsqueeze")
def squeeze(op: Operation) -> None:
    op.result(op.kind, op.x(), *([op.indices(1)] if op.has(1) else []))


@rule("Transpose")
def transpose(op: Operation) -> None:
    order = op.integers(1) or list(reversed(range(op.rank())))
    op.result("Transpose", op.x(), perm=order)


@rule("ShapeOf")
def shape_of(op: Operation) -> None:
    dtype = op.graph.dtype(op.node.output(0))
    if dtype == onnx.TensorProto.INT64:
        op.result("Shape", op.x())
    else:
        op.result("Cast", op.make("Shape", op.x()), to=dtype)


@rule("Broadcast")
def broadcast(op: Operation) -> None:
    if op.attributes["mode"] not in ("numpy", "bidirectional"):
        raise UntranslatableError
    op.result("Expand", op.x(), op.indices(1))


@rule("Tile")
def tile(op: Operation) -> None:
    op.result("Tile", op.x(), op.indices(1))


@rule("Range")
def range_(op: Operation) -> None:
    """ONNX takes the three numbers in one type, that of the output, and without an axis."""
    dtype = op.graph.dtype(op.node.output(0))
    numbers = []
    for index in range(3):
        name, kind = op.x(index), op.graph.dtype(op.node.input_value(index))
        numbers.append(name if kind == dtype else op.make("Cast", name, to=dtype))
    op.result("Range", *numbers)


@rule("Gather")
def gather(op: Operation) -> None:
    if op.attributes.get("batch_dims", 0):
        raise UntranslatableError
    op.result("Gather", op.x(), op.x(1), axis=op.integers(2)[0])


@rule("GatherElements")
def gather_elements(op: Operation) -> None:
    op.result("GatherElements", op.x(), op.x(1), axis=op.attributes["axis"])


@rule("GatherND")
def gather_nd(op: Operation) -> None:
    op.result("GatherND", op.x(), op.positions(1), batch_dims=op.attributes["batch_dims"])


@rule("ScatterNDUpdate")
def scatter_nd(op: Operation) -> None:
    if op.attributes.get("reduction", "none") not in ("none", ""):
        raise UntranslatableError
    op.result("ScatterND", op.x(), op.positions(1), op.x(2))


@rule("ScatterElementsUpdate")
def scatter_elements(op: Operation) -> None:
    if op.attributes.get("reduction", "none") not in ("none", ""):
        raise UntranslatableError
    op.result("ScatterElements", op.x(), op.x(1), op.x(2), axis=op.integers(3)[0])


@rule("Split")
def split(op: Operation) -> None:
    op.result("Split", op.x(), axis=op.integers(1)[0], num_outputs=op.attributes["num_splits"])


@rule("VariadicSplit")
def variadic_split(op: Operation) -> None:
    axis = op.integers(1)[0]
    lengths = op.integers(2)
    if -1 in lengths:
        rest = op.shape()[axis] - sum(lengths) - 1
        lengths = [rest if length == -1 else length for length in lengths]
    op.result("Split", op.x(), op.constant(lengths), axis=axis)


@rule("Slice")
def slice_(op: Operation) -> None:
    starts, stops, steps = (op.indices(index) for index in (1, 2, 3))
    axes = op.indices(4) if op.has(4) else ""
    op.result("Slice", op.x(), starts, stops, axes, steps)


@rule("StridedSlice")
def strided_slice(op: Operation) -> None:
    """A slice with masks: axes that are whole, new or dropped."""
    masks = {name: op.attributes[name] for name in ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask")}
    if any(op.attributes.get("ellipsis_mask", ())):
        raise UntranslatableError
    length = len(op.integers(1)) if _is_constant(op, 1) else op.shape(1)[0]

    def masked(name: str) -> list[int]:
        return [at for at in range(length) if at < len(masks[name]) and masks[name][at]]

    new, dropped = masked("new_axis_mask"), masked("shrink_axis_mask")
    kept = [at for at in range(length) if at not in new]
    name = op.make("Unsqueeze", op.x(), op.constant(new)) if new else op.x()
    whole = {part: masked(f"{part}_mask") for part in ("begin", "end")}
    if _is_constant(op, 1) and _is_constant(op, 2):
        begins, ends = op.integers(1), op.integers(2)
        strides = op.integers(3) if op.has(3) else [1] * length
        for at in kept:
            if at in whole["begin"]:
                begins[at] = 0 if strides[at] > 0 else LAST
            if at in whole["end"]:
                ends[at] = LAST if strides[at] > 0 else -LAST
            if at in dropped:
                ends[at] = begins[at] + 1 or LAST
        first, last, by = (op.constant([values[at] for at in kept]) for values in (begins, ends, strides))
        parts = [first, last, op.constant(kept), by]
    elif not new and not dropped and not any(whole.values()):
        strided = op.indices(3) if op.has(3) else op.constant([1] * length)
        parts = [op.indices(1), op.indices(2), op.constant(kept), strided]
    else:
        raise UntranslatableError
    if dropped := [at for at in dropped if at in kept]:
        op.result("Squeeze", op.make("Slice", name, *parts), op.constant(dropped))
    else:
        op.result("Slice", name, *parts)


def _is_constant(op: Operation, index: int) -> bool:
    return bool(op.node.input_value(index).get_node().get_type_name() == "Constant")


@rule("Pad")
def pad(op: Operation) -> None:
    modes = {"constant": "constant", "edge": "edge", "reflect": "reflect"}
    if op.attributes["pad_mode"] not in modes:
        raise UntranslatableError
    if _is_constant(op, 1) and _is_constant(op, 2):
        pads = op.constant([*op.integers(1), *op.integers(2)])
    else:
        pads = op.make("Concat", op.indices(1), op.indices(2), axis=0)
    op.result("Pad", op.x(), pads, *([op.x(3)] if op.has(3) else []), mode=modes[op.attributes["pad_mode"]])


@rule("TopK")
def top_k(op: Operation) -> None:
    attributes = {
        "axis": op.attributes["axis"],
        "largest": int(op.attributes["mode"] == "max"),
        "sorted": int(op.attributes["sort"] != "none"),
    }
    dtype = op.graph.dtype(op.node.output(1))
    outputs = [op.output(), op.output(1)]
    if dtype == onnx.TensorProto.INT64:
        op.ends("TopK", [op.x(), op.indices(1)], outputs, **attributes)
        return
    places = op.graph.unique(f"{outputs[1]}_int64")
    op.ends("TopK", [op.x(), op.indices(1)], [outputs[0], places], **attributes)
    op.nodes.append(onnx.helper.make_node("Cast", [places], [outputs[1]], name=outputs[1], to=dtype))


@rule("OneHot")
def one_hot(op: Operation) -> None:
    values = op.make("Concat", *(op.make("Reshape", op.x(at), op.constant([1])) for at in (3, 2)), axis=0)
    op.result("OneHot", op.x(), op.x(1), values, axis=op.attributes["axis"])


@rule("NonZero")
def non_zero(op: Operation) -> None:
    op.result("Cast", op.make("NonZero", op.x()), to=op.graph.dtype(op.node.output(0)))


@rule("ReverseSequence")
def reverse_sequence(op: Operation) -> None:
    axes = {"batch_axis": op.attributes["batch_axis"], "time_axis": op.attributes["seq_axis"]}
    op.result("ReverseSequence", op.x(), op.indices(1), **axes)


@rule("DepthToSpace")
def depth_to_space(op: Operation) -> None:
    mode = {"blocks_first": "DCR", "depth_first": "CRD"}[op.attributes["mode"]]
    op.result("DepthToSpace", op.x(), blocksize=op.attributes["block_size"], mode=mode)


@rule("SpaceToDepth")
def space_to_depth(op: Operation) -> None:
    if op.attributes["mode"] != "blocks_first":
        raise UntranslatableError
    op.result("SpaceToDepth", op.x(), blocksize=op.attributes["block_size"])


@rule("NonMaxSuppression")
def non_max_suppression(op: Operation) -> None:
    """ONNX has the first output alone."""
    if op.is_read(1) or op.is_read(2) or op.has(5):
        raise UntranslatableError
    limits = [op.shaped(index, (1,)) for index in range(2, 5) if op.has(index)]
    if limits:
        limits[0] = op.indices(2)
    chosen = op.make("NonMaxSuppression", op.x(), op.x(1), *limits, center_point_box=int(_is_centred(op)))
    op.ends("Cast", [chosen], [op.output()], to=op.graph.dtype(op.node.output(0)))


def _is_centred(op: Operation) -> bool:
    return bool(op.attributes["box_encoding"] == "center")
