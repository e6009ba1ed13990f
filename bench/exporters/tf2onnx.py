"""tf2onnx: a TensorFlow graph, frozen and translated to ONNX."""

import logging
import os
from pathlib import Path
from typing import Any

from bench.analysis.interface import check_interface
from bench.api import Exporter, Task


class Tf2Onnx(Exporter):
    """ONNX by `tf2onnx.convert.from_function`, at the opset that it prefers."""

    requires = ("tensorflow", "keras", "tf2onnx", "onnx")
    extra = "tf"
    sources = ("tf",)

    def format(self, source: str) -> str:
        return "onnx"

    def export(self, task: Task, source: str, target: Path) -> dict[str, Any]:
        os.environ["KERAS_BACKEND"] = "tensorflow"
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        import onnx
        import tensorflow as tf
        import tf2onnx

        logging.getLogger("tf2onnx").setLevel(logging.ERROR)
        tf.get_logger().setLevel(logging.ERROR)
        model = task.build(source, task.weights_path)
        signature = [
            tf.TensorSpec([dim if isinstance(dim, int) else None for dim in spec.shape], spec.dtype, name=spec.name)
            for spec in task.inputs
        ]

        @tf.function(input_signature=signature)  # type: ignore[untyped-decorator, unused-ignore]
        def named(*tensors: Any) -> dict[str, Any]:
            outputs = model(*tensors)
            outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
            # tf2onnx names the graph's outputs after the keys.
            return {spec.name: output for spec, output in zip(task.outputs, outputs, strict=True)}

        proto, _ = tf2onnx.convert.from_function(named, input_signature=signature)
        onnx.save(proto, target)
        check_interface(target, task)
        return {"opset": next(opset.version for opset in proto.opset_import if not opset.domain)}
