"""TensorFlow as it is deployed by default: the model in one tf.function, without XLA."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api import Runtime, Session, Task
from bench.errors import InputError
from bench.plugins import suggest

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from bench.api import Arrays


class TensorFlowSession(Session):
    """One traced function; its signature leaves dynamic dimensions open, so no request traces it again."""

    def __init__(self, model: Any, task: Task) -> None:
        import tensorflow as tf

        signature = [
            tf.TensorSpec([dim if isinstance(dim, int) else None for dim in spec.shape], spec.dtype, name=spec.name)
            for spec in task.inputs
        ]
        self._names = [spec.name for spec in task.inputs]
        self._function = tf.function(lambda *tensors: model(*tensors), input_signature=signature)
        self._function.get_concrete_function()  # tracing is a part of loading, not of the first inference

    def run(self, feeds: Arrays) -> Sequence[np.ndarray]:
        outputs = self._function(*[feeds[name] for name in self._names])
        if isinstance(outputs, (list, tuple)):
            return [output.numpy() for output in outputs]
        return [outputs.numpy()]


class TensorFlow(Runtime):
    """Keras models under TensorFlow on the processor."""

    requires = ("tensorflow", "keras")
    extra = "tf"
    formats = ("keras",)
    default_for = ("keras",)

    def environment(self, threads: int) -> dict[str, str]:
        return {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2", "OMP_NUM_THREADS": str(threads)}

    def import_packages(self) -> None:
        import keras  # noqa: F401
        import tensorflow as tf  # noqa: F401

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        if provider not in self.providers():
            raise InputError(f"{self.name} has no provider {provider!r}; {suggest(provider, self.providers())}")
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        return TensorFlowSession(task.build(source, artifact), task)
