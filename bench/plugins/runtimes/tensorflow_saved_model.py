"""TensorFlow on a SavedModel, as TensorFlow Serving runs it: a graph without the Python code that made it."""

import tarfile
import tempfile
from pathlib import Path

from bench.api import Runtime, Session, Task
from bench.onnxfile.deferred import tf
from bench.plugins.engines.calls import CallSession


class TensorFlowSavedModel(Runtime):
    """Opens the files of a SavedModel in one archive."""

    title = "TensorFlow, SavedModel"
    requires = ("tensorflow",)
    extra = "tf"
    formats = ("saved_model",)
    default_for = ("saved_model",)

    def environment(self, threads: int) -> dict[str, str]:
        return {"TF_CPP_MIN_LOG_LEVEL": "2", "OMP_NUM_THREADS": str(threads)}

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        with tempfile.TemporaryDirectory() as folder, tarfile.open(artifact, "r:") as archive:
            archive.extractall(folder, filter="data")
            model = tf.saved_model.load(folder)
        return CallSession(model.serve, task, tensor=tf.convert_to_tensor, keeps=model)
