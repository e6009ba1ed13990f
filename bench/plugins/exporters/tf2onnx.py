"""tf2onnx: a TensorFlow graph, frozen and translated to ONNX."""

import logging
from pathlib import Path
from typing import Any

from bench.api import Info, Task
from bench.onnxfile.deferred import onnx
from bench.plugins.engines.tensorflow.exporter import TfExporter, signature


class Tf2Onnx(TfExporter):
    """ONNX by `tf2onnx.convert.from_function`, at the opset that it prefers."""

    portable = True
    requires = ("tensorflow", "keras", "tf2onnx", "onnx")
    writes = "onnx"

    def translate(self, function: Any, task: Task, target: Path) -> Info:
        import tf2onnx

        logging.getLogger("tf2onnx").setLevel(logging.ERROR)
        # tf2onnx names the graph's outputs after the keys of the dict that the function returns.
        proto, _ = tf2onnx.convert.from_function(function, input_signature=signature(task))
        onnx.save(proto, target)
        return {"opset": next(opset.version for opset in proto.opset_import if not opset.domain)}
