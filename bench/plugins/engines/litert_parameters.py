"""The parameters that a TFLite file stores, those in the bodies of its loops included, counted by the rule for ONNX.

Source: TFLite's `schema.fbs`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.onnxfile.deferred import np
from bench.onnxfile.shapes.node import Node, Value
from bench.onnxfile.weights import parameter_counts
from bench.onnxfile.weights.parameter_counts import Counted

OPERATORS = {
    "ADD": "Add",
    "BATCH_MATMUL": "MatMul",
    "BROADCAST_TO": "Expand",
    "CAST": "Cast",
    "CONCATENATION": "Concat",
    "CONV_2D": "Conv",
    "CONV_3D": "Conv",
    "COS": "Cos",
    "DENSIFY": "Identity",
    "DEPTHWISE_CONV_2D": "Conv",
    "DEQUANTIZE": "Cast",
    "DIV": "Div",
    "EQUAL": "Equal",
    "EXPAND_DIMS": "Unsqueeze",
    "FULLY_CONNECTED": "Gemm",
    "GREATER": "Greater",
    "GREATER_EQUAL": "GreaterOrEqual",
    "LESS": "Less",
    "LESS_EQUAL": "LessOrEqual",
    "MAXIMUM": "Max",
    "MINIMUM": "Min",
    "MUL": "Mul",
    "POW": "Pow",
    "QUANTIZE": "Cast",
    "RESHAPE": "Reshape",
    "SELECT": "Where",
    "SELECT_V2": "Where",
    "SIN": "Sin",
    "SQUARED_DIFFERENCE": "Sub",
    "SQUEEZE": "Squeeze",
    "SUB": "Sub",
    "TRANSPOSE": "Transpose",
    "TRANSPOSE_CONV": "Conv",
    "WHILE": "Loop",
}
"""ONNX's names of the operators that the rule treats in a way of their own."""
_BIASES = {"CONV_2D": 2, "CONV_3D": 2, "DEPTHWISE_CONV_2D": 2, "FULLY_CONNECTED": 2, "TRANSPOSE_CONV": 3}
"""The input of each operator that is a bias, of which quantization makes integers of 32 bits."""
_TYPES = {"FLOAT32": "float", "FLOAT16": "float16", "FLOAT64": "double", "BFLOAT16": "bfloat16"}
_QUANTIZED = ("INT8", "UINT8", "INT4", "INT2", "UINT4", "INT16")
_ARRAYS = {"FLOAT32": "f4", "FLOAT16": "f2", "FLOAT64": "f8", "INT8": "i1", "UINT8": "u1", "INT16": "i2"}
"""NumPy's names of the types; elements of other types are read as the bytes that hold them."""


def of_file(path: Path) -> Counted:
    """The parameters of a TFLite file; a buffer that several tensors share counts once."""
    from ai_edge_litert import schema_py_generated as schema

    content = path.read_bytes()
    return _File(schema, schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0)), content).counted()


class _File:
    def __init__(self, schema: Any, model: Any, content: bytes) -> None:
        self._model, self._content = model, content
        self._operators = {value: name for name, value in vars(schema.BuiltinOperator).items() if name[0] != "_"}
        self._types = {value: name for name, value in vars(schema.TensorType).items() if name[0] != "_"}
        self._values: dict[int, Value] = {}
        self._arrays: dict[int, tuple[str, Any]] = {}

    def counted(self) -> Counted:
        return parameter_counts.count(list(self._nodes()), self._arrays)

    def _nodes(self) -> Iterator[Node]:
        codes = self._model.operatorCodes
        for number, graph in enumerate(self._model.subgraphs):
            for each in graph.operators:
                code = codes[each.opcodeIndex]
                kind = self._operators.get(max(code.builtinCode, code.deprecatedBuiltinCode), "")
                inputs = []
                for position, index in enumerate(each.inputs if each.inputs is not None else ()):
                    value = None if index < 0 else self._stored(graph.tensors[index], kind, position)
                    inputs.append((f"{number}:{index}" if index >= 0 else "", value))
                outputs = [f"{number}:{index}" for index in (each.outputs if each.outputs is not None else ())]
                yield parameter_counts.node(OPERATORS.get(kind, kind), inputs, outputs)
            ends = [(f"{number}:{index}", self._stored(graph.tensors[index], "", 0)) for index in graph.outputs]
            yield parameter_counts.node("Identity", ends, [])

    def _stored(self, tensor: Any, kind: str, position: int) -> Value | None:
        """The value of a tensor that holds parameters; None for one that is computed, or holds shapes or indices."""
        type_ = self._types.get(tensor.type, "")
        is_quantized = tensor.quantization is not None and tensor.quantization.scale is not None
        is_bias = _BIASES.get(kind) == position and type_ in ("INT32", "INT64")
        dtype = _TYPES.get(type_) or ("int8" if is_quantized and (type_ in _QUANTIZED or is_bias) else None)
        shape = [int(size) for size in tensor.shape] if tensor.shape is not None else []
        if dtype is None:
            return None
        if tensor.buffer not in self._values:
            data = self._data(self._model.buffers[tensor.buffer])
            if data is None:
                return None
            array = np.frombuffer(data, _ARRAYS.get(type_, "u1"))
            if kind == "WHILE" and (array == array[0]).all():
                return None  # the state that a loop begins with
            value = self._values[tensor.buffer] = parameter_counts.stored(dtype, shape)
            name = tensor.name.decode(errors="replace") if tensor.name else f"tensor {tensor.buffer}"
            whole = array.reshape(shape) if array.size == np.prod(shape) else array  # packed or sparse
            self._arrays[id(value)] = (name, functools.partial(_same, whole))
        return self._values[tensor.buffer]

    def _data(self, buffer: Any) -> bytes | np.ndarray | None:
        if buffer.offset is not None and buffer.offset > 1:  # behind the model, where a file is larger than 2 GiB
            return self._content[buffer.offset : buffer.offset + buffer.size]
        return buffer.data if buffer.data is not None and len(buffer.data) else None


def _same(array: np.ndarray) -> np.ndarray:
    return array
