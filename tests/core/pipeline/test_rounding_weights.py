"""The weights of models of PyTorch and Keras that change by a few roundings, and models below float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.pipeline import rounding
from bench.tasks.user_task import OwnTask

pytestmark = pytest.mark.framework


class Built(OwnTask):
    """A task that is built in a framework."""

    model: Any

    def build(self, source: str, weights: Path) -> Any:
        return self.model


def changed_model(model: Any) -> Any:
    task = Built(name="built", path=Path("task.py"))
    task.model = model
    return rounding.with_changed_weights(task, np.random.default_rng(0)).build("torch", Path("weights"))


def test_weights_of_pytorch_are_changed_and_its_buffers_stay() -> None:
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Embedding(3, 2))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    after = changed_model(model).state_dict()
    differs = [name for name, tensor in after.items() if not torch.equal(tensor, before[name])]
    assert differs == ["0.weight", "2.weight"]
    assert torch.allclose(after["0.weight"], before["0.weight"], rtol=2 * rounding.CHANGE)
    for reduced in (model.half(), model.bfloat16()):
        with pytest.raises(rounding.ReducedError):
            changed_model(reduced)


def test_weights_of_keras_are_changed() -> None:
    import keras

    def made(dtype: str) -> Any:
        return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, dtype=dtype)])

    before = made("float32")
    kernel, bias = before.get_weights()
    after, same = changed_model(before).get_weights()
    np.testing.assert_allclose(after, kernel, rtol=2 * rounding.CHANGE)
    assert (after != kernel).all()
    assert (same == bias).all()
    with pytest.raises(rounding.ReducedError):
        changed_model(made("float16"))


@pytest.mark.filterwarnings("ignore:.*deprecated")
@pytest.mark.parametrize("how", ["module", "scripted", "frozen"])
@pytest.mark.parametrize("kind", ["linear", "lstm", "cell", "static"])
def test_packed_weights_of_pytorch_are_below_float32(kind: str, how: str) -> None:
    """Which are neither parameters nor buffers."""
    import torch
    from torch import nn
    from torch.ao.nn import quantized

    if torch.backends.quantized.engine == "none":
        pytest.skip("PyTorch has no kernels for int8 on this processor")
    makes = {
        "linear": lambda: quantized.dynamic.Linear(4, 4),
        "lstm": lambda: quantized.dynamic.LSTM(4, 4),
        "cell": lambda: quantized.dynamic.GRUCell(4, 4),
        "static": lambda: quantized.Conv2d(4, 4, 1),
    }
    model: Any = nn.Sequential(nn.Linear(4, 4), makes[kind]()).eval()
    if how != "module":
        model = torch.jit.script(model)
        model = torch.jit.freeze(model) if how == "frozen" else model
    with pytest.raises(rounding.ReducedError):
        changed_model(model)


@pytest.mark.parametrize("how", ["module", "scripted", "frozen"])
def test_models_of_pytorch_without_packed_weights_are_changed(how: str) -> None:
    import torch

    model: Any = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval()
    if how != "module":
        model = torch.jit.script(model)
        model = torch.jit.freeze(model) if how == "frozen" else model
    assert changed_model(model) is model
