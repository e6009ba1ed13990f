"""Whether stored tensors and stated types can be: known element types, possible sizes, as many data as they need."""

from __future__ import annotations

import math

from bench.api.errors import InputError
from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.dtypes import bits, type_name

_MOST_AXES = 64  # of a NumPy array
_MOST_ELEMENTS = 1 << 47
"""Elements of a tensor: as many bytes as a process can address."""
STRING, INT64 = 8, 7  # of onnx.TensorProto.DataType
EXTERNAL = 1  # of onnx.TensorProto.DataLocation
_DATA = {
    **dict.fromkeys(("float32", "complex64"), "float_data"),
    **dict.fromkeys(("float64", "complex128"), "double_data"),
    **dict.fromkeys(("uint32", "uint64"), "uint64_data"),
    "int64": "int64_data",
    "string": "string_data",
}
"""The field that holds elements of a type one by one; those of other types are in int32_data."""
_FIELDS = ("float_data", "int32_data", "string_data", "int64_data", "raw_data", "double_data", "uint64_data")


def impossible(shape: tuple[int, ...]) -> str | None:
    """Why no tensor can have a shape, as a clause that follows the tensor; None if a tensor can have it."""
    if len(shape) > _MOST_AXES:
        return f"has {len(shape):,} axes; {_MOST_AXES} is the limit"
    text = f"({', '.join(map(str, shape))})"
    if min(shape, default=0) < 0:
        return f"has the shape {text}; no size is negative"
    if (count := math.prod(shape)) > _MOST_ELEMENTS:
        return f"has the shape {text}, {count:,} elements; {_MOST_ELEMENTS:,} is the limit"
    return None


def check_tensor(tensor: onnx.TensorProto, what: str) -> None:
    """Refuse a tensor whose fields contradict each other.

    Args:
        what: the tensor, as messages write it.

    Raises:
        InputError: the element type is unknown, there can be no such shape, or there are too few or too many data.
    """
    kind = type_name(tensor.data_type)
    if kind == "unknown":
        raise InputError(f"{what} has the element type {tensor.data_type}, which ONNX does not have")
    shape = tuple(tensor.dims)
    if why := impossible(shape):
        raise InputError(f"{what} {why}")
    if tensor.HasField("segment"):
        raise InputError(f"{what} is stored in segments, which nothing reads")
    count = math.prod(shape)
    if tensor.data_location == EXTERNAL:
        _check_place(tensor, what, -(-count * bits(tensor.data_type) // 8))
        return
    field, number = _expected(kind, tensor.data_type, count)
    lengths = {name: len(getattr(tensor, name)) for name in _FIELDS if len(getattr(tensor, name))}
    if tensor.HasField("raw_data") and kind != "string":  # where it is there, it is what is read, even if it is empty
        field, number = "raw_data", -(-count * bits(tensor.data_type) // 8)
    if other := next((name for name in lengths if name != field), None):
        raise InputError(f"{what} is {kind}, whose elements are in the field {field}, but has {other}")
    if lengths.get(field, 0) != number:
        unit = "bytes" if field == "raw_data" else "elements"
        raise InputError(
            f"{what} is {kind} of shape {list(shape)}, {number:,} {unit} of {field}; it has {lengths.get(field, 0):,}"
        )
    if kind == "string":
        for text in tensor.string_data:
            decoded(text, f"an element of {what}")


def _expected(kind: str, data_type: int, count: int) -> tuple[str, int]:
    """The field of typed elements, and the number of its entries."""
    if kind.startswith("complex"):
        return _DATA[kind], 2 * count
    if kind not in _DATA and bits(data_type) < 8:
        return "int32_data", -(-count * bits(data_type) // 8)
    return _DATA.get(kind, "int32_data"), count


def _check_place(tensor: onnx.TensorProto, what: str, size_bytes: int) -> None:
    """Refuse external data whose stated length is not that of the elements; files are not opened."""
    if tensor.data_type == STRING:
        raise InputError(f"{what} holds strings, which cannot lie in external data")
    for entry in tensor.external_data:
        decoded(entry.key, f"a key of the external data of {what}")
        decoded(entry.value, f"the {entry.key} of the external data of {what}")
        if (
            entry.key == "length"
            and entry.value.isascii()
            and entry.value.isdigit()
            and int(entry.value[:20]) != size_bytes
        ):
            shape = list(tensor.dims)
            raise InputError(
                f"{what} is {type_name(tensor.data_type)} of shape {shape}, {size_bytes:,} bytes; it has {entry.value}"
            )


def check_sparse(sparse: onnx.SparseTensorProto, what: str) -> None:
    """Refuse a sparse tensor whose parts are no tensors or do not fit each other. Raises as `check_tensor`."""
    check_tensor(sparse.values, f"the values of {what}")
    check_tensor(sparse.indices, f"the indices of {what}")
    shape = tuple(sparse.dims)
    if why := impossible(shape):
        raise InputError(f"{what} {why}")
    values, indices = tuple(sparse.values.dims), tuple(sparse.indices.dims)
    if len(values) != 1 or values[0] > math.prod(shape):
        raise InputError(f"the values of {what}, which has the shape {list(shape)}, have the shape {list(values)}")
    if sparse.indices.data_type != INT64 or indices not in (values, (*values, len(shape))):
        raise InputError(
            f"the indices of {what} are {type_name(sparse.indices.data_type)} of shape {list(indices)}; they have to "
            f"be int64 of shape {list(values)} or {[*values, len(shape)]}"
        )


def check_type(proto: onnx.TypeProto, what: str, *, known: bool = False) -> None:
    """Refuse a type that no value can have.

    Args:
        what: the value, as messages write it.
        known: whether a tensor has to state its element type.

    Raises:
        InputError: an element type is unknown, or there can be no such shape.
    """
    kind = proto.WhichOneof("value")
    if kind in ("sequence_type", "optional_type"):
        check_type(getattr(proto, kind).elem_type, what)
    elif kind == "map_type":
        check_type(proto.map_type.value_type, what)
    elif kind in ("tensor_type", "sparse_tensor_type"):
        tensor = getattr(proto, kind)
        if type_name(tensor.elem_type) == "unknown" and (tensor.elem_type or known):
            raise InputError(f"{what} has the element type {tensor.elem_type}, which ONNX does not have")
        dims = tensor.shape.dim[:]
        for axis, dim in enumerate(dims):
            if dim.HasField("dim_param"):
                decoded(dim.dim_param, f"the name of axis {axis} of {what}")
        if why := impossible(tuple(max(dim.dim_value, 0) if dim.HasField("dim_value") else 1 for dim in dims)):
            raise InputError(f"{what} {why}")


def decoded(text: str | bytes, what: str) -> str:
    """A text of the file, which protobuf gives as bytes where it is damaged.

    Raises:
        InputError: the text is no UTF-8.
    """
    if isinstance(text, str):
        return text
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{what} is {text[:40]!r}, which is no UTF-8") from error
