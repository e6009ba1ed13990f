"""AOTInductor: an exported program, compiled ahead of time into a `.pt2` package."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def package(program: torch.export.ExportedProgram, target: Path, num_params: int, precision: str | None) -> None:
    """Compile a program with frozen weights for this processor, for any number of threads.

    Args:
        program: the program.
        target: the package to write.
        num_params: parameters of the model, which the package tells.
        precision: the precision in which it multiplies, likewise; None for several.
    """
    import torch

    with tempfile.TemporaryDirectory() as folder:  # an empty cache: earlier compilations have no influence
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        torch._inductor.aoti_compile_and_package(
            program,
            package_path=str(target),
            inductor_configs={
                "freezing": True,
                "cpp.dynamic_threads": True,  # the threads of the process that runs the package
                "aot_inductor.metadata": {"num_params": str(num_params), "precision": precision or ""},
            },
        )
