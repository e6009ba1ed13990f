"""onnxruntime-genai's own model builder, which writes the graph of a known architecture operator by operator."""

from pathlib import Path

from bench.api import Exporter, Info, Task
from bench.api.names import Role
from bench.plugins.engines import genai


class GenaiBuilder(Exporter):
    """A folder of onnxruntime-genai in float32 for the processor, with fused attention (GroupQueryAttention)."""

    portable = True
    generates = True
    requires = ("onnxruntime_genai", "onnx_ir", "torch", "transformers")
    extra = "generate"
    sources = ("torch",)
    writes = genai.FORMAT

    def refusal(self, task: Task) -> str | None:
        if task.role not in (Role.GENERATION, Role.DECODING_STEP):
            return "it builds decoders that generate text alone"
        return super().refusal(task)

    def export(self, task: Task, source: str, target: Path) -> Info:
        return genai.build(task, "fp32", target)
