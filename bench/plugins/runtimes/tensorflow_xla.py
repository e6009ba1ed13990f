"""TensorFlow with XLA: the tf.function compiled to machine code, at the first inference of each shape."""

from typing import Any

from bench.api import Task
from bench.graphs.deferred import tf
from bench.plugins.engines.tensorflow.exporter import signature
from bench.plugins.engines.tensorflow.runtime import TfRuntime


class TensorFlowXla(TfRuntime):
    """Keras models compiled just in time."""

    def callable(self, model: Any, task: Task, provider: str) -> tuple[Any, str]:
        function = tf.function(lambda *tensors: model(*tensors), input_signature=signature(task), jit_compile=True)
        function.get_concrete_function()  # tracing is a part of loading; compiling needs shapes
        return function, "float32"
