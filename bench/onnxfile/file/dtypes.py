"""Names and widths of ONNX element types."""

from __future__ import annotations

import functools
import re

from bench.onnxfile.deferred import onnx


@functools.cache
def type_name(dtype: int) -> str:
    """The name of an element type, such as `float32` or `int4`; `unknown` for a number that is not in use."""
    if dtype not in onnx.TensorProto.DataType.values() or dtype == onnx.TensorProto.UNDEFINED:
        return "unknown"
    name = str(onnx.TensorProto.DataType.Name(dtype)).lower()
    return {"float": "float32", "double": "float64"}.get(name, name)


@functools.cache
def bits(dtype: int) -> int:
    """Bits of one element; 0 for text, whose length does not follow from its type."""
    digits = re.search(r"\d+", type_name(dtype))  # float8e4m3fn has 8
    return 8 if type_name(dtype) == "bool" else int(digits[0]) if digits else 0


@functools.cache
def is_floating(dtype: int) -> bool:
    """Whether an element type is a floating-point type."""
    return type_name(dtype).startswith(("float", "bfloat"))


@functools.cache
def is_number(dtype: int) -> bool:
    """Whether NumPy has the element type, so that shapes can be computed from its values."""
    return re.fullmatch(r"float(16|32|64)|u?int(8|16|32|64)|bool", type_name(dtype)) is not None
