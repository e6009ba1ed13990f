"""Rewrite an ONNX graph, without changing what it computes, so that quantizers find all weights and little else."""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Mapping
from pathlib import Path

from bench.onnxfile.deferred import np, onnx
from bench.onnxfile.file.digest import all_graphs, all_nodes, subgraphs
from bench.onnxfile.file.normalized import inline_functions, unlist_weights
from bench.onnxfile.file.replace import replace_all
from bench.onnxfile.sessions import cpu_session

_MOVES = ("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Slice", "Concat")
"""Operators that only change the layout of their input."""


def load_settled(path: Path) -> onnx.ModelProto:
    """Read an ONNX file and make every weight an initializer that its operator reads without a detour.

    Exporters leave transposes before matrix products, pass tied weights through Identity, and cut and reorder the gates
    of an LSTM in the graph. Operators that change the layout of weights are computed here, once; tied weights stay
    tied. A weight that some operator reads in its stored layout is left alone, because a second layout would be a
    second copy in the file.
    """
    model = inline_functions(onnx.load(path))
    unlist_weights(model)
    versions = {entry.domain: entry for entry in model.opset_import}
    replace_all(model.opset_import, versions.values())  # files that were joined may state the same version twice
    _read_stored(model)
    _lay_out(model)
    drop_unread(model)
    return model


def _read_stored(model: onnx.ModelProto) -> None:
    """Make initializers of the tensors in Constant nodes, and read initializers directly, not through an Identity."""
    graph = model.graph
    stored, outputs = set(_stored(graph)), {value.name for value in graph.output}
    origin: dict[str, str] = {}
    nodes = []
    for node in graph.node:
        source = origin.get(node.input[0], node.input[0]) if node.op_type == "Identity" else ""
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            graph.initializer.append(node.attribute[0].t)
            graph.initializer[-1].name = node.output[0]
            stored.add(node.output[0])
        elif source in stored and node.output[0] not in outputs:
            origin[node.output[0]] = source
        else:
            nodes.append(node)
    replace_all(graph.node, nodes)
    _read_instead(model, origin)


def _lay_out(model: onnx.ModelProto) -> None:
    """Compute the nodes that only change the layout of initializers, equal nodes only once."""
    graph = model.graph
    stored, outputs = _stored(graph), {value.name for value in graph.output}
    needed = {name for node in all_nodes(model) if node.op_type not in _MOVES for name in node.input}
    recipes: dict[tuple[str, ...], str] = {}
    same_as: dict[str, str] = {}
    nodes = []
    for node in graph.node:
        node.input[:] = [same_as.get(name, name) for name in node.input]
        sources = [stored.get(name) for name in node.input if name]
        if (
            node.op_type not in _MOVES
            or node.output[0] in outputs
            or any(source is None or (source.data_type == source.FLOAT and source.name in needed) for source in sources)
        ):
            nodes.append(node)
            continue
        recipe = (node.op_type, *node.input, *sorted(str(attribute) for attribute in node.attribute))
        name = node.output[0]
        same_as[name] = recipes.setdefault(recipe, name)
        if same_as[name] == name:
            stored[name] = onnx.numpy_helper.from_array(_evaluate(node, stored, model), name)
            graph.initializer.append(stored[name])
    replace_all(graph.node, nodes)
    _read_instead(model, same_as)


def _evaluate(node: onnx.NodeProto, stored: dict[str, onnx.TensorProto], model: onnx.ModelProto) -> np.ndarray:
    """The output of a node on initializers, in ONNX Runtime: onnx's reference lacks operators of old versions."""
    weights = [stored[name] for name in dict.fromkeys(node.input) if name]
    graph = onnx.helper.make_graph([node], "layout", [], [onnx.ValueInfoProto(name=node.output[0])], weights)
    alone = onnx.helper.make_model(graph, opset_imports=model.opset_import, ir_version=max(model.ir_version, 4))
    (array,) = cpu_session(alone.SerializeToString(), optimized=False).run(None, {})
    return np.ascontiguousarray(array)


def matmul_from_gemm(model: onnx.ModelProto) -> None:
    """Replace each Gemm on stored weights by a MatMul and an Add, for quantizers that know only these.

    ONNX Runtime's own rewriting transposes a weight in place each time that a Gemm reads it, which breaks tied weights,
    such as those that both branches of an If read.
    """
    _without_gemm(model.graph, {})
    drop_unread(model)


