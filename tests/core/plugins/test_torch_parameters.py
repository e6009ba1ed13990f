"""Parameters of PyTorch's modules and of TorchScript, whose frozen models have constants in their place."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from bench.plugins import catalog
from bench.plugins.engines.pytorch import script
from bench.plugins.engines.pytorch.runtime import TorchRuntime
from support import deferred

torch = deferred.importorskip("torch")

pytestmark = pytest.mark.framework("torch")


def layers() -> Any:
    torch.manual_seed(0)
    shared = torch.nn.Linear(8, 8, bias=False)
    parts = [torch.nn.Linear(4, 8), torch.nn.ReLU(), shared, torch.nn.ReLU(), shared, torch.nn.Linear(8, 1)]
    return torch.nn.Sequential(*parts).eval()


@pytest.mark.parametrize("form", ["module", "scripted", "traced", "frozen", "frozen trace"])
def test_parameters_of_torch_script_are_those_of_the_module(form: str, tmp_path: Path) -> None:
    """A frozen model has constants in its graph in place of parameters."""
    model = layers()
    if form != "module":
        found = torch.jit.trace(model, torch.ones(1, 4)) if "trace" in form else torch.jit.script(model)
        torch.jit.save(torch.jit.freeze(found) if "frozen" in form else found, str(tmp_path / "model.pt"))
        model = torch.jit.load(str(tmp_path / "model.pt"))
    assert script.num_params(model) == (4 * 8 + 8) + 8 * 8 + (8 + 1)


def test_statistics_of_a_frozen_normalization_are_no_parameters(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)).eval()
    for tensor in model.state_dict().values():  # freezing merges equal constants
        if tensor.is_floating_point():
            tensor += torch.rand_like(tensor)
    torch.jit.save(torch.jit.freeze(torch.jit.script(model)), str(tmp_path / "model.pt"))
    assert script.num_params(torch.jit.load(str(tmp_path / "model.pt"))) == 2 * 8 + 8 * 3 + 3


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        ((), "float32"),
        (("float32", "float32"), "float32"),
        (("bfloat16", "bfloat16"), "bfloat16"),
        (("float16", "float32"), None),
    ],
)
def test_precision_is_the_type_of_the_parameters(dtypes: tuple[str, ...], expected: str | None) -> None:
    model = torch.nn.Sequential(torch.nn.ReLU(), *(torch.nn.Linear(2, 2).to(getattr(torch, name)) for name in dtypes))
    assert script.precision(model.eval()) == expected
    with warnings.catch_warnings(action="ignore"):
        frozen = torch.jit.freeze(torch.jit.script(model.eval()))
    assert script.precision(frozen) == expected


def test_a_row_of_pytorch_has_the_precision_of_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    task, runtime = catalog.task("toy"), catalog.runtime("pytorch")
    model = torch.nn.Linear(8, 8).to(torch.bfloat16)
    monkeypatch.setattr(type(task), "build", lambda *_: model)
    assert isinstance(runtime, TorchRuntime)

    def precision_on(provider: str) -> str | None:
        return runtime.session(task.weights_path, task=task, source="torch", provider=provider).precision

    assert precision_on("cpu") == "bfloat16"
    model.half()
    assert precision_on("cpu") == "float16"
    assert precision_on("cpu-bf16") == "bfloat16"
    model.float()
    assert precision_on("cpu") == "float32"
