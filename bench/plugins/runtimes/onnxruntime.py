"""ONNX Runtime with its default options, but for threads that rest between requests."""

from bench.plugins.engines.onnxruntime.runtime import OrtRuntime


class OnnxRuntime(OrtRuntime):
    """Opens ONNX files by their path."""

    default_for = ("onnx",)
