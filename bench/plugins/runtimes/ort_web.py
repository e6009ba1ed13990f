"""onnxruntime-web in a page: WebAssembly with SIMD, on one thread or several."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.plugins.engines.browser.runtime import BrowserRuntime


class OrtWeb(BrowserRuntime):
    """Opens ONNX files by their bytes."""

    title = "ONNX Runtime Web"
    requires = ("npm:onnxruntime-web",)
    formats = ("onnx",)
    engine = "ort"

    def inspect(self, artifact: Path, *, provider: str, shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
        """The precision in which ONNX Runtime multiplies, by its optimizations here, which are those of the page."""
        from bench.plugins.engines.onnxruntime import precision

        return {"precision": precision.multiplies_in(artifact)}
