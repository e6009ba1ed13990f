"""tf2onnx's translation of a TFLite file to ONNX."""

import logging
import os
import tempfile
from pathlib import Path

from bench.api import Exporter, Info, Task
from bench.graphs.deferred import onnx
from bench.plugins.engines import litert


class TfLiteOnnx(Exporter):
    """ONNX by `tf2onnx.convert.from_tflite`, at the opset that it prefers."""

    portable = True
    sources = ("tflite",)
    requires = ("ai_edge_litert", "tensorflow", "tf2onnx", "onnx", "onnx_ir")
    extra = "tf"
    writes = "onnx"

    def export(self, task: Task, source: str, target: Path) -> Info:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        import onnx_ir as ir
        import tf2onnx

        logging.getLogger("tf2onnx").setLevel(logging.ERROR)
        file = task.native_path(source)
        with tempfile.TemporaryDirectory() as folder:
            dense = litert.without_sparse(file, Path(folder) / "dense.tflite")
            proto, _ = tf2onnx.convert.from_tflite(str(dense))
        model = ir.from_proto(proto)
        for specs, values, order in zip(
            (task.inputs, task.outputs),
            (model.graph.inputs, model.graph.outputs),
            litert.places(file, task),
            strict=True,
        ):
            for spec, place in zip(specs, order, strict=True):
                values[place].name = spec.name
        onnx.save(ir.to_proto(model), target)
        return {"opset": next(opset.version for opset in proto.opset_import if not opset.domain)}
