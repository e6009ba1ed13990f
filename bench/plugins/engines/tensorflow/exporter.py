"""The base of the exporters from TensorFlow: the model as one function with the task's names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

from bench.api import Exporter, Info, Task
from bench.api.decoder import Decoder
from bench.onnxfile.deferred import tf


def signature(task: Task | Decoder) -> list[tf.TensorSpec]:
    """Specs of the inputs in order; dynamic dimensions stay open, so that no request traces it again."""
    return [
        tf.TensorSpec([dim if isinstance(dim, int) else None for dim in spec.shape], spec.dtype, name=spec.name)
        for spec in task.inputs
    ]


class TfExporter(Exporter):
    """Takes a Keras model."""

    requires: ClassVar[tuple[str, ...]] = ("tensorflow", "keras")
    extra = "tf"
    sources = ("tf",)

    def export(self, task: Task, source: str, target: Path) -> Info:
        os.environ["KERAS_BACKEND"] = "tensorflow"
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        tf.get_logger().setLevel("ERROR")
        model = task.build(source, task.weights_path)

        @tf.function(input_signature=signature(task))  # type: ignore[untyped-decorator, unused-ignore]
        def named(*tensors: Any) -> dict[str, Any]:
            outputs = model(*tensors)
            outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
            return {spec.name: output for spec, output in zip(task.outputs, outputs, strict=True)}

        return self.translate(named, task, target)

    def translate(self, function: Any, task: Task, target: Path) -> Info:
        """Write the artifact of a `tf.function` that returns a dict by output name; return facts to keep with it."""
        raise NotImplementedError
