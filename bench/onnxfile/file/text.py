"""An ONNX model as text, and its attributes, types and values in words."""

from __future__ import annotations

from collections.abc import Sequence

from bench.api.errors import InputError
from bench.api.printable import printable
from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.dtypes import type_name
from bench.onnxfile.file.lazy import HERE, Stored, external_tensors

MOST_VALUES = 8
"""Elements of an attribute that are written out; the others are only counted."""


def model_text(stored: Stored) -> str:
    """A model in onnx's own text form, which `onnx.parser.parse_model` reads back.

    Weights of more than 4 KB are not written out but given by their place in the file, as external data are; so the
    text has to be read back in the model's folder. Characters that would steer a terminal are escaped.

    Raises:
        InputError: a string or a comment in the file is no UTF-8.
    """
    assert stored.path is not None
    model = onnx.ModelProto()
    model.CopyFrom(stored.model)
    for tensor in external_tensors(model):
        for entry in tensor.external_data:
            if (entry.key, entry.value) == ("location", HERE):
                entry.value = stored.path.name
    try:
        written = onnx.printer.to_text(model)
    except UnicodeDecodeError as error:  # of text that nothing but this form shows, such as the string of an attribute
        damaged = error.object[max(error.start - 20, 0) : error.start + 20]
        raise InputError(f"its text {damaged!r} is no UTF-8") from error
    return printable(written, keep="\n\t") + "\n"


def attribute_text(attribute: onnx.AttributeProto) -> str:
    """An attribute's value in a few words."""
    if attribute.ref_attr_name:
        return f"attribute {attribute.ref_attr_name} of the function"
    kind = onnx.AttributeProto.AttributeType.Name(attribute.type)
    value = onnx.helper.get_attribute_value(attribute)
    if kind in ("TENSOR", "SPARSE_TENSOR"):
        return f"tensor {tensor_type(value)}"
    if kind == "GRAPH":
        return f"graph of {len(value.node)} nodes"
    if kind in ("TENSORS", "GRAPHS", "SPARSE_TENSORS", "TYPE_PROTOS"):
        return f"{len(value)} {kind.lower().replace('_', ' ')}"
    if kind in ("INTS", "FLOATS", "STRINGS"):
        shown = [_number(item) for item in value[:MOST_VALUES]]
        return f"[{', '.join(shown + [f'and {len(value) - MOST_VALUES} more'] * (len(value) > MOST_VALUES))}]"
    return _number(value)


def _number(value: object) -> str:
    if isinstance(value, bytes):
        return printable(value.decode(errors="replace"))
    return f"{value:.6g}" if isinstance(value, float) else printable(str(value))


def tensor_type(tensor: onnx.TensorProto | onnx.SparseTensorProto) -> str:
    """Element type and shape of a stored tensor, such as `float32[64, 3, 7, 7]`."""
    values = tensor.values if tensor.DESCRIPTOR.name == "SparseTensorProto" else tensor
    return f"{type_name(values.data_type)}{shape_text(tensor.dims)}"


def value_type(value: onnx.ValueInfoProto) -> str:
    """Element type and shape of an input or output, such as `float32[batch, 3, ?, ?]`."""
    kind = value.type.WhichOneof("value") or "unknown"
    if kind != "tensor_type":
        return kind.removesuffix("_type").replace("_", " ")
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return type_name(tensor.elem_type)
    dims = [dim.dim_value if dim.HasField("dim_value") else printable(dim.dim_param) or "?" for dim in tensor.shape.dim]
    return f"{type_name(tensor.elem_type)}{shape_text(dims)}"


def shape_text(shape: Sequence[object]) -> str:
    """A shape as text, such as `[batch, 3, 224, 224]`."""
    return f"[{', '.join(map(str, shape))}]"
