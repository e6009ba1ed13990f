"""The ONNX graph that is written of an OpenVINO model: its values, nodes and constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, TypeAlias

from bench.api.errors import InputError
from bench.graphs.deferred import np, onnx
from bench.graphs.file.dtypes import bits

Port: TypeAlias = Any
"""An `openvino.Output`: an output of an operation."""
WEIGHTS = "weights.bin"
"""Name of the file beside the ONNX file that holds the larger constants."""
INLINE_BYTES = 4096
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


class Constants:
    """The constants of a model and of its subgraphs, as tensors of one ONNX graph.

    Attributes:
        tensors: those that were asked for.
        taken: names of tensors and values of the ONNX file.
        node_names: names of its nodes.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.tensors: list[onnx.TensorProto] = []
        self.taken: set[str] = set()
        self.node_names: set[str] = set()
        self._file = file
        self._widened: dict[str, str] = {}

    def unique(self, name: str, taken: set[str] | None = None) -> str:
        """The name, or the name and a number if it is taken among values, or among the names of `taken`."""
        taken = self.taken if taken is None else taken
        found, number = name, 0
        while found in taken:
            number += 1
            found = f"{name}_{number}"
        taken.add(found)
        return found

    def put(self, name: str, dtype: int, dims: Sequence[int], content: bytes) -> str:
        """Add a tensor and return its name."""
        tensor = onnx.TensorProto(name=self.unique(name), data_type=dtype, dims=dims)
        if len(content) <= INLINE_BYTES:
            tensor.raw_data = content
        else:
            tensor.data_location = onnx.TensorProto.EXTERNAL
            place = {"location": WEIGHTS, "offset": self._file.tell(), "length": self._file.write(content)}
            for key, value in place.items():
                tensor.external_data.add(key=key, value=str(value))
        self.tensors.append(tensor)
        return tensor.name

    def widened(self, name: str, before: str, after: str) -> None:
        """Note that a weight is stored in one type and computed with in another."""
        self._widened[name] = f"{before}, and counted as {after}"

    def notes(self) -> list[str]:
        kinds = sorted(set(self._widened.values()))
        counts = [sum(kind == each for each in self._widened.values()) for kind in kinds]
        return [
            f"weights that are stored as {kind}, to which OpenVINO converts them when it loads the model: {count}"
            for kind, count in zip(kinds, counts, strict=True)
        ]


