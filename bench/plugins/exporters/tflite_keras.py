"""A `.tflite` file by Keras's own `Model.export`, for models that need no operators of TensorFlow itself."""

from pathlib import Path

from bench.api import Info, Task
from bench.api.errors import ArtifactError
from bench.plugins.engines.litert import renamed
from bench.plugins.engines.tensorflow.keras_exporter import KerasExporter


class TfLiteKeras(KerasExporter):
    """A flatbuffer for LiteRT, in float32."""

    requires = ("tensorflow", "keras", "ai_edge_litert", "flatbuffers")
    extra = "tf,litert"
    writes = "tflite"
    keras_format = "litert"
    suffix = ".tflite"

    def finish(self, written: Path, task: Task, target: Path) -> Info:
        from ai_edge_litert.interpreter import Interpreter

        outputs = {f"output_{number}": spec.name for number, spec in enumerate(task.outputs)}
        target.write_bytes(renamed(written.read_bytes(), {}, outputs))
        try:
            Interpreter(str(target)).allocate_tensors()
        except RuntimeError as error:
            raise ArtifactError(f"LiteRT does not open what Keras wrote: {error}") from error
        return {}
