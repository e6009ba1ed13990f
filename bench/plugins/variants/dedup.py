"""Equal weights stored once: some exporters write a weight that layers share once for each layer."""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Iterator
from pathlib import Path

from bench.api import Info, Task, Variant
from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.digest import subgraphs, tensor_digest


class Dedup(Variant):
    """Merges initializers and Constant nodes whose dtype, shape and bytes have the same hash; the first one stays.

    Nothing that is computed changes, not by a bit. Time is linear in the size of the file.
    """

    portable = True
    requires = ("onnx",)

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        model = onnx.load(source)
        renamed = merge_equal(model.graph)
        onnx.save(model, target)
        return {"num_removed": len(renamed)}


def merge_equal(graph: onnx.GraphProto) -> dict[str, str]:
    """Remove every constant that is equal to an earlier one of the same graph or of one around it.

    A graph's output stays under its name. A name that is defined twice is left alone: it may be an input's default,
    which a request can replace, or hide another of that name from a subgraph.

    Returns:
        The name that replaces each removed name, by the removed name.
    """
    graphs = list(_with_inner(graph))
    num_definitions = Counter(name for each in graphs for name in _defined(each))
    to_keep = {value.name for each in graphs for value in each.output}
    renamed: dict[str, str] = {}

    def is_superfluous(name: str, tensor: onnx.TensorProto, first: ChainMap[bytes, str]) -> bool:
        if num_definitions[name] > 1:
            return False
        stands = first.setdefault(tensor_digest(tensor), name)
        if stands == name or name in to_keep:
            return False
        renamed[name] = stands
        return True

    def merge(each: onnx.GraphProto, first: ChainMap[bytes, str]) -> None:
        """Merge in the order of the nodes: they can run in it, so that later nodes can read the constant that stays."""
        superfluous = [at for at, tensor in enumerate(each.initializer) if is_superfluous(tensor.name, tensor, first)]
        for at in reversed(superfluous):
            del each.initializer[at]
        superfluous = []
        for at, node in enumerate(each.node):
            constants = [item.t for item in node.attribute if node.op_type == "Constant" and item.HasField("t")]
            if constants and is_superfluous(node.output[0], constants[0], first):
                superfluous.append(at)
            for inner in subgraphs(node):
                merge(inner, first.new_child())
        for at in reversed(superfluous):
            del each.node[at]

    merge(graph, ChainMap())
    for node in (node for each in graphs for node in each.node):
        node.input[:] = [renamed.get(name, name) for name in node.input]
    return renamed


def _with_inner(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from _with_inner(inner)


def _defined(graph: onnx.GraphProto) -> Iterator[str]:
    yield from (value.name for value in (*graph.input, *graph.initializer))
    yield from (name for node in graph.node for name in node.output)
