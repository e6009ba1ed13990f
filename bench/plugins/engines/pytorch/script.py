"""TorchScript files: PyTorch models with their code, which run without the code that built them."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import Any

from bench.onnxfile.deferred import torch

_PRECISION, _NUM_PARAMS = "precision", "num_params"


def save(
    model: torch.nn.Module, example: tuple[torch.Tensor, ...], target: Path, *, precision: str, num_params: int
) -> None:
    """Trace a model, which may not branch on its inputs, and write it with facts that the file cannot tell later."""
    # TorchScript is deprecated, but the only format that takes packed weights (2.13.0).
    with torch.no_grad(), warnings.catch_warnings(action="ignore"):
        script = torch.jit.trace(model, example, check_trace=False)
        torch.jit.save(script, str(target), _extra_files={_PRECISION: precision, _NUM_PARAMS: str(num_params)})


def is_script(path: Path) -> bool:
    """Whether a file is TorchScript, rather than weights."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith(f"/extra/{_PRECISION}") for name in archive.namelist())


def num_params(model: torch.nn.Module) -> int:
    """Parameters of a model; of TorchScript that was frozen, the constants that took their place in its graph."""
    return sum(tensor.numel() for tensor in _parameters(model))


def precision(model: torch.nn.Module) -> str | None:
    """The type of a model's parameters, in which PyTorch multiplies; None where they have several.

    `float32` where it has none.
    """
    dtypes = {tensor.dtype for tensor in _parameters(model) if tensor.is_floating_point()} or {torch.float32}
    return str(dtypes.pop()).removeprefix("torch.") if len(dtypes) == 1 else None


def _parameters(model: torch.nn.Module) -> list[torch.Tensor]:
    tensors = {parameter.data_ptr(): parameter.data for parameter in model.parameters()}
    if isinstance(model, torch.jit.ScriptModule) and not tensors:
        graph = model.inlined_graph
        statistics = {
            value.debugName() for node in graph.findAllNodes("aten::batch_norm") for value in list(node.inputs())[3:5]
        }
        for node in graph.findAllNodes("prim::Constant"):
            if node.output().debugName() in statistics or "value" not in node.attributeNames():
                continue
            if node.kindOf("value") == "t" and (tensor := node.t("value")).is_floating_point() and tensor.dim() > 0:
                tensors[tensor.data_ptr()] = tensor
    return list(tensors.values())


def load(path: Path) -> tuple[Any, str, int]:
    """The model that `save` wrote, its precision, and the number of its parameters in float32."""
    with warnings.catch_warnings(action="ignore"):
        model = torch.jit.load(str(path))
    with zipfile.ZipFile(path) as archive:
        facts = {name.rpartition("/")[2]: archive.read(name) for name in archive.namelist() if "/extra/" in name}
    return model, facts[_PRECISION].decode(), int(facts[_NUM_PARAMS])
