"""PyTorch's former ONNX exporter without its last step: weights that layers share are written once for each layer.

So did releases before that step was there, and so do files that are still about. It is for what a merge of equal
weights is worth, and for nothing else: an ALBERT-base of 47 MB takes 358 MB (torch 2.13.0).
"""

from bench.plugins.engines.pytorch.exporter import TorchScriptExporter


class TorchOnnxUntied(TorchScriptExporter):
    """ONNX by `torch.onnx.export(dynamo=False, keep_initializers_as_inputs=True)`; weights are no inputs afterwards."""

    merges = False
