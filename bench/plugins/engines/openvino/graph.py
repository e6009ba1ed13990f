"""The graph of an OpenVINO model as an ONNX file, for the commands that read graphs.

Each operation becomes a node of the domain `org.openvinotoolkit` with the shapes that OpenVINO states, under the name
of the ONNX operator by whose rules its parameters count, see `parameters.OPERATORS`. Constants are written as they are
stored: what converts them when OpenVINO loads the model is no node, and integers with their scale and zero point are
one. `bench.onnxfile.costs.macs.openvino` tells the work of the nodes. Nothing runs or measures the file: runtimes run
the model itself.

Source: https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets.html
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from bench.api.errors import InputError
from bench.onnxfile.deferred import onnx
from bench.onnxfile.operators import OPENVINO
from bench.plugins.engines.openvino import ir
from bench.plugins.engines.openvino.parameters import FIRST_STATES, OPERATORS, bodies, is_compressed, is_first_state

_OPSET, _IR_VERSION = 24, 11
WEIGHTS = "weights.bin"
"""Name of the file beside the ONNX file that holds the larger constants."""
_INLINE_BYTES = 4096
DTYPES = {
    "boolean": "BOOL",
    "bf16": "BFLOAT16",
    "f16": "FLOAT16",
    "f32": "FLOAT",
    "f64": "DOUBLE",
    "f4e2m1": "FLOAT4E2M1",
    "f8e4m3": "FLOAT8E4M3FN",
    "f8e5m2": "FLOAT8E5M2",
    "f8e8m0": "FLOAT8E8M0",
    "string": "STRING",
    **{f"{kind}{size}": f"{name}{size}" for kind, name in (("i", "INT"), ("u", "UINT")) for size in (2, 4, 8, 16, 32)},
    "i64": "INT64",
    "u64": "UINT64",
}
"""Names of ONNX's element types by those of OpenVINO."""


def of_archive(path: Path, target: Path, shapes: Mapping[str, Sequence[int]]) -> None:
    """Write the graph of an archived model, whose inputs have fixed shapes.

    Args:
        path: an archive that `ir.save` wrote.
        target: the ONNX file.
        shapes: of all inputs, by name.

    Raises:
        InputError: the shapes do not fit the model, or as `write`.
    """
    openvino = ir.import_openvino()
    model, _weights = ir.read(openvino.Core(), path)
    try:
        model.reshape({name: list(shape) for name, shape in shapes.items()})
    except RuntimeError as error:
        raise InputError(
            f"the shapes {shapes} do not fit the model: {error}", fix="--shape and --dim give others"
        ) from error
    write(model, target)


def write(model: Any, target: Path) -> None:
    """Write the graph of an `openvino.Model`, its larger constants to a file beside it.

    Args:
        target: the ONNX file.

    Raises:
        InputError: the model holds elements of a type that ONNX does not have, or a constant of strings.
    """
    with target.with_name(WEIGHTS).open("wb") as file:
        names = _Names(file)
        inputs = [names.typed(node.output(0)) for node in model.get_parameters()]
        nodes, stated = _nodes(model, names)
        free = {name for node in nodes for name in node.output}
        outputs: list[onnx.ValueInfoProto] = []
        for result in model.get_results():
            port = result.input(0).get_source_output()
            if (name := names.of(port)) not in free:  # an input, a constant, or an output already
                name = names.unique(f"{name}_output")
                nodes.append(onnx.helper.make_node("Identity", [names.of(port)], [name], name=name))
            free.discard(name)
            outputs.append(names.typed(port, name))
    graph = onnx.helper.make_graph(
        nodes, model.get_friendly_name(), inputs, outputs, names.constants, value_info=stated
    )
    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in (("", _OPSET), (OPENVINO, 1))]
    target.write_bytes(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION).SerializeToString())


