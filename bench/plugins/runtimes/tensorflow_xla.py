"""TensorFlow with XLA: the tf.function compiled to machine code, at the first inference of each shape."""

from typing import Any

from bench.api import Task
from bench.plugins.engines.tensorflow.runtime import TfRuntime, traced


class TensorFlowXla(TfRuntime):
    """Keras models compiled just in time."""

    def callable(self, model: Any, task: Task, provider: str) -> tuple[Any, str]:
        return traced(model, task, jit_compile=True), "float32"  # compiling needs shapes
