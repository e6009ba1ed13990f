"""skl2onnx: a scikit-learn estimator as ONNX, and those of XGBoost and LightGBM by onnxmltools' converters."""

from pathlib import Path

from bench.api import Exporter, Info, Task
from bench.plugins.engines import estimators, onnxml

_ML_OPSET = 3
"""The opset of the domain `ai.onnx.ml`: onnxmltools' converters take no other."""


class Skl2Onnx(Exporter):
    """ONNX by `skl2onnx.convert_sklearn`, for a table of float32 numbers, at the opset that it prefers."""

    portable = True
    sources = ("sklearn",)
    requires = ("sklearn", "joblib", "skl2onnx", "onnxmltools", "onnx", "onnx_ir")
    extra = "sklearn"
    writes = "onnx"

    def export(self, task: Task, source: str, target: Path) -> Info:
        import skl2onnx
        from skl2onnx.common.data_types import FloatTensorType

        onnxml.register_boosters()
        estimator = task.build(source, task.native_path(source))
        for part in estimators.parts(estimator):
            if hasattr(part, "get_booster"):
                part.get_booster().feature_names = None  # onnxmltools takes no names but f0, f1 and so on
        (spec,) = task.inputs
        kinds = [(spec.name, FloatTensorType([None, spec.shape[1]]))]
        opsets = {"": skl2onnx.get_latest_tested_opset_version(), "ai.onnx.ml": _ML_OPSET}
        with onnxml.booleans_as_integers():
            proto = skl2onnx.convert_sklearn(estimator, initial_types=kinds, target_opset=opsets)
        return onnxml.save(proto, task, target)
