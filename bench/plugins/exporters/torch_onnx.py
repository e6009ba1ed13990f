"""PyTorch's own ONNX exporter: torch.export, then a translation to ONNX."""

from bench.plugins.engines.pytorch.exporter import TorchOnnxExporter


class TorchOnnx(TorchOnnxExporter):
    """ONNX by `torch.onnx.export(dynamo=True)`."""

    portable = True
