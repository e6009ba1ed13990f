"""Shape rules of matrix products and attention.

Shapes: B batch, H heads, S queries, T keys, K and V sizes of one head.
"""

from __future__ import annotations

from bench.graphs.operators import MICROSOFT
from bench.graphs.shapes import dims
from bench.graphs.shapes.dims import Shape, Size
from bench.graphs.shapes.node import Node, ShapeError, UnknownError, Value
from bench.graphs.shapes.rules.arithmetic import broadcast_shapes
from bench.graphs.shapes.rules.registry import rule

FLOAT, INT32 = 1, 6
TYPED_LIKE = {"QLinearMatMul": 7, "MatMulIntegerToFloat": 2}
"""Inputs that have the type of the product, where that is not the first one."""


def matmul_shape(node: Node, first: Shape, second: Shape) -> Shape:
    """The shape of a product as NumPy's `matmul` has it.

    Raises:
        ShapeError: the sizes summed over differ.
    """
    if not first or not second:
        raise ShapeError(f"{node.what} takes no scalars")
    rows, columns = first[:-1], second[-1:]
    inner, other = first[-1], second[0] if len(second) == 1 else second[-2]
    if isinstance(inner, int) and isinstance(other, int) and inner != other:
        raise ShapeError(f"{node.what} cannot multiply {dims.shape_text(first)} and {dims.shape_text(second)}")
    if len(second) == 1:
        columns = ()
    leading = broadcast_shapes(node, [first[:-2], second[:-2]])
    return (*leading, *rows[-1:], *columns)


@rule("MatMul", "MatMulInteger", "QLinearMatMul")
@rule("DynamicQuantizeMatMul", "MatMulIntegerToFloat", "FusedMatMul", "TransposeMatMul", domains=(MICROSOFT,))
def matmul(node: Node) -> Value:
    dtype = INT32 if node.op_type == "MatMulInteger" else node.input(TYPED_LIKE.get(node.op_type, 0)).dtype
    return Value(dtype, matmul_shape(node, *matmul_operands(node)))


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
    shape = matmul_shape(node, a[::-1] if node.integer("transA") else a, b[::-1] if node.integer("transB") else b)
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
        shape, letters = node.shape(index), term.replace("...", "")
        rest = len(shape) - len(letters)
        if rest < 0 or (rest and "..." not in term):
            raise ShapeError(f"{node.what} reads {len(shape)} axes as {term!r}")
        at = term.index("...") if "..." in term else 0
        leading.append(tuple(shape[at : at + rest]))
        for letter, size in zip(letters, (*shape[:at], *shape[at + rest :]), strict=True):
            joined = dims.broadcast(sizes.get(letter, 1), size)
            if joined is None:
                raise ShapeError(f"{node.what} gives {letter!r} the sizes {sizes[letter]} and {size}")
            sizes[letter] = joined
    if not arrow:
        counts = left.replace("...", "").replace(",", "")
        right = "..." * ("..." in left) + "".join(sorted(one for one in set(counts) if counts.count(one) == 1))
    around = broadcast_shapes(node, leading)
    if "..." not in right:
        around, total = (), around
        for position, size in enumerate(total):  # summed over
            sizes[f"...{position}"] = size
    elif not right.startswith("..."):
        raise UnknownError
    output = right.replace("...", "")
    if any(letter not in sizes for letter in output):
        raise ShapeError(f"{node.what} has the equation {node.text('equation')!r}")
    return sizes, output, around


@rule("Attention")
def attention(node: Node) -> list[Value | None]:
    """(B, H, S, K) or (B, S, H * K), with keys and values of T steps and those of the past."""
    query, key = node.shape(0), node.shape(1)
    batch, heads, queries, keys, width = attention_sizes(node)
    dtype = node.input().dtype
    shape = (batch, heads, queries, width) if len(query) == 4 else (batch, queries, heads * width)
    inner = key[3] if len(key) == 4 else key[2] // node.integer("kv_num_heads")
    kv_heads = key[1] if len(key) == 4 else node.integer("kv_num_heads")
    return [
        Value(dtype, shape),
        Value(dtype, (batch, kv_heads, keys, inner)),
        Value(dtype, (batch, kv_heads, keys, width)),
        Value(dtype, (batch, heads, queries, keys)),
    ]


def attention_sizes(node: Node) -> tuple[Size, Size, Size, Size, Size]:
    """B, H, S, T with the past, and V of ONNX's Attention."""
    query, key, value = node.shape(0), node.shape(1), node.shape(2)
    if len(query) == 4:
        batch, heads, queries = query[:3]
        keys, width = key[2], value[3]
    else:
        batch, queries, heads = query[0], query[1], node.integer("q_num_heads")
        keys = key[1]
        if not heads or not node.integer("kv_num_heads"):
            raise UnknownError
        width = value[2] // node.integer("kv_num_heads")
    if node.has(4):
        keys = keys + node.shape(4)[2]
    return batch, heads, queries, keys, width
