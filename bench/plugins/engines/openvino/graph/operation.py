"""An operation of an OpenVINO model, as the rules of translation receive it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench.graphs.deferred import np, onnx
from bench.graphs.operators import Rules
from bench.plugins.engines.openvino.graph.onnx_graph import Graph, Port


class UntranslatableError(Exception):
    """ONNX has no operator for an operation."""


RULES: Rules[Callable[[Operation], None]] = Rules()
"""Rules by the types of operations, in the empty domain."""
rule = RULES.rule


class Operation:
    """An operation, whose ONNX nodes a rule makes.

    Attributes:
        kind: type of the operation, such as `Convolution`.
        nodes: the ONNX nodes so far.
    """

    def __init__(self, graph: Graph, node: Any) -> None:
        self.graph = graph
        self.node = node
        self.kind: str = node.get_type_name()
        self.attributes: dict[str, Any] = node.get_attributes()
        self.nodes: list[onnx.NodeProto] = []

    def has(self, index: int) -> bool:
        return index < int(self.node.get_input_size())

    def x(self, index: int = 0) -> str:
        """Name of an input in ONNX."""
        return self.graph.value(self.node.input_value(index))

    def all(self) -> list[str]:
        return [self.x(index) for index in range(self.node.get_input_size())]

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """Shape of an input. Raises `UntranslatableError` where a size is not known."""
        return fixed(self.node.input_value(index))

    def rank(self, index: int = 0) -> int:
        """Number of axes of an input. Raises `UntranslatableError` where it is not known."""
        shape = self.node.input_value(index).get_partial_shape()
        if shape.rank.is_dynamic:
            raise UntranslatableError
        return int(shape.rank.get_length())

    def out(self, index: int = 0) -> tuple[int, ...]:
        """Shape of an output. Raises `UntranslatableError` where a size is not known."""
        return fixed(self.node.output(index))

    def array(self, index: int) -> np.ndarray:
        """Elements of a constant input. Raises `UntranslatableError` for an input that is no constant."""
        node = self.node.input_value(index).get_node()
        if node.get_type_name() == "Convert":
            node = node.input_value(0).get_node()
        if node.get_type_name() != "Constant":
            raise UntranslatableError
        return np.asarray(node.data)

    def integers(self, index: int) -> list[int]:
        """Elements of a constant input of integers."""
        return [int(item) for item in self.array(index).reshape(-1)]

    def number(self, index: int) -> float:
        """The only element of a constant input. Raises `UntranslatableError` if there are several."""
        array = self.array(index)
        if array.size != 1:
            raise UntranslatableError
        return float(array.reshape(-1)[0])

    def constant(self, values: Any, dtype: str = "int64") -> str:
        """Name of a new constant."""
        return self.graph.constant(f"{self.node.get_friendly_name()}_constant", np.asarray(values, dtype))

    def indices(self, index: int) -> str:
        """Name of an input of integers as int64 with one axis, as ONNX takes axes and sizes."""
        try:
            return self.constant(self.integers(index))
        except UntranslatableError:
            name = self.positions(index)
            return name if self.rank(index) == 1 else self.make("Reshape", name, self.constant([-1]))

    def positions(self, index: int) -> str:
        """Name of an input of integers as int64, in its shape."""
        name = self.x(index)
        if self.node.input_value(index).get_element_type().to_string() != "i64":
            name = self.make("Cast", name, to=onnx.TensorProto.INT64)
        return name

    def shaped(self, index: int, dims: Sequence[int]) -> str:
        """Name of an input in another shape."""
        return self.constant_as(self.node.input_value(index), dims)

    def constant_as(self, port: Port, dims: Sequence[int]) -> str:
        """Name of a value in another shape; a constant is stored in that shape, one of a single element repeated."""
        if list(fixed(port)) == list(dims):
            return self.graph.value(port)
        name = self.graph.shaped(port, dims)
        return name if name is not None else self.make("Reshape", self.graph.value(port), self.constant(dims))

    def make(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node before the last; return the name of its only output."""
        name = self.graph.unique(f"{self.node.get_friendly_name()}_{operator}")
        self.nodes.append(onnx.helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def result(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> None:
        """Add the node that makes the operation's outputs."""
        outputs = [self.graph.made(port) for port in self.node.outputs()]
        self.ends(operator, inputs, outputs, domain=domain, **attributes)

    def ends(self, operator: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> None:
        """Add a node with the name of the operation."""
        name = self.node.get_friendly_name()
        self.nodes.append(onnx.helper.make_node(operator, inputs, outputs, name=name, **attributes))

    def output(self, index: int = 0) -> str:
        """Give an output its name in ONNX."""
        return self.graph.made(self.node.output(index))

    def is_read(self, index: int) -> bool:
        """Whether anything reads an output."""
        return bool(self.node.output(index).get_target_inputs())


def fixed(port: Port) -> tuple[int, ...]:
    """The shape of a value. Raises `UntranslatableError` where a size is not known."""
    shape = port.get_partial_shape()
    if shape.is_dynamic:
        raise UntranslatableError
    return tuple(dim.get_length() for dim in shape)
