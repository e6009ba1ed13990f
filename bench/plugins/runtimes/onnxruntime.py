"""ONNX Runtime with its default options, except that its threads stop spinning after each request."""

from bench.plugins.engines.onnxruntime.runtime import OrtRuntime


class OnnxRuntime(OrtRuntime):
    """Opens ONNX files by their path."""

    default_for = ("onnx",)
