"""PyTorch's PT2E quantization, compiled ahead of time by Inductor: products of 8 bits by oneDNN."""

from pathlib import Path
from typing import Any

from bench.api import Info, Task
from bench.onnxfile.deferred import torch
from bench.plugins.engines.pytorch import inductor, pt2e
from bench.plugins.engines.pytorch.exporter import TorchExporter, single
from bench.plugins.engines.pytorch.runtime import no_compiler


class TorchPt2e(TorchExporter):
    """A `.pt2` package as that of `aot_inductor`, of a model in 8 bits, for one sample of the size of the task's.

    Of quantized convolutions with dynamic sizes Inductor computes something else, without an error (torch 2.13.0).
    """

    requires = ("torch", "torchao")
    extra = "torch"
    writes = "pt2"
    lossy = True
    freezes = True
    compiles = True

    def skip(self) -> str | None:
        return super().skip() or no_compiler()

    def convert(self, model: Any, example: tuple[Any, ...], task: Task, target: Path) -> Info:
        num_params = sum(parameter.numel() for parameter in model.parameters())
        quantized = pt2e.quantized(model, example, task)
        program = torch.export.export(quantized, single(example, task))
        inductor.package(program, target, num_params, "int8")
        return {"batch": 1}
