"""Put the nodes of an ONNX graph into an order in which they can be run, without those that nothing reads."""

from __future__ import annotations

from collections.abc import Sequence

from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.reads import node_reads
from bench.onnxfile.file.replace import replace_all


def replace_nodes(model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto]) -> None:
    """Make some nodes those of the main graph, sorted so that each value is made before it is read.

    Nodes that could be run where they stand stay in their order, nodes that nothing needs are left out, and what a
    subgraph reads counts as read by its node.

    Args:
        nodes: they may be nodes of this very graph.
    """
    import onnx_ir as ir
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    nodes = list(nodes)
    read = {name for node in nodes for name in node_reads(node)} | {value.name for value in model.graph.output}
    inputs = [onnx.ValueInfoProto(name=name) for name in read.difference(*(node.output for node in nodes))]
    bare = onnx.GraphProto(name="nodes", input=inputs, output=model.graph.output, node=nodes)
    for number, node in enumerate(bare.node):
        node.name = str(number)
    graph = ir.from_proto(bare)
    RemoveUnusedNodesPass()(ir.Model(graph, ir_version=model.ir_version))
    try:
        graph.sort()
    except ValueError as error:
        raise AssertionError("nodes read each other in a circle") from error
    replace_all(model.graph.node, (nodes[int(node.name)] for node in graph))
