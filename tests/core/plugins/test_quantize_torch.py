"""PyTorch's dynamic quantization: the artifact runs in 8 bits at any batch size, without the task's builder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.api import Samples, TensorSpec
from bench.api.errors import ArtifactError, RefusedError
from bench.plugins import catalog
from support import deferred
from support import small_models as small

torch = deferred.importorskip("torch")
pytestmark = pytest.mark.framework("torch")


STEPS = np.random.default_rng(2).standard_normal((5, 7, 64)).astype(np.float32)


class StepsTask(small.SmallTask):
    inputs = (TensorSpec(name="steps", dtype="float32", shape=("batch", 7, 64)),)
    outputs = (TensorSpec(name="y", dtype="float32", shape=("batch", 7, 16)),)

    def build(self, source: str, weights: Path) -> Any:
        return build_reader()

    def samples(self, split: str) -> Samples:
        assert split == "train"
        return Samples(inputs={"steps": STEPS}, targets=None)


class ConvolutionTask(StepsTask):
    def build(self, source: str, weights: Path) -> Any:
        return torch.nn.Conv1d(7, 7, 1).eval()


def build_reader() -> Any:
    """Products and an LSTM."""

    class Reader(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(64, 128)
            self.lstm = torch.nn.LSTM(128, 128, batch_first=True)
            self.last = torch.nn.Linear(128, 16)

        def forward(self, steps_NTC: Any) -> Any:
            return self.last(self.lstm(torch.tanh(self.first(steps_NTC)))[0])

    torch.manual_seed(1)
    return Reader().eval()


def apply(task: Any, target: Path) -> dict[str, Any]:
    variant = catalog.variant("torch_int8_dynamic").variant
    return dict(variant.apply(target.with_name("no_weights"), target, option="", task=task))


def test_runs_in_8_bits_at_any_batch(tmp_path: Path) -> None:
    model, target = build_reader(), tmp_path / "model.torch"
    assert apply(small.make_task(StepsTask), target) == {"num_layers": 3}
    num_params = sum(parameter.numel() for parameter in model.parameters())
    assert target.stat().st_size < 4 * num_params / 3
    # A task that cannot build shows that the file has the model in it.
    task = small.make_task()
    task.inputs = StepsTask.inputs
    session = catalog.runtime("pytorch").open(target, task=task, source="torch", provider="cpu", threads=1)
    assert (session.precision, session.num_params) == ("int8", num_params)
    for batch in (1, 2, 5):
        with torch.inference_mode():
            expected = model(torch.from_numpy(STEPS[:batch])).numpy()
        outputs = session.run({"steps": STEPS[:batch]})
        assert 0 < small.drift(outputs, [expected]) < 0.1


def test_a_model_without_such_layers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="no linear layer and no LSTM"):
        apply(small.make_task(ConvolutionTask), tmp_path / "model.torch")
    assert not list(tmp_path.iterdir())


def test_torch_compile_says_that_it_cannot_read_it(tmp_path: Path) -> None:
    apply(small.make_task(StepsTask), tmp_path / "model.torch")
    runtime, task = catalog.runtime("torch_compile"), small.make_task(StepsTask)
    with pytest.raises(ArtifactError, match="run it with pytorch"):
        runtime.open(tmp_path / "model.torch", task=task, source="torch", provider="cpu", threads=1)
