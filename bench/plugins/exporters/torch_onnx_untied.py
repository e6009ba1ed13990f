"""PyTorch's former ONNX exporter without its last step: weights that layers share are written once for each layer.

Earlier releases of PyTorch had no such step, and files from them are still in use. The exporter serves to measure the
gain of merging equal weights, and nothing else: an ALBERT-base of 47 MB takes 358 MB (torch 2.13.0).
"""

from bench.plugins.engines.pytorch.exporter import TorchScriptExporter


class TorchOnnxUntied(TorchScriptExporter):
    """ONNX by `torch.onnx.export(dynamo=False, keep_initializers_as_inputs=True)`; weights are no inputs afterwards."""

    portable = True
    merges = False
