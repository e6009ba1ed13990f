"""Weights of 4 or 8 bits by onnxruntime-genai's own model builder, in blocks of 32."""

from pathlib import Path

from bench.api import Info, Task, Variant
from bench.api.errors import RefusedError
from bench.plugins.engines import genai


class Genai(Variant):
    """Builds the task's model anew in another precision: the builder quantizes a checkpoint, no folder of its own.

    Every matrix product is quantized, and its activations are rounded to 8 bits (MatMulNBits at accuracy level 4). A
    tied embedding is read from the same integers (GatherBlockQuantized).
    """

    portable = True
    requires = ("onnxruntime_genai", "onnx_ir", "torch", "transformers")
    extra = "generate"
    formats = (genai.FORMAT,)
    options = ("int4", "int8")
    lossy = True

    def apply(self, source: Path, target: Path, *, option: str, task: Task) -> Info:
        if genai.is_quantized(source):
            raise RefusedError("its weights are quantized already")
        return genai.build(task, option, target)
