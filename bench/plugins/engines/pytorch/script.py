"""TorchScript files: PyTorch models with their code, which run without the code that built them."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import Any

from bench.graphs.deferred import torch

PRECISION, NUM_PARAMS = "precision", "num_params"


def save(
    model: torch.nn.Module, example: tuple[torch.Tensor, ...], target: Path, *, precision: str, num_params: int
) -> None:
    """Trace a model, which may not branch on its inputs, and write it with facts that the file cannot tell later."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated, but the only format that takes packed weights (2.13.0)
        script = torch.jit.trace(model, example, check_trace=False)
        torch.jit.save(script, str(target), _extra_files={PRECISION: precision, NUM_PARAMS: str(num_params)})


def is_script(path: Path) -> bool:
    """Whether a file is TorchScript, rather than weights."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith(f"/extra/{PRECISION}") for name in archive.namelist())


def load(path: Path) -> tuple[Any, str, int]:
    """The model that `save` wrote, its precision, and the number of its parameters in float32."""
    extra = {PRECISION: "", NUM_PARAMS: ""}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = torch.jit.load(str(path), _extra_files=extra)
    precision, num_params = (
        text.decode() if isinstance(text, bytes) else text for text in (extra[PRECISION], extra[NUM_PARAMS])
    )
    return model, precision, int(num_params)
