"""A TFLite file with integers of 32 bits in place of those of 64, for an engine that has no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.api.errors import ArtifactError
from bench.onnxfile.deferred import np

_TYPES_IN_OPTIONS = ("inDataType", "outDataType", "outType", "outputType", "idxOutType")
"""Fields of operators' options that name the type of a tensor, as those of CAST and SHAPE."""


def write(path: Path, target: Path) -> None:
    """Write a copy of a file in which each tensor of int64 is one of int32.

    Operators compute on the types of their tensors; one that takes no int32 fails when the copy is opened or run.

    Args:
        path: the file.
        target: the copy.

    Raises:
        ArtifactError: it is no such file, or a constant is too large.
    """
    import flatbuffers  # type: ignore[import-untyped]
    from ai_edge_litert import schema_py_generated as schema

    content = path.read_bytes()
    if not schema.Model.ModelBufferHasIdentifier(content, 0):
        raise ArtifactError("it is no TFLite model")
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    types = schema.TensorType
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            if tensor.type != types.INT64:
                continue
            tensor.type = types.INT32
            data = model.buffers[tensor.buffer].data
            if data is not None and len(data):
                buffer = schema.BufferT()  # of its own: another tensor may share the wide one
                buffer.data = narrow(np.asarray(data, np.uint8).view(np.int64), _name(tensor)).view(np.uint8)
                tensor.buffer = len(model.buffers)
                model.buffers.append(buffer)
        for node in graph.operators:
            for field in _TYPES_IN_OPTIONS:
                if getattr(node.builtinOptions, field, None) == types.INT64:
                    setattr(node.builtinOptions, field, types.INT32)
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    target.write_bytes(builder.Output())


def narrow(values: Any, name: str) -> Any:
    """Values of int64 as int32, of the same shape.

    Raises:
        ArtifactError: one of them is too large.
    """
    limits = np.iinfo(np.int32)
    if values.size and not limits.min <= values.min() <= values.max() <= limits.max:
        raise ArtifactError(f"{name!r} has numbers that take more than 32 bits, and the engine has no others")
    return values.astype(np.int32)


def _name(tensor: Any) -> str:
    return bytes(tensor.name or b"").decode(errors="replace")
