"""LiteRT's `CompiledModel`, which is to follow its interpreter: the whole file compiled for the processor."""

from pathlib import Path

from bench.api import Runtime, Session, Task


class LiteRtCompiled(Runtime):
    """Opens `.tflite` files that have one signature."""

    title = "LiteRT CompiledModel"
    requires = ("ai_edge_litert",)
    extra = "litert"
    formats = ("tflite",)
    imports = ("ai_edge_litert.compiled_model", "ai_edge_litert.options")

    def open(self, artifact: Path, *, task: Task, source: str, provider: str, threads: int) -> Session:
        from ai_edge_litert.compiled_model import CompiledModel
        from ai_edge_litert.hardware_accelerator import HardwareAccelerator
        from ai_edge_litert.options import CpuOptions, Options

        from bench.plugins.engines.litert_compiled import CompiledSession

        options = Options(hardware_accelerators=HardwareAccelerator.CPU, cpu_options=CpuOptions(num_threads=threads))
        model = CompiledModel.from_file(str(artifact), options=options)
        return CompiledSession(model, artifact, task)
