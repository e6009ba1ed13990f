"""The size that an ONNX file states of an axis."""

from __future__ import annotations

from bench.onnxfile.deferred import onnx


def stated_size(dim: onnx.TensorShapeProto.Dimension) -> int | None:
    """The size of an axis; None where the file leaves it open, which older exporters write as a size of -1."""
    return dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None
