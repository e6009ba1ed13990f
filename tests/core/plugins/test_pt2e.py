"""PT2E of models that it cannot quantize: they are refused before anything is compiled or written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.api import Samples, TensorSpec
from bench.api.errors import RefusedError
from bench.plugins import catalog, steps
from bench.plugins.engines.pytorch import inductor
from support import deferred
from support import small_models as small

torch = deferred.importorskip("torch")
pytestmark = pytest.mark.framework("torch")


class StatesTask(small.SmallTask):
    """An LSTM, whose products are none of a linear layer's."""

    inputs = (TensorSpec(name="steps", dtype="float32", shape=("batch", 7, 8)),)
    outputs = (TensorSpec(name="states", dtype="float32", shape=("batch", 7, 8)),)

    def build(self, source: str, weights: Path) -> Any:
        class States(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.lstm = torch.nn.LSTM(8, 8, batch_first=True)

            def forward(self, steps: Any) -> Any:
                return torch.tanh(self.lstm(steps)[0])

        return States().eval()

    def samples(self, split: str) -> Samples:
        steps = np.random.default_rng(0).standard_normal((4, 7, 8), dtype=np.float32)
        return Samples(inputs={"steps": steps}, targets=None)


class LinearTask(StatesTask):
    """One layer that is quantized."""

    def build(self, source: str, weights: Path) -> Any:
        torch.manual_seed(0)
        return torch.nn.Linear(8, 8).eval()


@pytest.mark.parametrize("name", ["torch_pt2e", "torch_pt2e_onnx"])
def test_a_model_with_nothing_to_quantize_is_refused(name: str, tmp_path: Path) -> None:
    exporter = catalog.exporter(name)
    if (reason := exporter.skip()) is not None:
        pytest.skip(reason)
    with pytest.raises(RefusedError) as raised:
        steps.export(exporter, small.make_task(StatesTask), "torch", tmp_path / f"artifact.{exporter.writes}")
    assert str(raised.value) == "the model has no convolution and no linear layer that PT2E quantizes"
    assert list(tmp_path.iterdir()) == []


def test_a_linear_layer_is_quantized(tmp_path: Path) -> None:
    if (reason := catalog.exporter("torch_pt2e_onnx").skip()) is not None:
        pytest.skip(reason)
    onnx = pytest.importorskip("onnx")
    task = small.make_task(LinearTask)
    path = tmp_path / "artifact.onnx"
    steps.export(catalog.exporter("torch_pt2e_onnx"), task, "torch", path)
    assert "QuantizeLinear" in {node.op_type for node in onnx.load(path).graph.node}
    fed = task.samples("train").inputs["steps"]
    (output,) = small.run(path, steps=fed)
    expected = task.build("torch", path)(torch.from_numpy(fed)).detach().numpy()
    assert 0 < np.abs(output - expected).max() < 0.1


class OneTask(LinearTask):
    """The same layer, for a request that has no axis of samples."""

    batched = False
    inputs = (TensorSpec(name="steps", dtype="float32", shape=(7, 8)),)
    outputs = (TensorSpec(name="states", dtype="float32", shape=(7, 8)),)


@pytest.mark.parametrize(("kind", "shape"), [(LinearTask, (1, 7, 8)), (OneTask, (7, 8))])
def test_a_model_is_exported_for_one_sample(
    kind: type[LinearTask], shape: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = catalog.exporter("torch_pt2e")
    if (reason := exporter.skip()) is not None:
        pytest.skip(reason)
    programs: list[Any] = []
    monkeypatch.setattr(inductor, "package", lambda program, *_: programs.append(program))
    exporter.export(small.make_task(kind), "torch", tmp_path / "artifact.pt2")
    (fed,), _ = programs[0].example_inputs
    assert fed.shape == shape
