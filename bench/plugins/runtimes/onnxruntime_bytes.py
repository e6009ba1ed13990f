"""ONNX Runtime loading a model from memory, as a server does that keeps models in a database or a package."""

from pathlib import Path

from bench.plugins.engines.onnxruntime.runtime import OrtRuntime


class OnnxRuntimeBytes(OrtRuntime):
    """Reads the file and hands ONNX Runtime the bytes."""

    def model(self, artifact: Path) -> bytes:
        return artifact.read_bytes()
