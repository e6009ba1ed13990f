"""Rules that translate OpenVINO's operations to ONNX nodes, one small function for each kind of operation.

A rule takes an `Operation` and ends with a call of its `result`. It raises `UntranslatableError` where ONNX has no
operator for an operation with these attributes.
"""

from __future__ import annotations

from bench.plugins.engines.openvino.graph.operation import RULES
from bench.plugins.engines.openvino.graph.rules import bodies, elements, layers, layout, recurrent  # noqa: F401

__all__ = ["RULES"]
