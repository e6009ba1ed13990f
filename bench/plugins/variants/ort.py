"""ONNX Runtime's offline optimization: the graph that it makes when it loads a model, saved."""

from pathlib import Path
from typing import Any

from bench.api import Task, Variant


class Ort(Variant):
    """The optimized graph at one level; `all` is for processors like this one: it holds their memory layout."""

    requires = ("onnxruntime", "onnx")
    options = ("all", "extended", "basic")

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> dict[str, Any]:
        import onnxruntime

        onnxruntime.disable_telemetry_events()
        level = f"ORT_ENABLE_{option.upper()}"
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        options.optimized_model_filepath = str(target)
        options.intra_op_num_threads = 1
        options.log_severity_level = 3  # it warns that level `all` is for this kind of processor only
        onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        return {"level": level}
