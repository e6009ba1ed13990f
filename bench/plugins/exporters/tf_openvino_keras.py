"""OpenVINO IR by Keras's own `Model.export`."""

import re
from pathlib import Path

from bench.api import Info, Task
from bench.plugins.engines.openvino import ir
from bench.plugins.engines.tensorflow.keras_exporter import KerasExporter

_OUTPUT = re.compile(r"Identity(?:_(\d+))?:0")
"""What Keras names the outputs of a model, in their order; it leaves tensors of loops among them, too."""


class TfOpenVinoKeras(KerasExporter):
    """OpenVINO IR in float32, with every dynamic dimension of the task kept dynamic."""

    requires = ("tensorflow", "keras", "openvino")
    extra = "tf,openvino"
    writes = "openvino"
    keras_format = "openvino"
    suffix = ".xml"

    def finish(self, written: Path, task: Task, target: Path) -> Info:
        openvino = ir.import_openvino()
        read = openvino.Core().read_model(written)
        numbered = {
            int(match[1] or 0): port.get_node().input_value(0)
            for port in read.outputs
            for name in port.get_names()
            if (match := _OUTPUT.fullmatch(name))
        }
        outputs = [openvino.opset13.result(numbered[number]) for number in sorted(numbered)]
        model = openvino.Model(outputs, read.get_parameters(), "model")
        inputs = [model.input(spec.name) for spec in task.inputs]
        ir.name_ports(model, task, inputs=inputs, outputs=model.outputs)
        ir.save(model, target)
        return {}
