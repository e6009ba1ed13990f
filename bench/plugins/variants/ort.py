"""ONNX Runtime's offline optimization: the graph that it makes when it loads a model, saved."""

from pathlib import Path

from bench.api import Info, Task, Variant
from bench.plugins.engines.onnxruntime.optimized import write_optimized


class Ort(Variant):
    """The optimized graph at one level; `all` is for processors like this one: it holds their memory layout."""

    requires = ("onnxruntime", "onnx")
    options = ("all", "extended", "basic")

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        write_optimized(source, target, level=option)
        return {"level": f"ORT_ENABLE_{option.upper()}"}
