"""The parameters that an OpenVINO model stores, those in the bodies of loops included, counted by the rule for ONNX."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from bench.onnxfile.deferred import np
from bench.onnxfile.shapes.node import Node, Value
from bench.onnxfile.weights import parameter_counts
from bench.onnxfile.weights.parameter_counts import Counted

OPERATORS = {
    "BatchNormInference": "BatchNormalization",
    "Broadcast": "Expand",
    "Ceiling": "Ceil",
    "Clamp": "Clip",
    "Convert": "Cast",
    "ConvertLike": "CastLike",
    "Convolution": "Conv",
    "ConvolutionBackpropData": "ConvTranspose",
    "Divide": "Div",
    "FloorMod": "Mod",
    "GreaterEqual": "GreaterOrEqual",
    "GroupConvolution": "Conv",
    "GroupConvolutionBackpropData": "ConvTranspose",
    "HSigmoid": "HardSigmoid",
    "HSwish": "HardSwish",
    "Interpolate": "Resize",
    "LessEqual": "LessOrEqual",
    "LogicalAnd": "And",
    "LogicalNot": "Not",
    "LogicalOr": "Or",
    "LogicalXor": "Xor",
    "MVN": "MeanVarianceNormalization",
    "Maximum": "Max",
    "Minimum": "Min",
    "Multiply": "Mul",
    "Negative": "Neg",
    "NormalizeL2": "LpNormalization",
    "NotEqual": "Equal",
    "PRelu": "Mul",  # mostly a leaky rectifier, whose slope is a single number
    "Power": "Pow",
    "RMS": "RMSNormalization",
    "ScatterElementsUpdate": "ScatterElements",
    "ScatterNDUpdate": "ScatterND",
    "ScatterUpdate": "Scatter",
    "Select": "Where",
    "ShapeOf": "Shape",
    "SoftMax": "Softmax",
    "SoftPlus": "Softplus",
    "SoftSign": "Softsign",
    "Subtract": "Sub",
    "VariadicSplit": "Split",
}
"""ONNX's names of the operators that have another one there."""
_TYPES = {"f32": "float", "f16": "float16", "bf16": "bfloat16", "f64": "double", "i32": "int32"}
_QUANTIZED = frozenset({"i8", "u8", "i4", "u4", "i16", "u16", "u2", "u3", "u6", "nf4", "f4e2m1", "f8e4m3", "f8e5m2"})
"""Element types that weights are compressed to."""
FIRST_STATES = {"GRUSequence": (1,), "LSTMSequence": (1, 2), "RNNSequence": (1,)}
"""Inputs of recurrent layers that are the states they begin with."""
_LOOPS = ("Loop", "TensorIterator")


def of_model(model: Any) -> Counted:
    """The parameters of an `openvino.Model`; numbers that several constants share in memory count once."""
    return _Model(model).counted()


class _Model:
    def __init__(self, model: Any) -> None:
        self._model = model
        self._values: dict[tuple[int, str], Value] = {}
        self._arrays: dict[int, tuple[str, Any]] = {}

    def counted(self) -> Counted:
        return parameter_counts.count(list(self._nodes(self._model, "")), self._arrays)

    def _nodes(self, model: Any, path: str) -> Iterator[Node]:
        """The operations of a model with its bodies; each body comes after the operation that holds it."""
        operations = model.get_ordered_ops()
        scales = _scales(operations)
        for node in operations:
            kind = node.get_type_name()
            if kind in ("Constant", "Parameter"):
                continue
            inputs = []
            for position in range(node.get_input_size()):
                port = node.input_value(position)
                constant = port.get_node()
                name = f"{path}{constant.get_friendly_name()}:{port.get_index()}"
                is_stored = constant.get_type_name() == "Constant" and constant.get_friendly_name() not in scales
                inputs.append((name, self._stored(constant, kind, position) if is_stored else None))
            outputs = [f"{path}{node.get_friendly_name()}:{index}" for index in range(node.get_output_size())]
            yield parameter_counts.node(OPERATORS.get(kind, kind), inputs, outputs)
            for number, body in enumerate(bodies(node)):
                yield from self._nodes(body, f"{path}{node.get_friendly_name()}:{number}/")

    def _stored(self, constant: Any, kind: str, position: int) -> Value | None:
        """The value of a constant that may hold parameters; None for one that holds other numbers."""
        type_ = constant.get_element_type().get_type_name()
        shape = [int(size) for size in constant.get_output_shape(0)]
        dtype = "int8" if type_ in _QUANTIZED and len(shape) > 1 else _TYPES.get(type_)
        if dtype is None or not np.prod(shape):
            return None
        array = constant.data
        if is_first_state(kind, position, constant):
            return None
        key = (array.__array_interface__["data"][0], str(shape))
        if key not in self._values:
            value = self._values[key] = parameter_counts.stored(dtype, shape)
            self._arrays[id(value)] = (constant.get_friendly_name(), functools.partial(getattr, constant, "data"))
        return self._values[key]


def is_first_state(kind: str, position: int, constant: Any) -> bool:
    """Whether a constant is the state that a loop or a recurrent layer begins with: one number, many times."""
    array = constant.data
    begins = kind in _LOOPS or position in FIRST_STATES.get(kind, ())
    return begins and bool(array.size) and bool((array == array.reshape(-1)[0]).all())


def bodies(node: Any) -> list[Any]:
    """The models in an operation: the branches of a condition, or the body of a loop."""
    if node.get_type_name() == "If":
        return [node.get_function(0), node.get_function(1)]
    return [node.get_function()] if node.get_type_name() in _LOOPS else []


def _scales(operations: list[Any]) -> set[str]:
    """Names of the constants by which numbers of few bits become floats: scales and zero points."""
    names: set[str] = set()
    for node in operations:
        if node.get_type_name() in ("Multiply", "Subtract") and is_compressed(node.input_value(0).get_node()):
            behind = node.input_value(1).get_node()
            while behind.get_type_name() in ("Convert", "Reshape", "Broadcast"):
                behind = behind.input_value(0).get_node()
            names |= {behind.get_friendly_name()} if behind.get_type_name() == "Constant" else set()
    return names


def is_compressed(node: Any) -> bool:
    """Whether a value is made of stored numbers of few bits alone."""
    while node.get_type_name() in ("Convert", "Subtract", "Reshape"):
        node = node.input_value(0).get_node()
    return node.get_type_name() == "Constant" and node.get_element_type().get_type_name() in _QUANTIZED
