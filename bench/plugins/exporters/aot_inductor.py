"""AOTInductor: the model compiled ahead of time into a library that needs PyTorch, but no Python."""

import os
import tempfile
from pathlib import Path
from typing import Any

from bench.api import Info, Task
from bench.onnxfile.deferred import torch
from bench.plugins.engines.pytorch.exporter import TorchExporter, dynamic_axes
from bench.plugins.engines.pytorch.runtime import no_compiler


class AotInductor(TorchExporter):
    """A `.pt2` package of frozen weights and code for this processor, for any batch and any number of threads."""

    writes = "pt2"
    compiles = True

    def skip(self) -> str | None:
        return super().skip() or no_compiler()

    def export(self, task: Task, source: str, target: Path) -> Info:
        with tempfile.TemporaryDirectory() as folder:  # an empty cache: earlier compilations have no influence
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
            os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
            return super().export(task, source, target)

    def convert(self, model: Any, example: tuple[Any, ...], task: Task, target: Path) -> Info:
        # Within bounds that the model sets itself, such as by a table of positions.
        dynamic = tuple(dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for axes in dynamic_axes(task.inputs).values())
        num_params = sum(parameter.numel() for parameter in model.parameters())
        torch._inductor.aoti_compile_and_package(
            torch.export.export(model, example, dynamic_shapes=dynamic),
            package_path=str(target),
            inductor_configs={
                "freezing": True,
                "cpp.dynamic_threads": True,  # the threads of the process that runs the package
                "aot_inductor.metadata": {"num_params": str(num_params)},
            },
        )
        return {}
