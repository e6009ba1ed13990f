"""OpenVINO's conversion of a TFLite file."""

from pathlib import Path

from bench.api import Exporter, Info, Task
from bench.plugins.engines import litert, litert_operators
from bench.plugins.engines.openvino import ir


class TfLiteOpenVino(Exporter):
    """OpenVINO IR in the precision of the file."""

    portable = True
    sources = ("tflite",)
    requires = ("ai_edge_litert", "openvino")
    extra = "litert,openvino"
    writes = "openvino"

    def export(self, task: Task, source: str, target: Path) -> Info:
        openvino = ir.import_openvino()
        file = task.native_path(source)
        litert_operators.refuse_resources(file, "OpenVINO's converter")
        converted = openvino.convert_model(file)
        inputs, outputs = litert.places(file, task)
        ir.name_ports(
            converted,
            task,
            inputs=[converted.inputs[place] for place in inputs],
            outputs=[converted.outputs[place] for place in outputs],
        )
        ir.save(converted, target)
        return {}
