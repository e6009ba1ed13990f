"""The exporter that writes shared weights once for each layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.api import Task
from bench.plugins import catalog, steps
from support import deferred
from support import variant_graphs as graphs

torch = deferred.importorskip("torch")
onnx = pytest.importorskip("onnx")

WIDTH, LAYERS = 32, 3

pytestmark = pytest.mark.framework("torch")


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Task:
    """One layer, gone through three times."""

    class Shared(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(WIDTH, WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(LAYERS):
                x = torch.tanh(self.layer(x))
            return x

    interface = graphs.model_of(
        [onnx.helper.make_node("Tanh", ["x"], ["y"])],
        {},
        inputs={"x": ["batch", "tokens", WIDTH]},
        outputs={"y": ["batch", "tokens", WIDTH]},
    )
    task: Task = graphs.task_of(interface, tokens=5)
    torch.manual_seed(0)
    model = Shared().eval()
    monkeypatch.setattr(type(task), "build", lambda self, source, weights: model)
    return task


def test_weights_are_copied_by_one_and_merged_by_the_other(task: Task, tmp_path: Path) -> None:
    copies, models = {}, {}
    for name in ("torch_onnx_untied", "torch_onnx_legacy"):
        path = tmp_path / f"{name}.onnx"
        steps.export(catalog.exporter(name), task, "torch", path)
        models[name] = model = onnx.load(path)
        assert [value.name for value in model.graph.input] == ["x"], "a weight is no input"
        copies[name] = sum(array.shape == (WIDTH, WIDTH) for array in graphs.stored(model).values())
    assert copies == {"torch_onnx_untied": LAYERS, "torch_onnx_legacy": 1}
    assert graphs.largest_error(models["torch_onnx_untied"], models["torch_onnx_legacy"], task) == 0
    merged, _ = graphs.apply("dedup", models["torch_onnx_untied"], tmp_path, task)
    assert sum(array.shape == (WIDTH, WIDTH) for array in graphs.stored(merged).values()) == 1
    inputs = task.samples("test").inputs
    before, after = (graphs.run(model, inputs) for model in (models["torch_onnx_untied"], merged))
    np.testing.assert_array_equal(before[0], after[0])
