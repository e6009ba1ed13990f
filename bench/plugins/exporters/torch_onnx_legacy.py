"""PyTorch's former ONNX exporter: a TorchScript trace, translated operator by operator.

A trace knows nothing of modules: releases of PyTorch differ in whether weights that layers share are written once or
once for each layer (2.13.0: once, but for small constants).
"""

from bench.plugins.engines.pytorch.exporter import TorchScriptExporter


class TorchOnnxLegacy(TorchScriptExporter):
    """ONNX by `torch.onnx.export(dynamo=False)`, at the opset that it prefers."""

    portable = True
