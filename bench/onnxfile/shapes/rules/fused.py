"""Shape rules of ONNX Runtime's own operators, into which its optimizers fuse others.

Shapes: B batch, S steps, D hidden size, H heads, K size of one head, P steps of the past.
Source: ONNX Runtime's docs/ContribOperators.md.
"""

from __future__ import annotations

from bench.onnxfile.operators import MICROSOFT
from bench.onnxfile.shapes import dims
from bench.onnxfile.shapes.dims import Shape
from bench.onnxfile.shapes.node import FLOAT, INT32, Node, UnknownError, Value
from bench.onnxfile.shapes.rules.products import by_head
from bench.onnxfile.shapes.rules.registry import rule


@rule("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domains=(MICROSOFT,))
def skip_normalization(node: Node) -> list[Value | None]:
    shape = node.shape()
    statistics = Value(FLOAT, (*shape[:-1], 1))
    return [Value(node.input().dtype, shape), statistics, statistics, Value(node.input().dtype, shape)]


@rule("EmbedLayerNormalization", "QEmbedLayerNormalization", domains=(MICROSOFT,))
def embed_normalization(node: Node) -> list[Value | None]:
    dtype = FLOAT if node.op_type.startswith("Q") else node.input(2).dtype
    result = Value(dtype, (*node.shape(0), node.shape(2)[1]))
    return [result, Value(INT32, node.shape(0)[:1]), result]


@rule("Attention", "QAttention", domains=(MICROSOFT,))
def attention(node: Node) -> list[Value | None]:
    """(B, S, D) by (D, 3 D) -> (B, S, D) and (2, B, H, P + S, K)."""
    dtype, past_at = (node.input().dtype, 4) if node.op_type == "Attention" else (node.input(2).dtype, 8)
    batch, steps, _ = node.shape(0)
    widths = node.integers("qkv_hidden_sizes")
    width = widths[2] if widths else node.shape(1)[1] // 3
    past = node.shape(past_at)[3] if node.has(past_at) else 0
    heads = node.integer("num_heads", 1)
    present = Value(dtype, (2, batch, heads, past + steps, width // heads))
    return [Value(dtype, (batch, steps, width)), present]


@rule("MultiHeadAttention", domains=(MICROSOFT,))
def multi_head_attention(node: Node) -> list[Value | None]:
    batch, heads, queries, keys, inner, width = multi_head_sizes(node)
    dtype = node.input().dtype
    return [
        Value(dtype, (batch, queries, heads * width)),
        Value(dtype, (batch, heads, keys, inner)),
        Value(dtype, (batch, heads, keys, width)),
    ]


def multi_head_sizes(node: Node) -> Shape:
    """B, H, queries, keys with those of the past, and the sizes of one head of keys and of values."""
    query, heads = node.shape(0), node.integer("num_heads", 1)
    if len(query) == 5:  # queries, keys and values in one: (B, S, H, 3, K)
        return (query[0], heads, query[1], query[1], query[4], query[4])
    key = node.shape(1)
    inner = query[2] // heads
    if len(key) == 5:  # keys and values in one: (B, T, H, 2, K)
        keys, width = key[1], key[4]
    else:
        keys, width = by_head(key, heads)[2], by_head(node.shape(2), heads)[3]
    if node.has(6):
        keys = keys + node.shape(6)[2]
    return (query[0], heads, query[1], keys, inner, width)


@rule("GroupQueryAttention", domains=(MICROSOFT,))
def group_query_attention(node: Node) -> list[Value | None]:
    dtype = node.input().dtype
    try:
        batch, heads, queries, keys, inner = group_query_sizes(node)
    except UnknownError:
        return [Value(dtype, None)] * 3
    present = Value(dtype, (batch, node.integer("kv_num_heads", 1), keys, inner))
    return [Value(dtype, (batch, queries, heads * inner)), present, present]


def group_query_sizes(node: Node) -> Shape:
    """B, H, queries, keys with those of the past, and the size of one head."""
    batch, queries, width = node.shape(0)
    heads, pairs = node.integer("num_heads", 1), node.integer("kv_num_heads", 1)
    inner = width // heads if node.has(1) else width // (heads + 2 * pairs)
    past = node.shape(3)[2] if node.has(3) else 0
    total = node.input(6).elements if node.has(6) else None
    # Without the value of total_sequence_length: what a decoder has that appends to what it is given.
    keys = past + queries if total is None else dims.maximum(past, total.reshape(-1)[0])
    return (batch, heads, queries, keys, inner)


@rule("DynamicQuantizeLSTM", domains=(MICROSOFT,))
def dynamic_lstm(node: Node) -> list[Value | None]:
    steps, batch, _ = node.shape(0)
    directions, hidden = node.shape(2)[0], node.integer("hidden_size")
    last = Value(FLOAT, (directions, batch, hidden))
    return [Value(FLOAT, (steps, directions, batch, hidden)), last, last]


@rule("GatherBlockQuantized", domains=(MICROSOFT,))
def gather_block(node: Node) -> Value:
    """Rows of a table of 4-bit or 8-bit elements; a uint8 holds two elements of 4 bits."""
    data, indices = node.shape(0), node.shape(1)
    along = node.axis(len(data), 0, "gather_axis")
    packed = 8 // node.integer("bits", 4) if node.input().dtype == 2 else 1
    sizes = (*data[:-1], data[-1] * packed)
    return Value(node.input(2).dtype, (*sizes[:along], *indices, *sizes[along + 1 :]))


@rule("BiasSplitGelu", domains=(MICROSOFT,))
def split_gelu(node: Node) -> Value:
    shape = node.shape()
    return Value(node.input().dtype, (*shape[:-1], shape[-1] // 2))
