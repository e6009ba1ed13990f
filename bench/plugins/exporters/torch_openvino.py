"""OpenVINO's conversion of a PyTorch model, by way of a TorchScript trace."""

from pathlib import Path
from typing import Any

from bench.api import Info, Task
from bench.plugins.engines.openvino import ir
from bench.plugins.engines.pytorch.exporter import TorchExporter


class TorchOpenVino(TorchExporter):
    """OpenVINO IR in float32, with every dynamic dimension of the task kept dynamic."""

    portable = True
    requires = ("torch", "openvino")
    extra = "torch,openvino"
    method = "trace"
    writes = "openvino"

    def convert(self, model: Any, example: tuple[Any, ...], task: Task, target: Path) -> Info:
        openvino = ir.import_openvino()
        converted = openvino.convert_model(model, example_input=example)
        ir.name_ports(converted, task, inputs=converted.inputs, outputs=converted.outputs)
        ir.save(converted, target)
        return {}
