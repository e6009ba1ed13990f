"""PyTorch's dynamic quantization: 8-bit weights, and activations quantized anew at each run."""

import warnings
from pathlib import Path

from bench.api import Info, Task, Variant
from bench.api.errors import RefusedError
from bench.onnxfile.deferred import torch
from bench.plugins.engines.pytorch import script
from bench.plugins.engines.pytorch.exporter import example_tensors


class TorchInt8Dynamic(Variant):
    """Linear layers and LSTMs: PyTorch has no such convolutions, and its 8-bit embeddings refuse the tokens of ALBERT.

    A native artifact holds weights alone, and quantized weights fit no model that a task builds. `torch.export` cannot
    store PyTorch's packed weights (2.13.0), so the artifact is TorchScript, which holds the model as well.
    """

    requires = ("torch",)
    extra = "torch"
    formats = ("torch",)
    lossy = True

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        from torch.ao import quantization

        model = task.build("torch", source)
        num_params = sum(parameter.numel() for parameter in model.parameters())
        settings = {
            torch.nn.Linear: quantization.per_channel_dynamic_qconfig,
            torch.nn.LSTM: quantization.default_dynamic_qconfig,
        }
        num_layers = sum(type(module) in settings for module in model.modules())
        if not num_layers:
            raise RefusedError("the model has no linear layer and no LSTM")
        with warnings.catch_warnings(action="ignore"):  # torch 2.13.0 recommends torchao, another package, instead
            model = quantization.quantize_dynamic(model, settings)
            script.save(model, example_tensors(task), target, precision="int8", num_params=num_params)
        return {"num_layers": num_layers}
