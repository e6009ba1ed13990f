"""What an ONNX file states that ONNX Runtime does not know: newer versions of format and operators, narrow types."""

from __future__ import annotations

from bench.onnxfile.deferred import onnx
from bench.onnxfile.file.digest import all_graphs, all_nodes
from bench.onnxfile.file.dtypes import is_floating, is_number, type_name
from bench.onnxfile.sessions import newest_ir_version, newest_opset, runtime_version

_OWN = ("", "ai.onnx")
"""The names of the domain of ONNX's own operators."""


def restate_ir_version(model: onnx.ModelProto) -> str | None:
    """State an IR version that ONNX Runtime reads instead of one that it does not, in place.

    The number is that of the file format, not of the operators, and exporters state the newest that their onnx package
    knows. Whether ONNX Runtime knows the types and operators of the file is seen when it opens the copy.

    Returns:
        A sentence that says what was changed, and how to change it in the file itself. None where ONNX Runtime knows
        the number, or where the file has fields that the onnx package here does not know, which may need it.
    """
    newest, stated = newest_ir_version(), model.ir_version
    if stated <= newest or not _is_known(model):
        return None
    model.ir_version = newest
    return (
        f"its IR version is {newest}, not {stated}; ONNX Runtime {runtime_version()} reads {newest} at most, and "
        f"nothing in the file needs another (in the file itself: set model.ir_version = {newest} between onnx.load and "
        "onnx.save)"
    )


def too_new(model: onnx.ModelProto) -> str | None:
    """A sentence about the operator set that a model states and ONNX Runtime does not know yet; None where it does."""
    stated = max((entry.version for entry in model.opset_import if entry.domain in _OWN), default=0)
    newest = newest_opset()
    if stated <= newest:
        return None
    return (
        f"its operator set {stated} is newer than {newest}, the newest that ONNX Runtime {runtime_version()} reads: "
        f"export the model with opset_version={newest} or less"
    )


def narrow_types(model: onnx.ModelProto) -> str | None:
    """A sentence about floating-point types of a model that few operators of ONNX Runtime take on a processor, or None.

    They are those of its stored tensors and of its casts.
    """
    cast = (
        each.i for node in all_nodes(model) if node.op_type == "Cast" for each in node.attribute if each.name == "to"
    )
    stored = (tensor.data_type for graph in all_graphs(model) for tensor in graph.initializer)
    names = {type_name(dtype) for dtype in (*cast, *stored) if is_floating(dtype) and not is_number(dtype)}
    if not names:
        return None
    return (
        f"it computes in {' and '.join(sorted(names))}, which few operators of ONNX Runtime take on a processor: an "
        "export in float32 runs everywhere"
    )


def _is_known(model: onnx.ModelProto) -> bool:
    """Whether the onnx package knows all fields of a model, at any depth."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    copy.DiscardUnknownFields()
    return bool(copy.ByteSize() == model.ByteSize())
