"""PyTorch's PT2E quantization, exported to ONNX: 8-bit weights and activations in the QDQ form."""

from typing import Any

from bench.api import Task
from bench.plugins.engines.pytorch import pt2e
from bench.plugins.engines.pytorch.exporter import TorchOnnxExporter


class TorchPt2eOnnx(TorchOnnxExporter):
    """ONNX whose nodes runtimes fuse into products of 8 bits."""

    requires = ("torch", "torchao", "onnxscript", "onnx")
    extra = "torch"
    lossy = True

    def convert(self, model: Any, example: tuple[Any, ...], task: Task, target: Any) -> Any:
        return super().convert(pt2e.quantized(model, example, task), example, task, target)
