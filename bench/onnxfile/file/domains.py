"""The values that the inputs of an ONNX file are made for, as the nodes that read an input tell them.

Random numbers that a model was not made for hide errors of a deployment: an index beyond its table, an image whose
values saturate every activation. An input's domain is told by the first nodes that compute with it: the rows of the
table that it indexes, the number that it is compared with, the scale that it is divided by.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Mapping

from bench.onnxfile.deferred import np, onnx
from bench.onnxfile.file.dtypes import is_floating
from bench.onnxfile.file.lazy import Stored
from bench.onnxfile.file.wiring import Wiring

_Domain = tuple[float, float]
"""The least and the largest value; both are allowed, and where they are equal there is one value."""
MOVES = ("Identity", "Cast", "Reshape", "Unsqueeze", "Squeeze", "Transpose", "Flatten", "Expand", "Slice", "Dropout")
"""Operators that leave the values of their first input as they are."""
COLOURS = (1, 3, 4)
_BYTE = 255.0
_LEAST_SCALE = 50.0
"""Images that are divided by more hold bytes."""
_LIMITS = {0.0: {"min", "minimum", "fmin", "low", "lower"}, 1e4: {"max", "maximum", "fmax", "high", "upper"}}
"""Limits by the words of an input's name: the upper is one for frequencies in Hz, too."""
_MOST_ELEMENTS = 16
"""Elements of a weight that is taken for a constant, such as one for each colour."""


def domains(stored: Stored) -> dict[str, _Domain]:
    """The domain of each input of which the file tells one, by the input's name."""
    wiring = Wiring(stored)
    input_domains = {}
    for name, value in wiring.inputs.items():
        if value.type.WhichOneof("value") != "tensor_type":
            continue
        domain = next(_told(wiring, name, value.type.tensor_type), None) or _named(name, value.type.tensor_type)
        if domain is not None:
            input_domains[name] = domain
    return input_domains


def numbers(stored: Stored) -> dict[str, float]:
    """The one value of each input whose domain has no other, by the input's name."""
    return {name: low for name, (low, high) in domains(stored).items() if low == high}


def _named(name: str, kind: onnx.TypeProto.Tensor) -> _Domain | None:
    """The domain that the name of an input tells: a mask that masks nothing, and limits that leave much between."""
    if re.search(r"mask", name, re.IGNORECASE):
        return (1.0, 1.0)
    if is_floating(kind.elem_type) and math.prod(dim.dim_value for dim in kind.shape.dim) == 1:
        words = re.findall("[a-z]+", name.lower())
        for limit, said in _LIMITS.items():
            if not said.isdisjoint(words):
                return (limit, limit)
    return None


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Use:
    """A node that reads an input of the model.

    Attributes:
        wiring: the model.
        node: the node.
        position: of the input among those of the node.
        is_choice: whether the model's input is one number that is no floating-point number, such as a rate.
        is_image: whether it has the shape of images.
    """

    wiring: Wiring
    node: onnx.NodeProto
    position: int
    is_choice: bool
    is_image: bool

    def weight(self, position: int) -> onnx.TensorProto | None:
        """The weight that the node reads at a position; None for any other tensor and for a sparse weight."""
        tensor = self.wiring.weights.get(self.node.input[position]) if position < len(self.node.input) else None
        return tensor if isinstance(tensor, onnx.TensorProto) else None

    def constant(self, position: int) -> np.ndarray | None:
        """The elements of a small weight that the node reads at a position."""
        tensor = self.weight(position)
        if tensor is None or math.prod(tensor.dims) > _MOST_ELEMENTS or not self.wiring.stored.has(tensor):
            return None
        return np.asarray(self.wiring.stored.array(tensor))

    @property
    def operand(self) -> np.ndarray | None:
        """The elements of the small weight that a node with two inputs reads beside this one."""
        return self.constant(1 - self.position) if len(self.node.input) == 2 else None


def _told(wiring: Wiring, name: str, kind: onnx.TypeProto.Tensor) -> Iterator[_Domain]:
    """The domains that the nodes tell which read an input, directly or moved, nearest first."""
    sizes = [dim.dim_value for dim in kind.shape.dim]
    is_image = len(sizes) == 4 and (sizes[1] in COLOURS or sizes[3] in COLOURS)
    pending, seen = [name], {name}
    while pending:
        for index, position in wiring.readers.get(pending.pop(0), ()):
            node = wiring.nodes[index]
            use = _Use(
                wiring=wiring,
                node=node,
                position=position,
                is_choice=math.prod(sizes) == 1 and not is_floating(kind.elem_type),
                is_image=is_image,
            )
            rule = RULES.get(node.op_type) if node.domain in ("", "ai.onnx") else None
            if rule is not None and (domain := rule(use)) is not None and all(map(math.isfinite, domain)):
                yield domain
            moved = node.output[:1] if node.op_type in MOVES and position == 0 else ()  # it may make nothing
            pending += [name for name in moved if name not in seen]
            seen.update(moved)


def _of_table(use: _Use) -> _Domain | None:
    table = use.weight(0)
    if use.position != 1 or table is None:
        return None
    axis = next((attribute.i for attribute in use.node.attribute if attribute.name == "axis"), 0)
    return (0.0, float(table.dims[axis] - 1)) if -len(table.dims) <= axis < len(table.dims) else None


def _of_comparison(use: _Use) -> _Domain | None:
    number = use.operand
    if number is None or number.size != 1 or not use.is_choice:  # tokens are compared with the one that pads
        return None
    return (float(number.item()), float(number.item()))


def _of_difference(use: _Use) -> _Domain | None:
    number = use.operand
    if number is None or not (number > 0).all():
        return None
    if use.position == 1 and number.size == 1 and number.item() == 1:  # 1 - mask
        return (1.0, 1.0)
    return (0.0, _BYTE if number.max() > 1 else 1.0) if use.is_image and use.position == 0 else None


def _of_quotient(use: _Use) -> _Domain | None:
    number = use.operand
    is_scale = number is not None and use.is_image and use.position == 0 and (number > _LEAST_SCALE).all()
    return (0.0, _BYTE) if is_scale else None


def _of_product(use: _Use) -> _Domain | None:
    number = use.operand
    is_scale = number is not None and use.is_image and (number > 0).all() and (number < 1 / _LEAST_SCALE).all()
    return (0.0, _BYTE) if is_scale else None


def _of_quantization(use: _Use) -> _Domain | None:
    scale, zero = use.constant(1), use.constant(2)
    if use.position != 0 or scale is None or zero is None or scale.size != 1 or zero.dtype not in (np.int8, np.uint8):
        return None
    levels = np.iinfo(zero.dtype)
    low, high = (float(scale.item()) * (level - float(zero.item())) for level in (levels.min, levels.max))
    return (low, high)


def _of_sizes(use: _Use) -> _Domain | None:
    """Sizes that the model is told: one repetition, one element, a shape that leaves the other operand as it is."""
    return (1.0, 1.0) if use.position == _SIZES[use.node.op_type] else None


_SIZES = {"ConstantOfShape": 0, "Expand": 1, "Tile": 1, "TopK": 1}
"""The positions of inputs that hold sizes."""
RULES: Mapping[str, Callable[[_Use], _Domain | None]] = {
    "Gather": _of_table,
    "Equal": _of_comparison,
    "Sub": _of_difference,
    "Div": _of_quotient,
    "Mul": _of_product,
    "QuantizeLinear": _of_quantization,
    **dict.fromkeys(_SIZES, _of_sizes),
}
