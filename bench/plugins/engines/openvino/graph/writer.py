"""The graph of an OpenVINO model as an ONNX file, for the commands that read graphs.

Each operation becomes the ONNX operator that computes the same, with its name; `rules` translate them. An
operation without a counterpart becomes a node of the domain `org.openvinotoolkit`, whose outputs have the shapes that
OpenVINO states. Nothing measures the file: runtimes run the model itself. It differs from the model where ONNX has
no exact counterpart: the epsilon of an MVN, and the order of the gates of recurrent layers.

Source: https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets.html
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.api.errors import InputError
from bench.graphs.deferred import onnx
from bench.graphs.operators import OPENVINO
from bench.plugins.engines.openvino import ir
from bench.plugins.engines.openvino.graph import dequantization
from bench.plugins.engines.openvino.graph.onnx_graph import WEIGHTS, Constants, Graph, is_folded
from bench.plugins.engines.openvino.graph.operation import Operation, UntranslatableError
from bench.plugins.engines.openvino.graph.rules import RULES

OPSET, IR_VERSION = 24, 11


def write(model: Any, target: Path) -> list[str]:
    """Write the graph of an `openvino.Model`, its larger constants to a file beside it.

    Args:
        target: the ONNX file.

    Returns:
        Sentences about differences between the file and the model.

    Raises:
        InputError: the model holds elements of a type that ONNX does not have, or a constant of strings.
    """
    with target.with_name(WEIGHTS).open("wb") as file:
        constants = Constants(file)
        graph = Graph(constants, add)
        graph.add(model)
        outputs = [graph.ended(result) for result in model.get_results()]
    inputs = [graph.typed(node.output(0)) for node in model.get_parameters()]
    read = {name for node in graph.all_nodes() for name in node.input} | {value.name for value in outputs}
    proto = graph.proto(model.get_friendly_name(), inputs, outputs)
    proto.initializer.extend(tensor for tensor in constants.tensors if tensor.name in read)
    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in (("", OPSET), (OPENVINO, 1))]
    opsets.append(onnx.helper.make_opsetid("com.microsoft", 1))
    target.write_bytes(onnx.helper.make_model(proto, opset_imports=opsets, ir_version=IR_VERSION).SerializeToString())
    return constants.notes()


def add(graph: Graph, model: Any) -> None:
    """Add the operations of a model to a graph; its inputs get names unless they are bound."""
    weights = dequantization.find(model)
    absorbed = {name for weight in weights.values() for name in weight.absorbed}
    for node in model.get_ordered_ops():
        kind, name = node.get_type_name(), node.get_name()
        if kind == "Parameter":
            if not graph.is_named(node.output(0)):
                graph.made(node.output(0))
        elif name in weights:
            _put(Operation(graph, node), functools.partial(dequantization.translate, weight=weights[name]))
        elif kind not in ("Constant", "Result") and name not in absorbed and not is_folded(node):
            _put(Operation(graph, node), RULES.get(("", kind), _untranslated))


def _put(op: Operation, rule: Callable[[Operation], None]) -> None:
    """Add the nodes that a rule makes of an operation; where the rule cannot, a node of OpenVINO's domain."""
    bodies = len(op.graph.bodies)
    try:
        rule(op)
    except UntranslatableError:
        del op.nodes[:], op.graph.bodies[bodies:]
        _untranslated(op)
    op.graph.extend(op.nodes)


def _untranslated(op: Operation) -> None:
    """A node of OpenVINO's domain with the inputs and the attributes of an operation."""
    attributes: Mapping[str, Any] = {
        name: value for name, value in op.attributes.items() if isinstance(value, int | float | str)
    }
    op.result(op.kind, *(op.x(index) for index in range(op.node.get_input_size())), domain=OPENVINO, **attributes)
    for port in op.node.outputs():
        op.graph.state(port)


def of_archive(path: Path, target: Path, shapes: Mapping[str, Sequence[int]]) -> list[str]:
    """Write the graph of an archived model, whose inputs have fixed shapes.

    Args:
        path: an archive that `ir.save` wrote.
        target: the ONNX file.
        shapes: of all inputs, by name.

    Returns:
        Sentences about differences between the file and the model.

    Raises:
        InputError: the shapes do not fit the model, or it holds elements of a type that ONNX does not have.
    """
    openvino = ir.import_openvino()
    model, _weights = ir.read(openvino.Core(), path)
    try:
        model.reshape({name: list(shape) for name, shape in shapes.items()})
    except RuntimeError as error:
        raise InputError(f"the shapes do not fit the model: {error}") from error
    return write(model, target)
