"""TensorFlow's SavedModel by Keras's own `Model.export`: its files in one archive."""

from pathlib import Path

from bench.api import Info, Task
from bench.onnxfile.deferred import tf
from bench.plugins.engines.archive import pack
from bench.plugins.engines.tensorflow.keras_exporter import KerasExporter


class TfSavedModel(KerasExporter):
    """The graph and its variables, without Python code."""

    writes = "saved_model"
    keras_format = "tf_saved_model"

    def finish(self, written: Path, task: Task, target: Path) -> Info:
        tf.saved_model.load(str(written))
        files = sorted(path.relative_to(written).as_posix() for path in written.rglob("*") if path.is_file())
        pack(written, files, target)
        return {}
