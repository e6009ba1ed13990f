"""Notes that exporters and optimizers leave in an ONNX file, of which no runtime takes any account."""

from __future__ import annotations

from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.digest import all_graphs, all_nodes


def drop_metadata(model: onnx.ModelProto) -> None:
    """Remove the metadata of all nodes, graphs and values, in subgraphs and functions as well."""
    graphs = list(all_graphs(model))
    values = (value for graph in graphs for value in (*graph.input, *graph.output, *graph.initializer))
    stated = (value for graph in graphs for value in graph.value_info)
    for item in (*all_nodes(model), *graphs, *values, *stated):
        item.ClearField("metadata_props")
