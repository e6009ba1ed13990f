"""TensorFlow's own small format: the frozen graph as a flatbuffer for LiteRT, in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.api import Info, Task
from bench.onnxfile.deferred import tf
from bench.plugins.engines.tensorflow.exporter import TfExporter, signature


class TfLite(TfExporter):
    """A `.tflite` file in built-in operators only, so that every interpreter opens it."""

    portable = True
    writes = "tflite"

    def translate(self, function: Any, task: Task, target: Path) -> Info:
        from tensorflow.lite.python.convert_phase import ConverterError

        try:
            target.write_bytes(_convert(function, task, signature(task)))
        except ConverterError:
            if not task.batched:
                raise  # the sizes are known already, or are none of a batch
            # A loop, such as that of a recurrent network, converts only if the sizes of its outputs are known.
            for_one = [tf.TensorSpec([1, *spec.shape[1:]], spec.dtype, spec.name) for spec in signature(task)]
            target.write_bytes(_convert(function, task, for_one))
            return {"batch": 1}
        return {}


def _convert(function: Any, task: Task, inputs: list[tf.TensorSpec]) -> bytes:
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    # The converter leaves variables of a Keras 3 model without values, and the file's outputs are NaN (tensorflow
    # 2.21.0): they have to be constants before. A frozen function has lost its names, so they are set again.
    traced = tf.function(function.python_function, input_signature=inputs).get_concrete_function()
    frozen = convert_variables_to_constants_v2(traced)
    names = sorted(spec.name for spec in task.outputs)  # the order in which a dict's values are frozen
    named = tf.function(lambda *tensors: dict(zip(names, frozen(*tensors), strict=True)), input_signature=inputs)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([named.get_concrete_function()], tf.Module())
    return converter.convert()
