"""A task that is nothing but an ONNX file: generated inputs, and its own outputs as the truth.

The reference is the file as it is on plain ONNX Runtime; what is told of every other cell is how far its outputs are
from that, in decibels, not how good the model is.
"""

from __future__ import annotations

from bench.own.task import OwnTask


class OnnxTask(OwnTask):
    """An ONNX file beside `task.py`; a subclass states its inputs and outputs, and may bring samples of its own."""

    sources = ("onnx",)
    weights = "model.onnx"
