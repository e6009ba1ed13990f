"""Rules that give the shapes of an operator's outputs, one small function for each kind of operator.

A rule takes a `Node` and returns its outputs: one `Value`, or a list of them. Sizes may be expressions (`dims.Size`),
so a rule calculates with sizes but does not compare them. A rule raises `UnknownError` where it needs a shape or an
element that is not known; onnx's own inference for that operator is tried then. Operators have no rule here if onnx
infers expressions for them as well as a rule could.
"""

from __future__ import annotations

from bench.onnxfile.shapes.rules import arithmetic, fused, layout, products, reductions, windows  # noqa: F401
from bench.onnxfile.shapes.rules.registry import RULES

__all__ = ["RULES"]
