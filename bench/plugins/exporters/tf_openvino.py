"""OpenVINO's conversion of a TensorFlow function."""

from pathlib import Path
from typing import Any

from bench.api import Info, Task
from bench.plugins.engines.openvino import ir
from bench.plugins.engines.tensorflow.exporter import TfExporter


class TfOpenVino(TfExporter):
    """OpenVINO IR in float32, with every dynamic dimension of the task kept dynamic."""

    portable = True
    requires = ("tensorflow", "keras", "openvino")
    extra = "tf,openvino"
    writes = "openvino"

    def translate(self, function: Any, task: Task, target: Path) -> Info:
        openvino = ir.import_openvino()
        converted = openvino.convert_model(function)
        # By name, because the outputs of the converted model are in the alphabetical order of their names.
        inputs = [converted.input(spec.name) for spec in task.inputs]
        outputs = [converted.output(spec.name) for spec in task.outputs]
        ir.name_ports(converted, task, inputs=inputs, outputs=outputs)
        ir.save(converted, target)
        return {}