def _without_gemm(graph: onnx.GraphProto, outer: Mapping[str, onnx.TensorProto]) -> None:
    """Replace the Gemm nodes of a graph and its subgraphs.

    Args:
        graph: is changed in place.
        outer: initializers of the graphs around it.
    """
    stored = {**outer, **_stored(graph)}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        for inner in subgraphs(node):
            _without_gemm(inner, stored)
        settings = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
        plain = settings.get("alpha", 1) == settings.get("beta", 1) == 1 and not settings.get("transA", 0)
        if node.op_type != "Gemm" or node.input[1] not in stored or not plain:
            nodes.append(node)
            continue
        weight = node.input[1]
        if settings.get("transB", 0):
            source, weight = stored[weight], f"{weight}_transposed"
            if weight not in stored:
                array = onnx.numpy_helper.to_array(source)
                stored[weight] = onnx.numpy_helper.from_array(array.T.copy(), weight)
                graph.initializer.append(stored[weight])
        has_bias = len(node.input) > 2 and bool(node.input[2])
        product = f"{node.output[0]}_product" if has_bias else node.output[0]
        nodes.append(onnx.helper.make_node("MatMul", [node.input[0], weight], [product], name=node.name))
        if has_bias:
            nodes.append(onnx.helper.make_node("Add", [product, node.input[2]], node.output, name=f"{node.name}_bias"))
    replace_all(graph.node, nodes)


def flatten_biases(model: onnx.ModelProto) -> None:
    """Give each Gemm of the main graph, in place, a stored bias with one value for each column, and no other axis.

    A Gemm repeats a bias of another shape, but ONNX Runtime's quantizer takes it for one of this shape (1.31.1).
    """
    graph = model.graph
    stored = _stored(graph)
    for node in graph.node:
        if node.op_type != "Gemm" or len(node.input) < 3 or not stored.keys() >= {node.input[1], node.input[2]}:
            continue
        weight, bias = stored[node.input[1]], stored[node.input[2]]
        settings = {attribute.name: attribute.i for attribute in node.attribute}
        columns = weight.dims[0 if settings.get("transB", 0) else 1]
        if list(bias.dims) == [columns] or math.prod(bias.dims[:-1]) != 1:
            continue
        name = f"{bias.name}_{columns}"
        if name not in stored:
            values = np.broadcast_to(onnx.numpy_helper.to_array(bias).reshape(-1), (columns,))
            stored[name] = onnx.numpy_helper.from_array(values.copy(), name)
            graph.initializer.append(stored[name])
        node.input[2] = name
    drop_unread(model)


def drop_unread(model: onnx.ModelProto) -> None:
    """Drop initializers that nothing reads, and all but the last of those with the same name in a graph."""
    read = {name for node in all_nodes(model) for name in node.input}
    read |= {value.name for graph in all_graphs(model) for value in graph.output}
    for graph in all_graphs(model):
        tensors = {tensor.name: tensor for tensor in graph.initializer if tensor.name in read}
        replace_all(graph.initializer, tensors.values())


def shorten_names(model: onnx.ModelProto, *, ports: Mapping[str, str] | None = None) -> None:
    """Give all values but the inputs and outputs short names, in place.

    The names that exporters give can take up a seventh of a file whose weights have 4 bits.

    Args:
        ports: new names of inputs and outputs, by their names so far; the others keep theirs.
    """
    new = ports or {}
    fixed = {value.name: new.get(value.name, value.name) for value in (*model.graph.input, *model.graph.output)}
    for graph in all_graphs(model):
        graph.ClearField("value_info")
    _rename(model, fixed, end="")


def separate_names(model: onnx.ModelProto) -> dict[str, str]:
    """Give all values names of which none is the beginning of another, in place.

    A tool can then make names of its own by adding to these.

    Returns:
        The names that the inputs and outputs had, by those that they have now, for `shorten_names`.
    """
    ports = [value.name for value in (*model.graph.input, *model.graph.output)]
    names = _rename(model, {}, end="v")  # no hexadecimal digit
    return {names[name]: name for name in ports}


def _rename(model: onnx.ModelProto, fixed: Mapping[str, str], *, end: str) -> Mapping[str, str]:
    """Number all values but those with a name in `fixed`, in place; return the new names by the old."""
    taken = set(fixed.values())
    unused = (name for number in itertools.count() if (name := f"{number:x}{end}") not in taken)
    names = collections.defaultdict(lambda: next(unused), {"": "", **fixed})
    for graph in all_graphs(model):
        graph.ClearField("doc_string")
        for value in (*graph.initializer, *graph.input, *graph.output, *graph.value_info):
            value.name = names[value.name]
            value.ClearField("doc_string")
    for node in all_nodes(model):
        node.input[:] = [names[name] for name in node.input]
        node.output[:] = [names[name] for name in node.output]
        node.name = next(filter(None, node.output), "")
        node.ClearField("doc_string")
    return names


def _stored(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
    """Initializers by name, without those that are inputs, too: a caller can replace these in each run."""
    inputs = {value.name for value in graph.input}
    return {tensor.name: tensor for tensor in graph.initializer if tensor.name not in inputs}


def _read_instead(model: onnx.ModelProto, names: Mapping[str, str]) -> None:
    for node in all_nodes(model):
        node.input[:] = [names.get(name, name) for name in node.input]