class Graph:
    """An ONNX graph that is being written, of a model or of the body of an operation.

    Attributes:
        nodes: in order.
        stated: types of the outputs of operations that ONNX does not have.
        bodies: the graphs of bodies of its operations.

    Args:
        constants: of the whole model.
        add: adds the operations of a model to a graph.
        outer: the graph around that of a body.
    """

    def __init__(self, constants: Constants, add: Callable[[Graph, Any], None], outer: Graph | None = None) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.stated: list[onnx.ValueInfoProto] = []
        self.bodies: list[Graph] = []
        self._constants = constants
        self._add = add
        self._outputs: set[str] = set()
        self._names: dict[tuple[str, int], str] = {} if outer is None else outer._names
        if outer is not None:
            outer.bodies.append(self)

    def inner(self) -> Graph:
        """A graph that reads the values of this one: that of a body of an operation."""
        return Graph(self._constants, self._add, self)

    def proto(
        self, name: str, inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[onnx.ValueInfoProto]
    ) -> onnx.GraphProto:
        """The graph with these inputs and outputs, without constants."""
        return onnx.helper.make_graph(self.nodes, name, inputs, outputs, value_info=self.stated)

    def all_nodes(self) -> list[onnx.NodeProto]:
        return [*self.nodes, *(node for body in self.bodies for node in body.all_nodes())]

    def unique(self, name: str) -> str:
        """A name that nothing has."""
        return self._constants.unique(name)

    def bind(self, port: Port, name: str) -> None:
        """Let an output of an operation have the name of another value."""
        self._names[_key(port)] = name

    def is_named(self, port: Port) -> bool:
        """Whether an output of an operation has a name in ONNX."""
        return _key(port) in self._names

    def add(self, model: Any) -> None:
        """Add the operations of a model; its inputs get names unless they are bound."""
        self._add(self, model)

    def extend(self, nodes: Sequence[onnx.NodeProto]) -> None:
        """Add nodes, under names that no other node of the file has."""
        for node in nodes:
            node.name = self._constants.unique(node.name, self._constants.node_names)
        self.nodes += nodes

    def state(self, port: Port) -> None:
        """Write down the type of an output, for readers who cannot infer it."""
        self.stated.append(self.typed(port))

    def typed(self, port: Port) -> onnx.ValueInfoProto:
        """The type of an output of an operation, under its name in ONNX."""
        shape = port.get_partial_shape()
        sizes = None
        if shape.rank.is_static:
            sizes = [dim.get_length() if dim.is_static else None for dim in shape]
        return onnx.helper.make_tensor_value_info(self.value(port), self.dtype(port), sizes)

    def ended(self, result: Any) -> onnx.ValueInfoProto:
        """The type of the value that becomes an output of the graph for a Result of the model."""
        port = result.input(0).get_source_output()
        name = self.value(port)
        if name in self._outputs or not any(name in node.output for node in self.nodes):
            name = self.unique(min(result.output(0).get_names(), default=f"{name}_output"))
            self.nodes.append(onnx.helper.make_node("Identity", [self.value(port)], [name], name=name))
        self._outputs.add(name)
        typed = self.typed(port)
        typed.name = name
        return typed

    def dtype(self, port: Port) -> int:
        """The element type as a number of `onnx.TensorProto.DataType`."""
        kind = port.get_element_type().to_string()
        name = "UNDEFINED" if kind == "dynamic" else DTYPES.get(kind)
        known: Sequence[str] = onnx.TensorProto.DataType.keys()
        if name is None or name not in known:
            raise InputError(f"it holds elements of type {kind}, which ONNX does not have")
        return int(onnx.TensorProto.DataType.Value(name))

    def made(self, port: Port) -> str:
        """Give an output of an operation a name in ONNX."""
        node = port.get_node()
        own = node.get_friendly_name()
        if node.get_output_size() > 1:
            own = f"{own}.{port.get_index()}"
        name = self.unique(min(port.get_names(), default=own))
        self.bind(port, name)
        return name

    def value(self, port: Port) -> str:
        """The name in ONNX of an output of an operation; a constant is written when its name is first asked for."""
        key = _key(port)
        if key not in self._names:
            node = port.get_node()
            if node.get_type_name() == "Convert":  # of a constant: OpenVINO computes it when it loads the model
                self._names[key] = self._converted(node)
            else:
                assert node.get_type_name() == "Constant", node
                if port.get_element_type().to_string() == "string":
                    raise InputError(
                        f"constant {own_name(node)!r} holds strings; only constants of numbers can be read"
                    )
                content = node.data.tobytes()[: node.get_byte_size()]
                self._names[key] = self._constants.put(own_name(node), self.dtype(port), node.shape, content)
        return self._names[key]

    def _converted(self, node: Any) -> str:
        constant = node.input_value(0).get_node()
        before, after = (port.get_element_type().to_string() for port in (node.input_value(0), node.output(0)))
        stored, wanted = (self.dtype(port) for port in (node.input_value(0), node.output(0)))
        array = constant.data.view(onnx.helper.tensor_dtype_to_np_dtype(stored))
        content = array.astype(onnx.helper.tensor_dtype_to_np_dtype(wanted)).tobytes()
        name = self._constants.put(own_name(node), wanted, constant.shape, content)
        if constant.shape:
            self._constants.widened(name, before, after)
        return name

    def shaped(self, port: Port, dims: Sequence[int]) -> str | None:
        """The name of a constant in another shape; None for a value that is no constant."""
        node = port.get_node()
        if not (node.get_type_name() == "Constant" or is_folded(node)):
            return None
        name = self.value(port)
        tensor = next(tensor for tensor in self._constants.tensors if tensor.name == name)
        if list(tensor.dims) == list(dims):
            return name
        if math.prod(node.shape) == 1:
            content = _repeated(tensor.raw_data, math.prod(dims), bits(tensor.data_type))
            return self._constants.put(f"{name}_{'x'.join(map(str, dims))}", tensor.data_type, dims, content)
        assert math.prod(dims) == math.prod(node.shape)
        copy = onnx.TensorProto()
        copy.CopyFrom(tensor)
        copy.name = self.unique(f"{name}_{'x'.join(map(str, dims))}")
        del copy.dims[:]
        copy.dims.extend(dims)
        self._constants.tensors.append(copy)
        return copy.name

    def constant(self, name: str, array: np.ndarray) -> str:
        """Write a constant and return its name."""
        dtype = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        return self._constants.put(name, dtype, array.shape, array.tobytes())


def _repeated(content: bytes, times: int, width: int) -> bytes:
    """The bytes of a tensor that holds one element, of `width` bits, so many times."""
    if width >= 8:
        return content * times
    element = content[0] & (1 << width) - 1
    byte = sum(element << shift for shift in range(0, 8, width))
    return bytes([byte]) * -(-times * width // 8)


def own_name(node: Any) -> str:
    """The name of a constant: that of its tensor, or of the operation."""
    return str(min(node.output(0).get_names(), default=node.get_friendly_name()))


def _key(port: Port) -> tuple[str, int]:
    return port.get_node().get_name(), port.get_index()


def is_folded(node: Any) -> bool:
    """Whether an operation converts a constant from one floating-point type to another."""
    if node.get_type_name() != "Convert" or node.input_value(0).get_node().get_type_name() != "Constant":
        return False
    return bool(node.get_element_type().is_real() and node.input_value(0).get_element_type().is_real())
