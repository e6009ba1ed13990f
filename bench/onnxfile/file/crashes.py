"""The nodes at which onnx's inference of types crashes, or takes memory without bounds: it is not called with them."""

from __future__ import annotations

from bench.onnxfile.deferred import onnx

CRASHING = {
    *(("", "EyeLike"), ("", "RegexFullMatch")),
    *(("ai.onnx.ml", "DictVectorizer"), ("ai.onnx.ml", "LabelEncoder"), ("ai.onnx.ml", "TreeEnsemble")),
}
"""Domains and names of the operators for which onnx's inference follows a null pointer where an input has no type.

These are all that `benchmarks/onnx_crashes.py types` finds with onnx 1.23.2, in 16,155 models of one node.
"""


def is_crashing(node: onnx.NodeProto) -> bool:
    """Whether a node is of `CRASHING`."""
    return (node.domain, node.op_type) in CRASHING


def hurts(node: onnx.NodeProto) -> bool:
    """Whether onnx's inference crashes at a node, or takes memory without bounds, because of a number in an attribute.

    These two are all that `benchmarks/onnx_crashes.py numbers` finds with onnx 1.23.2, in 61,264 models of one node.
    """
    numbers = {attribute.name: attribute.i for attribute in node.attribute}
    if node.op_type == "GatherND":
        return numbers.get("batch_dims", 0) < 0
    return node.op_type == "Split" and numbers.get("num_outputs", 0) > len(node.output)
