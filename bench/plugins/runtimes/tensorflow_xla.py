"""TensorFlow with XLA: the tf.function compiled to machine code, at the first inference of each shape.

A decoder generates with a cache of a static shape, in place.
"""

from typing import Any

from bench.api import Session, Task
from bench.api.decoder import Decoder, Request
from bench.plugins.engines.tensorflow.runtime import TfRuntime, traced


class TensorFlowXla(TfRuntime):
    """Keras models compiled just in time."""

    title = "TensorFlow XLA"

    def callable(self, model: Any, task: Task | Decoder, provider: str) -> tuple[Any, str]:
        return traced(model, task, jit_compile=True), "float32"  # compiling needs shapes

    def stepper(self, step: Any, request: Request, provider: str, num_params: int) -> Session:
        from bench.plugins.engines.tensorflow.stepper import PlacedStepper

        return PlacedStepper(step, request, num_params=num_params)
