"""What every way to run a Keras model with TensorFlow has in common: threads, precisions, arrays in and out."""

import math
from pathlib import Path
from typing import Any

from bench.api import Arrays, Outputs, Runtime, Session, Task
from bench.api.errors import InputError, suggest


class TfSession(Session):
    """A callable on tensors."""

    def __init__(self, call: Any, task: Task, num_params: int) -> None:
        import tensorflow as tf

        self._call = call
        self._tensor = tf.convert_to_tensor
        self._names = [spec.name for spec in task.inputs]
        self.num_params = num_params

    def run(self, feeds: Arrays) -> Outputs:
        outputs = self._call(*[self._tensor(feeds[name]) for name in self._names])
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        return [output.numpy() for output in outputs]


class TfRuntime(Runtime):
    """Runs a task's Keras model."""

    requires = ("tensorflow", "keras")
    extra = "tf"
    formats = ("keras",)

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
        model = task.build(source, artifact)
        # Keras lists shared weights once, and statistics of normalizations not among these.
        num_params = sum(math.prod(weight.shape) for weight in model.trainable_weights)
        call, precision = self.callable(model, task, provider)
        session = TfSession(call, task, num_params)
        session.precision = precision
        return session

    def callable(self, model: Any, task: Task, provider: str) -> tuple[Any, str]:
        """What is called with tensors, which is the model or what is made of it; and the precision that it runs in."""
        return model, "float32"
