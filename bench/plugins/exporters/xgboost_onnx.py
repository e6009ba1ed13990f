"""onnxmltools' translation of a model in XGBoost's own file to ONNX."""

from pathlib import Path

from bench.api import Exporter, Info, Task
from bench.plugins.engines import boosters, onnxml


class XGBoostOnnx(Exporter):
    """ONNX by `onnxmltools.convert_xgboost`, for a table of float32 numbers, at the opset that it prefers."""

    portable = True
    sources = ("xgboost",)
    requires = ("xgboost", "sklearn", "onnxmltools", "onnx", "onnx_ir")
    extra = "sklearn"
    writes = "onnx"

    def export(self, task: Task, source: str, target: Path) -> Info:
        import onnxmltools
        from onnxmltools.convert.common.data_types import FloatTensorType

        estimator = boosters.xgboost_estimator(task.build(source, task.native_path(source)))
        (spec,) = task.inputs
        kinds = [(spec.name, FloatTensorType([None, spec.shape[1]]))]
        return onnxml.save(onnxmltools.convert_xgboost(estimator, initial_types=kinds), task, target)
