"""PyTorch's former ONNX exporter: a TorchScript trace, translated operator by operator.

A trace knows nothing of modules: releases of PyTorch differ in whether weights that layers share are written once or
once for each layer (2.13.0: once, but for small constants).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench.api import UNKNOWN, Task
from bench.torch_export import TorchOnnxExporter, dynamic_axes

if TYPE_CHECKING:
    import torch


class TorchOnnxLegacy(TorchOnnxExporter):
    """ONNX by `torch.onnx.export(dynamo=False)`, at the opset that it prefers."""

    requires = ("torch", "onnx")

    def translate(self, model: torch.nn.Module, task: Task, target: Path) -> None:
        import torch

        outputs = {
            spec.name: {axis: dim for axis, dim in enumerate(spec.shape) if isinstance(dim, str) and dim != UNKNOWN}
            for spec in task.outputs
        }
        torch.onnx.export(
            model,
            self.example(task),
            str(target),
            input_names=[spec.name for spec in task.inputs],
            output_names=[spec.name for spec in task.outputs],
            dynamic_axes={**dynamic_axes(task), **outputs},
            dynamo=False,
        )
