"""The base of the runtimes that run Keras models with TensorFlow: threads, precisions, arrays in and out."""

import math
from pathlib import Path
from typing import Any

from bench.api import Runtime, Session, Task
from bench.api.decoder import Decoder, Request
from bench.onnxfile.deferred import tf
from bench.plugins.engines.calls import CallSession
from bench.plugins.engines.tensorflow.exporter import signature


def traced(model: Any, task: Task | Decoder, **options: Any) -> Any:
    """A model as a `tf.function` that is traced already: tracing counts as loading, not as the first inference."""
    function = tf.function(lambda *tensors: model(*tensors), input_signature=signature(task), **options)
    function.get_concrete_function()
    return function


class TfRuntime(Runtime):
    """Runs a task's Keras model."""

    title = "TensorFlow"
    requires = ("tensorflow", "keras")
    extra = "tf"
    formats = ("keras",)
    generates = True

    def environment(self, threads: int) -> dict[str, str]:
        return {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2", "OMP_NUM_THREADS": str(threads)}

    def builds(self, artifact: Path) -> bool:
        return True

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        model = task.build(source, artifact) if task.request is None else task.build_step(source, artifact)
        # Keras lists shared weights once, and leaves out the statistics of normalizations.
        num_params = sum(math.prod(weight.shape) for weight in model.trainable_weights)
        if task.request is not None:
            return self.stepper(model, task.request, provider, num_params)
        call, precision = self.callable(model, task, provider)
        return CallSession(call, task, tensor=tf.convert_to_tensor, num_params=num_params, precision=precision)

    def stepper(self, step: Any, request: Request, provider: str, num_params: int) -> Session:
        """A session that generates with one pass of a decoder."""
        from bench.plugins.engines.tensorflow.stepper import GrowingStepper

        call, precision = self.callable(step, request.decoder, provider)
        if isinstance(call, tf.types.experimental.PolymorphicFunction):
            call = call.get_concrete_function()  # which does not look for a trace that fits so many tensors
        return GrowingStepper(call, request, num_params=num_params, precision=precision)

    def callable(self, model: Any, task: Task | Decoder, provider: str) -> tuple[Any, str]:
        """The function to call with tensors, made from the model of a task or one pass of a decoder, and the precision
        that it runs in."""
        return model, "float32"
