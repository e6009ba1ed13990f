"""openvino-genai on the processor, for a decoder in OpenVINO's own format.

Opening writes the folder that the pipeline reads, so it takes longer than with a folder that lies there.
"""

from __future__ import annotations

from pathlib import Path

from bench.api import Runtime, Session, Task
from bench.plugins.engines import cpu
from bench.plugins.engines.openvino import ir
from bench.plugins.engines.openvino.settings import CACHES, of_generation


class OpenVinoGenai(Runtime):
    """Opens OpenVINO IR in one archive."""

    title = "openvino-genai"
    requires = ("openvino_genai", "openvino")
    extra = "generate"
    formats = ("openvino",)
    generates = True
    scores = False

    def providers(self) -> tuple[str, ...]:
        return tuple(CACHES) if cpu.multiplies_bfloat16() else ("cpu",)

    def import_packages(self) -> None:
        ir.import_openvino()
        super().import_packages()

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        from bench.plugins.engines.openvino.genai import PipelineGenerator

        assert task.request is not None, "it only generates"
        _, num_bytes = CACHES[provider]
        return PipelineGenerator(artifact, task.request, of_generation(provider, threads), num_bytes)
