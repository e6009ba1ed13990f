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


def precision_of(model: Any) -> str | None:
    """The type in which the layers of a Keras model compute that have weights; None where they have several.

    Under a policy such as `mixed_float16` weights are cast to that type. None also where weights are quantized;
    `float32` where there are none.
    """
    layers = [layer for layer in model._flatten_layers() if layer.weights and len(list(layer._flatten_layers())) == 1]
    if any(getattr(layer.dtype_policy, "quantization_mode", None) for layer in layers):
        return None
    dtypes = {layer.compute_dtype for layer in layers} or {"float32"}
    return dtypes.pop() if len(dtypes) == 1 else None


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
        call, by_provider = self.callable(model, task, provider)
        precision: str | None = by_provider
        if precision == "float32":  # the provider reduces nothing
            precision = precision_of(model)
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
