"""The values that a node of an ONNX graph reads, its subgraphs included, and whether the node is constant."""

from __future__ import annotations

from collections.abc import Collection

from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.digest import stored_names, subgraphs

_RANDOM = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial")
"""Operators whose output differs from run to run even if they read nothing but constants."""


def node_reads(node: onnx.NodeProto) -> dict[str, None]:
    """Names of the values that a node needs, in order: its inputs, and what its subgraphs read from around them."""
    names = dict.fromkeys(name for name in node.input if name)
    for graph in subgraphs(node):
        names |= _outer_reads(graph)
    return names


def _outer_reads(graph: onnx.GraphProto) -> dict[str, None]:
    """Names that a subgraph reads but does not define, in order."""
    own = {value.name for value in graph.input} | stored_names(graph)
    reads: dict[str, None] = {}
    for node in graph.node:
        reads |= {name: None for name in node_reads(node) if name not in own}
        own.update(node.output)
    return reads | {value.name: None for value in graph.output if value.name not in own}


def is_constant(node: onnx.NodeProto, constants: Collection[str]) -> bool:
    """Whether a node makes the same values in each run, because all values that it reads are constants.

    Operators of other domains than ONNX's own may have a state, so they never count as constant.
    """
    return (
        node.domain in ("", "ai.onnx")
        and node.op_type not in _RANDOM
        and all(name in constants for name in node_reads(node))
    )
