"""onnxmltools' translation of a model in LightGBM's own file to ONNX."""

from pathlib import Path

from bench.api import Exporter, Info, Task
from bench.plugins.engines import onnxml


class LightGbmOnnx(Exporter):
    """ONNX by `onnxmltools.convert_lightgbm`, for a table of float32 numbers, at the opset that it prefers."""

    portable = True
    sources = ("lightgbm",)
    requires = ("lightgbm", "onnxmltools", "onnx", "onnx_ir")
    extra = "sklearn"
    writes = "onnx"

    def export(self, task: Task, source: str, target: Path) -> Info:
        import onnxmltools
        from onnxmltools.convert.common.data_types import FloatTensorType

        booster = task.build(source, task.native_path(source))
        (spec,) = task.inputs
        kinds = [(spec.name, FloatTensorType([None, spec.shape[1]]))]
        return onnxml.save(onnxmltools.convert_lightgbm(booster, initial_types=kinds), task, target)
