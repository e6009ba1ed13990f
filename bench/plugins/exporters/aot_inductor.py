"""AOTInductor: the model compiled ahead of time into a library that needs PyTorch, but no Python."""

from pathlib import Path
from typing import Any

from bench.api import Info, Task
from bench.plugins.engines.pytorch import inductor, script
from bench.plugins.engines.pytorch.exporter import TorchExporter, exported
from bench.plugins.engines.pytorch.runtime import no_compiler


class AotInductor(TorchExporter):
    """A `.pt2` package of frozen weights and code for this processor, for any batch and any number of threads."""

    writes = "pt2"
    compiles = True

    def skip(self) -> str | None:
        return super().skip() or no_compiler()

    def convert(self, model: Any, example: tuple[Any, ...], task: Task, target: Path) -> Info:
        num_params = sum(parameter.numel() for parameter in model.parameters())
        inductor.package(exported(model, example, task), target, num_params, script.precision(model))
        return {}
