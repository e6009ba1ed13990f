"""A node of a graph and the values that it reads and makes, as the rules for shapes and for work receive them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

from bench.api.errors import InputError
from bench.onnxfile.deferred import np, onnx
from bench.onnxfile.file.dtypes import bits, is_number
from bench.onnxfile.file.lazy import Stored
from bench.onnxfile.shapes.dims import Dim, Shape, Size, symbol

FLOAT, INT32, INT64, BOOL = 1, 6, 7, 9  # of onnx.TensorProto.DataType
_MOST_TYPES = 1 << 31
"""Numbers of element types: the field of a model that states them has 32 bits, and a sign."""
MAX_ELEMENTS = 1024
"""Elements of larger values are not computed, because shapes do not depend on them."""

Property = TypeVar("Property")


class UnknownError(Exception):
    """A rule needs a shape or elements that are not known."""


class ShapeError(InputError):
    """The shapes of a node's inputs do not fit each other."""


def known(property_: Property | None) -> Property:
    """Return a property of a value unchanged. Raises `UnknownError` if it is None, which means unknown."""
    if property_ is None:
        raise UnknownError
    return property_


class Value:
    """An input or output of a node, as far as it is known without running the model.

    Attributes:
        dtype: the element type as a number of `onnx.TensorProto.DataType`; 0 where it is not known.
        shape: None where not even the number of axes is known.
        numbers: the shape if all sizes are known in numbers, else None.
        proto: the type of a value that is no tensor, such as a sequence; None for a tensor.
        tensor: the stored tensor; None for a value that is not stored.
        stored: the model that the tensor belongs to; None for a value that is not stored.
        is_weight: whether the value is stored or generated.
        generated: whether a ConstantOfShape makes the value of a stored shape, in the place of stored weights.
    """

    __slots__ = (
        "_bytes",
        "_elements",
        "dtype",
        "generated",
        "is_weight",
        "numbers",
        "proto",
        "shape",
        "stored",
        "tensor",
    )

    def __init__(
        self,
        dtype: int,
        shape: Sequence[Size] | None,
        elements: Any = None,
        *,
        proto: onnx.TypeProto | None = None,
        tensor: onnx.TensorProto | None = None,
        stored: Stored | None = None,
    ) -> None:
        self.dtype = dtype if 0 <= dtype < _MOST_TYPES else 0  # an attribute may state any integer of 64 bits
        self.shape: Shape | None = None if shape is None else tuple(shape)
        self.numbers: tuple[int, ...] | None = None
        if self.shape is not None and (tensor is not None or Dim not in map(type, self.shape)):
            self.numbers = self.shape  # type: ignore[assignment]
        self._elements: np.ndarray | None = elements
        self.proto = proto
        self.tensor = tensor
        self.stored = stored
        self.is_weight = stored is not None
        self.generated = False
        self._bytes: int | None = None

    @property
    def bytes(self) -> int:
        """Size of the elements, packed as the type allows; 0 where the shape is not known."""
        if self._bytes is None:
            size = 0 if self.numbers is None else math.prod(self.numbers)
            self._bytes = -(-size * bits(self.dtype) // 8)
        return self._bytes

    @property
    def elements(self) -> np.ndarray | None:
        """An object array of Python numbers and `Dim`s; None if an element is not known, or there are too many."""
        if self._elements is None and self.tensor is not None:
            assert self.stored is not None
            assert self.numbers is not None
            is_small = math.prod(self.numbers) <= MAX_ELEMENTS and is_number(self.dtype)
            if is_small and self.stored.has(self.tensor):
                self._elements = self.stored.array(self.tensor).astype(object)
        return self._elements

    @property
    def is_static(self) -> bool:
        """Whether the shape is known in numbers."""
        return self.numbers is not None


class Node:
    """A node with its attributes, its inputs and, once they are inferred, its outputs.

    Attributes:
        reads: names of its inputs; empty for an input that is left out.
        makes: names of its outputs.
        version: of its operator set.
        path: of the subgraph that holds the node; empty in the main graph.
    """

    __slots__ = (
        "_attributes",
        "domain",
        "inputs",
        "makes",
        "name",
        "op_type",
        "outputs",
        "path",
        "proto",
        "reads",
        "version",
    )

    def __init__(
        self,
        proto: onnx.NodeProto,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value | None] = (),
        *,
        version: int = 0,
        path: str = "",
    ) -> None:
        self.proto = proto
        self.name: str = proto.name
        self.op_type: str = proto.op_type
        domain = proto.domain
        self.domain: str = "" if domain == "ai.onnx" else domain
        self.reads: tuple[str, ...] = tuple(proto.input[:])  # a slice is read at once, an iterator item by item
        self.makes: tuple[str, ...] = tuple(proto.output[:])
        self.inputs = inputs
        self.outputs = outputs
        self.version = version
        self.path = path
        self._attributes: dict[str, onnx.AttributeProto] | None = None

    @property
    def attributes(self) -> dict[str, onnx.AttributeProto]:
        """The attributes by name."""
        if self._attributes is None:
            self._attributes = {attribute.name: attribute for attribute in self.proto.attribute[:]}
        return self._attributes

    @property
    def what(self) -> str:
        """The name and the operator of the node, as messages write them."""
        return f"node {self.name!r} ({self.op_type})"

    def has(self, index: int) -> bool:
        """Whether the node has an input at position `index`."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def input(self, index: int = 0) -> Value:
        """The value of an input. Raises `UnknownError` where it is left out."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            raise UnknownError
        return value

    def shape(self, index: int = 0) -> Any:
        """Shape of an input. Raises `UnknownError` where it is not known."""
        shape = self.input(index).shape
        if shape is None:
            raise UnknownError
        return shape

    def out(self, index: int = 0) -> Any:
        """Shape of an output. Raises `UnknownError` where it is not known."""
        value = self.outputs[index] if index < len(self.outputs) else None
        if value is None or value.shape is None:
            raise UnknownError
        return value.shape

    def items(self, index: int) -> list[Any]:
        """Elements of an input of at most one axis. Raises `UnknownError` where they are not known."""
        return known(self.input(index).elements).reshape(-1).tolist()

    def number(self, index: int) -> Any:
        """The only element of an input. Raises `ShapeError` if there are several."""
        elements = self.items(index)
        if len(elements) != 1:
            raise ShapeError(f"{self.what} takes one number as its input {index}; it is given {len(elements)}")
        return elements[0]

    def integer(self, name: str, default: int = 0) -> int:
        attribute = self.attributes.get(name)
        return default if attribute is None else attribute.i

    def floating(self, name: str, default: float = 0.0) -> float:
        return float(self.attributes[name].f) if name in self.attributes else default

    def integers(self, name: str) -> list[int] | None:
        attribute = self.attributes.get(name)
        return None if attribute is None else attribute.ints[:]

    def numbers(self, name: str) -> list[Any]:
        """The integers or the floats of an attribute; empty if it is unset."""
        attribute = self.attributes.get(name)
        return [] if attribute is None else attribute.ints[:] or attribute.floats[:]

    def static_integers(self, name: str, index: int, *, since: int) -> Any:
        """Integers that are an attribute before version `since` of the operator set, and an input since; None if unset.

        Raises `UnknownError` if the elements of the input are not known.
        """
        if self.version < since:
            return self.integers(name)
        return self.items(index) if self.has(index) else None

    def text(self, name: str, default: str = "") -> str:
        return self.attributes[name].s.decode(errors="replace") if name in self.attributes else default

    def axis(self, rank: int, default: int, name: str = "axis") -> int:
        return self.checked_axis(self.integer(name, default), rank)

    def checked_axis(self, axis: int, rank: int) -> int:
        """An axis counted from the front. Raises `ShapeError` if there is no such axis."""
        if not -rank <= axis < max(rank, 1):
            raise ShapeError(f"{self.what} takes axis {axis} of a tensor with {rank} axes")
        return axis + rank if axis < 0 else axis

    def fresh(self, index: int, axis: int) -> Size:
        """A new symbol for the size of an axis of an output that depends on data."""
        name = self.makes[index] if index < len(self.makes) else f"{self.name}_{index}"
        return symbol(f"{self.path}:{name}[{axis}]" if self.path else f"{name}[{axis}]", is_free=False)


def stored_value(tensor: onnx.TensorProto | onnx.SparseTensorProto, stored: Stored) -> Value:
    """The value of a tensor that is stored in a model's file or beside it."""
    if isinstance(tensor, onnx.SparseTensorProto):
        return Value(tensor.values.data_type, tensor.dims, stored=stored)
    return Value(tensor.data_type, tensor.dims, tensor=tensor, stored=stored)
