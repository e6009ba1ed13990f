"""Shape rules of matrix products and attention.

Shapes: B batch, H heads, S queries, T keys, K and V sizes of one head.
"""

from __future__ import annotations

from bench.onnxfile.operators import MICROSOFT
from bench.onnxfile.shapes import dims
from bench.onnxfile.shapes.dims import Shape, Size
from bench.onnxfile.shapes.node import FLOAT, INT32, Node, ShapeError, UnknownError, Value
from bench.onnxfile.shapes.rules.arithmetic import broadcast_shapes
from bench.onnxfile.shapes.rules.registry import rule

_TYPED_LIKE = {"QLinearMatMul": 7, "MatMulIntegerToFloat": 2}
"""Inputs that have the type of the product, where that is not the first one."""


def _matmul_shape(node: Node, first: Shape, second: Shape) -> Shape:
    """The shape of a product as NumPy's `matmul` has it.

    Raises:
        ShapeError: the sizes summed over differ.
    """
    if not first or not second:
        raise ShapeError(f"{node.what} takes no scalars")
    rows, columns = first[:-1], second[-1:] if len(second) > 1 else ()
    inner, other = first[-1], second[0] if len(second) == 1 else second[-2]
    if isinstance(inner, int) and isinstance(other, int) and inner != other:
        raise ShapeError(f"{node.what} cannot multiply {dims.shape_text(first)} and {dims.shape_text(second)}")
    return (*broadcast_shapes(node, [first[:-2], second[:-2]]), *rows[-1:], *columns)


@rule("MatMul", "MatMulInteger", "QLinearMatMul")
@rule("DynamicQuantizeMatMul", "MatMulIntegerToFloat", "FusedMatMul", "TransposeMatMul", domains=(MICROSOFT,))
def matmul(node: Node) -> Value:
    dtype = INT32 if node.op_type == "MatMulInteger" else node.input(_TYPED_LIKE.get(node.op_type, 0)).dtype
    return Value(dtype, _matmul_shape(node, *matmul_operands(node)))


def matmul_operands(node: Node) -> tuple[Shape, Shape]:
    """Shapes of the operands of a product once the transposes that a FusedMatMul states are done."""

    def turned(shape: Shape, last: int, batch: int) -> Shape:
        if batch and len(shape) > 2:  # the first axis goes before the last
            shape = (*shape[1:-1], shape[0], shape[-1])
        return (*shape[:-2], shape[-1], shape[-2]) if last and len(shape) > 1 else tuple(shape)

    second = node.shape(3 if node.op_type == "QLinearMatMul" else 1)
    first = turned(node.shape(0), node.integer("transA"), node.integer("transBatchA"))
    return first, turned(second, node.integer("transB"), node.integer("transBatchB"))


@rule("Gemm")
@rule("FusedGemm", "QGemm", domains=(MICROSOFT,))
def gemm(node: Node) -> Value:
    quantized = node.op_type == "QGemm"
    a, b = tuple(node.shape(0)), tuple(node.shape(3 if quantized else 1))
    if len(a) != 2 or len(b) != 2:
        raise ShapeError(f"{node.what} takes matrices; it is given {len(a)} and {len(b)} axes")
    shape = _matmul_shape(node, a[::-1] if node.integer("transA") else a, b[::-1] if node.integer("transB") else b)
    return Value((node.input(8).dtype if node.has(8) else FLOAT) if quantized else node.input().dtype, shape)


@rule("MatMulNBits", "MatMulBnb4", domains=(MICROSOFT,))
def matmul_n_bits(node: Node) -> Value:
    return Value(node.input().dtype, (*node.shape()[:-1], node.integer("N")))


@rule("Einsum")
def einsum(node: Node) -> Value:
    sizes, output, leading = einsum_sizes(node)
    return Value(node.input().dtype, (*leading, *(sizes[letter] for letter in output)))


def einsum_sizes(node: Node) -> tuple[dict[str, Size], str, Shape]:
    """The size of each letter of an Einsum, its output's letters without the ellipsis, and the ellipsis' sizes.

    Raises:
        ShapeError: the equation does not fit the inputs.
    """
    left, arrow, right = node.text("equation").replace(" ", "").partition("->")
    terms = left.split(",")
    sizes: dict[str, Size] = {}
    leading: list[Shape] = [()]
    if len(terms) != len(node.inputs):
        raise ShapeError(f"{node.what} has the equation {node.text('equation')!r} for {len(node.inputs)} inputs")
    for index, term in enumerate(terms):
        shape, (before, ellipsis, after) = node.shape(index), term.partition("...")
        rest = len(shape) - len(before + after)
        if rest < 0 or (rest and not ellipsis):
            raise ShapeError(f"{node.what} reads {len(shape)} axes as {term!r}")
        start, end = len(before), len(before) + rest
        leading.append(tuple(shape[start:end]))
        for letter, size in zip(before + after, (*shape[:start], *shape[end:]), strict=True):
            joined = dims.broadcast(sizes.get(letter, 1), size)
            if joined is None:
                raise ShapeError(f"{node.what} gives {letter!r} the sizes {sizes[letter]} and {size}")
            sizes[letter] = joined
    if not arrow:
        right = "..." * ("..." in left) + "".join(sorted(label for label in sizes if left.count(label) == 1))
    around = broadcast_shapes(node, leading)
    before, ellipsis, output = right.rpartition("...")
    if before:
        raise UnknownError
    if not ellipsis:  # summed over
        sizes |= {f"...{position}": size for position, size in enumerate(around)}
    if not set(output) <= set(sizes):
        raise ShapeError(f"{node.what} has the equation {node.text('equation')!r}")
    return sizes, output, around if ellipsis else ()


@rule("Attention")
def attention(node: Node) -> list[Value | None]:
    """(B, H, S, K) or (B, S, H * K), with keys and values of T steps and those of the past."""
    batch, heads, queries, keys, width = attention_sizes(node)
    dtype, key = node.input().dtype, by_head(node.shape(1), node.integer("kv_num_heads"))
    is_split = len(node.shape(0)) == 4
    return [
        Value(dtype, (batch, heads, queries, width) if is_split else (batch, queries, heads * width)),
        Value(dtype, (batch, key[1], keys, key[3])),
        Value(dtype, (batch, key[1], keys, width)),
        Value(dtype, (batch, heads, queries, keys)),
    ]


def attention_sizes(node: Node) -> tuple[Size, Size, Size, Size, Size]:
    """B, H, S, T with the past, and V of ONNX's Attention."""
    batch, heads, queries, _ = by_head(node.shape(0), node.integer("q_num_heads"))
    keys = by_head(node.shape(1), node.integer("kv_num_heads"))[2]
    width = by_head(node.shape(2), node.integer("kv_num_heads"))[3]
    return batch, heads, queries, keys + node.shape(4)[2] if node.has(4) else keys, width


def by_head(shape: Shape, heads: int) -> Shape:
    """(B, S, H * K) as (B, H, S, K); a shape of four axes as it is.

    Raises:
        UnknownError: the number of heads is not stated, or the shape has another number of axes.
    """
    if len(shape) == 3 and heads:
        return (shape[0], heads, shape[1], shape[2] // heads)
    if len(shape) != 4:
        raise UnknownError
    return shape
