"""Work of attention: scores of each query with each key, and the weighted sum of the values.

Masked positions count like all others, because the mask is data. Shapes: B batch, H heads, S queries, T keys, K and
V sizes of one head, D hidden size.
"""

from __future__ import annotations

from bench.onnxfile.costs.work import Work, numel, rule
from bench.onnxfile.operators import MICROSOFT
from bench.onnxfile.shapes.node import Node
from bench.onnxfile.shapes.rules.fused import group_query_sizes, multi_head_sizes
from bench.onnxfile.shapes.rules.products import attention_sizes

SOFTMAX = 5
"""Elementary operations on each score: maximum, difference, exponential, sum, quotient."""


def _scores(batch: int, heads: int, queries: int, keys: int, inner: int, width: int, masked: bool) -> Work:
    scores = batch * heads * queries * keys
    return Work(scores * (inner + width), scores * (1 + SOFTMAX + masked))


def _numbers(*sizes: object) -> tuple[int, ...]:
    assert all(isinstance(size, int) for size in sizes)
    return tuple(int(size) for size in sizes)  # type: ignore[call-overload]


@rule("Attention")
def attention(node: Node) -> Work:
    batch, heads, queries, keys, width = _numbers(*attention_sizes(node))
    query = node.shape()
    inner = query[3] if len(query) == 4 else query[2] // heads
    return _scores(batch, heads, queries, keys, inner, width, node.has(3))


@rule("FlexAttention", domains=("ai.onnx.preview",))
def flex_attention(node: Node) -> Work:
    (batch, heads, queries, inner), (keys, width) = node.shape(0), node.shape(2)[2:]
    return _scores(batch, heads, queries, keys, inner, width, False)


@rule("Attention QAttention", domains=(MICROSOFT,))
def fused_attention(node: Node) -> Work:
    """With the projections of queries, keys and values: (B, S, D) by (D, 2 H K + H V)."""
    batch, steps, _ = node.shape()
    heads, past_at = node.integer("num_heads", 1), 8 if node.op_type == "QAttention" else 4
    keys = steps + (node.shape(past_at)[3] if node.has(past_at) else 0)
    columns = node.shape(1)[1]
    widths = node.integers("qkv_hidden_sizes") or [columns // 3] * 3
    macs, other = _scores(batch, heads, steps, keys, widths[0] // heads, widths[2] // heads, node.has(3))
    biased = batch * steps * columns if node.has(2) else 0
    return Work(macs + batch * steps * numel(node.shape(1)), other + biased)


@rule("MultiHeadAttention", domains=(MICROSOFT,))
def multi_head_attention(node: Node) -> Work:
    batch, heads, queries, keys, inner, width = _numbers(*multi_head_sizes(node))
    macs, other = _scores(batch, heads, queries, keys, inner, width, node.has(4) or node.has(5))
    biased = batch * heads * (queries * inner + keys * (inner + width)) if node.has(3) else 0
    return Work(macs, other + biased)


@rule("GroupQueryAttention", domains=(MICROSOFT,))
def group_query_attention(node: Node) -> Work:
    batch, heads, queries, keys, inner = _numbers(*group_query_sizes(node))
    macs, other = _scores(batch, heads, queries, keys, inner, inner, True)
    turned = batch * queries * (heads + node.integer("kv_num_heads", 1)) * inner
    return Work(macs, other + (3 * turned if node.integer("do_rotary") else 0))


@rule("LinearAttention")
def linear_attention(node: Node) -> Work:
    """A state of (K, V) a head: updated by each key and read by each query; a delta rule reads it once more."""
    batch, steps, width = node.shape(0)
    heads, pairs = node.integer("q_num_heads", 1), node.integer("kv_num_heads", 1)
    state = (width // heads) * (node.shape(2)[2] // pairs)
    kind = node.text("update_rule", "gated_delta")
    reads = heads + pairs * (1 + ("delta" in kind))
    return Work(batch * steps * reads * state, batch * steps * pairs * state * ("gated" in kind))