class _Names:
    """The names in the ONNX file of values, each of its own, and the constants among them.

    Attributes:
        constants: the tensors whose names something has asked for.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.constants: list[onnx.TensorProto] = []
        self._file = file
        self._taken: set[str] = set()
        self._of: dict[tuple[str, int], str] = {}

    def unique(self, name: str) -> str:
        """The name, or the name and a number if it is taken."""
        free, number = name, 0
        while free in self._taken:
            number += 1
            free = f"{name}_{number}"
        self._taken.add(free)
        return free

    def of(self, port: Any) -> str:
        """The name of an `openvino.Output`; a constant is written when its name is first asked for."""
        node = port.get_node()
        key = node.get_name(), port.get_index()
        if key not in self._of:
            own = node.get_friendly_name() + (f".{port.get_index()}" if node.get_output_size() > 1 else "")
            self._of[key] = self.unique(min(port.get_names(), default=own))
            if node.get_type_name() == "Constant":
                self._write(node, self._of[key])
        return self._of[key]

    def bind(self, port: Any, other: Any) -> None:
        """Let an output have the name of another."""
        self._of[port.get_node().get_name(), port.get_index()] = self.of(other)

    def _write(self, node: Any, name: str) -> None:
        port = node.output(0)
        if port.get_element_type().to_string() == "string":
            raise InputError(f"constant {name!r} holds strings; only constants of numbers can be read")
        tensor = onnx.TensorProto(name=name, data_type=_dtype(port), dims=node.shape)
        content = node.data.tobytes()[: node.get_byte_size()]
        if len(content) <= _INLINE_BYTES:
            tensor.raw_data = content
        else:
            tensor.data_location = onnx.TensorProto.EXTERNAL
            place = {"location": WEIGHTS, "offset": self._file.tell(), "length": self._file.write(content)}
            for key, value in place.items():
                tensor.external_data.add(key=key, value=str(value))
        self.constants.append(tensor)

    def typed(self, port: Any, name: str | None = None) -> onnx.ValueInfoProto:
        """The type of an output of an operation, under its name or another."""
        shape = port.get_partial_shape()
        sizes = [dim.get_length() if dim.is_static else None for dim in shape] if shape.rank.is_static else None
        return onnx.helper.make_tensor_value_info(self.of(port) if name is None else name, _dtype(port), sizes)


def _dtype(port: Any) -> int:
    """The element type as a number of `onnx.TensorProto.DataType`."""
    kind = port.get_element_type().to_string()
    name = "UNDEFINED" if kind == "dynamic" else DTYPES.get(kind)
    known: Sequence[str] = onnx.TensorProto.DataType.keys()
    if name is None or name not in known:
        raise InputError(f"it holds elements of type {kind}, which ONNX does not have")
    return int(onnx.TensorProto.DataType.Value(name))


def _nodes(model: Any, names: _Names) -> tuple[list[onnx.NodeProto], list[onnx.ValueInfoProto]]:
    """The nodes of a model or of a body, and the types of their outputs."""
    nodes: list[onnx.NodeProto] = []
    stated: list[onnx.ValueInfoProto] = []
    for node in model.get_ordered_ops():
        kind = node.get_type_name()
        if kind in ("Constant", "Parameter", "Result"):
            continue
        if _is_stored(node) and kind != "Multiply":
            names.bind(node.output(0), node.input_value(0))
            continue
        inputs = [_input(node, index, names) for index in range(node.get_input_size())]
        if _is_stored(node):
            kind, zero_points = "DequantizeLinear", _zero_points(node.input_value(0).get_node())
            inputs += [names.of(port) for port in zero_points]
        outputs = [names.of(port) for port in node.outputs()]
        nodes += _with_bodies(node, inputs, names)
        nodes.append(_node(OPERATORS.get(kind, kind), inputs, outputs, node.get_friendly_name(), node.get_attributes()))
        stated += [names.typed(port) for port in node.outputs()]
    return nodes, stated


def _is_stored(node: Any) -> bool:
    """Whether an operation makes numbers of constants alone: it converts one, or it shifts or scales integers."""
    kind = node.get_type_name()
    if kind == "Convert":
        return bool(node.input_value(0).get_node().get_type_name() == "Constant")
    return kind in ("Subtract", "Multiply") and is_compressed(node.input_value(0).get_node()) and _is_constant(node)


def _is_constant(node: Any) -> bool:
    """Whether the second input of an operation is a constant, or a constant that is converted."""
    source = node.input_value(1).get_node()
    source = source.input_value(0).get_node() if source.get_type_name() == "Convert" else source
    return bool(source.get_type_name() == "Constant")


def _zero_points(node: Any) -> list[Any]:
    """The zero points of integers that a scale multiplies; none where there are none."""
    return [node.input_value(1)] if node.get_type_name() == "Subtract" else []


def _input(node: Any, index: int, names: _Names) -> str:
    """The name of an input; empty for the state that a recurrent layer begins with where that is a constant."""
    port = node.input_value(index)
    source, kind = port.get_node(), node.get_type_name()
    begins = source.get_type_name() == "Constant" and is_first_state(kind, index, source) and kind in FIRST_STATES
    return "" if begins else names.of(port)


def _node(
    operator: str, inputs: Iterable[str], outputs: Iterable[str], name: str, attributes: Mapping[str, Any]
) -> onnx.NodeProto:
    known = {key: value for key, value in attributes.items() if _is_plain(value)}
    return onnx.helper.make_node(operator, [*inputs], [*outputs], name=name, domain=OPENVINO, **known)


def _is_plain(value: Any) -> bool:
    """Whether a value can be an attribute in ONNX: a number, a text, or several integers."""
    return isinstance(value, int | float | str) or (
        isinstance(value, list) and bool(value) and all(isinstance(item, int) for item in value)
    )


def _with_bodies(node: Any, inputs: Sequence[str], names: _Names) -> list[onnx.NodeProto]:
    """An ONNX node that holds the bodies of an operation, as a condition or as a loop, and runs as often; or none.

    The operation itself is a node of its own, which makes the outputs.
    """
    graphs = []
    for number, body in enumerate(bodies(node)):
        carried, parameters = [], body.get_parameters()
        of_body = [number] if node.get_type_name() == "If" else []
        for link in node.get_input_descriptions(*of_body):
            port, outside = parameters[link.body_parameter_index].output(0), node.input_value(link.input_index)
            if type(link).__name__ == "InvariantInputDescription":
                names.bind(port, outside)
            else:
                carried.append((port, outside))
        nodes, stated = _nodes(body, names)
        named = {port.get_node().get_name(): outside for port, outside in carried}
        bound = {parameters[link.body_parameter_index].get_name() for link in node.get_input_descriptions(*of_body)}
        for parameter in parameters:  # the number of the iteration is bound to nothing
            name, port = parameter.get_name(), parameter.output(0)
            if name in named or name not in bound:
                read = [names.of(named[name])] if name in named else []
                nodes.insert(0, _node("Parameter", read, [names.of(port)], parameter.get_friendly_name(), {}))
                stated.append(names.typed(port))
        graphs.append((f"{node.get_friendly_name()}_{number}", nodes, stated))
    if node.get_type_name() == "If":
        branches = {}
        for key, (name, nodes, stated) in zip(("then_branch", "else_branch"), graphs, strict=True):
            end = names.unique(f"{name}_end")
            nodes.append(onnx.helper.make_node("Identity", inputs[:1], [end], name=end))
            output = names.typed(node.input_value(0), end)
            branches[key] = onnx.helper.make_graph(nodes, name, [], [output], value_info=stated)
        end = names.unique(f"{node.get_friendly_name()}_taken")
        return [onnx.helper.make_node("If", inputs[:1], [end], name=end, **branches)]
    return [_loop(node, inputs, names, *graph) for graph in graphs]


def _loop(
    node: Any,
    inputs: Sequence[str],
    names: _Names,
    name: str,
    nodes: list[onnx.NodeProto],
    stated: Sequence[onnx.ValueInfoProto],
) -> onnx.NodeProto:
    number, before, after = (names.unique(f"{name}_{what}") for what in ("number", "goes_on", "went_on"))
    value = onnx.helper.make_tensor_value_info
    ends = [value(after, onnx.TensorProto.BOOL, [])]
    begins = [value(number, onnx.TensorProto.INT64, []), value(before, onnx.TensorProto.BOOL, [])]
    nodes.append(onnx.helper.make_node("Identity", [before], [after], name=after))
    body = onnx.helper.make_graph(nodes, name, begins, ends, value_info=stated)
    limit, condition = "", inputs[1] if node.get_type_name() == "Loop" else ""
    if (trips := _trips(node)) is not None:
        limit = names.unique(f"{name}_trips")
        names.constants.append(onnx.helper.make_tensor(limit, onnx.TensorProto.INT64, [], [trips]))
    return onnx.helper.make_node("Loop", [limit, condition], [], name=name, body=body)


def _trips(node: Any) -> int | None:
    """The number of iterations of a loop; None where OpenVINO does not know it, because it depends on data."""
    trips = node.get_num_iterations()
    return trips if trips >= 0 else None
