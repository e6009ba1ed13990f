"""MNN: what its converter says of a model that it cannot convert, and integers of more than 32 bits."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from bench.api.errors import ArtifactError
from bench.plugins import catalog
from bench.plugins.engines.pytorch.exporter import TorchThroughOnnxExporter
from support import variant_graphs as graphs

pytest.importorskip("MNN")

node = helper.make_node


def convert(nodes: list[onnx.NodeProto], folder: Path) -> Path:
    weights = {"zero": np.float32(0)}
    model = graphs.model_of(nodes, weights, inputs={"x": [1, 4]}, outputs={"y": [1, 4]})
    onnx.save(model, folder / "model.onnx")
    exporter: Any = catalog.exporter("torch_mnn")
    exporter.convert_onnx(folder / "model.onnx", graphs.task_of(model), folder / "model.mnn")
    return folder / "model.mnn"


def test_the_operator_that_mnn_does_not_have_is_named(tmp_path: Path) -> None:
    nodes = [node("IsNaN", ["x"], ["empty"]), node("Where", ["empty", "zero", "x"], ["y"])]
    with pytest.raises(ArtifactError) as raised:
        convert(nodes, tmp_path)
    assert str(raised.value) == "MNN cannot convert this model (status 0): These Op Not Support: ONNX::IsNaN"


def test_a_model_that_mnn_has_is_written(tmp_path: Path) -> None:
    assert convert([node("Add", ["x", "zero"], ["y"])], tmp_path).stat().st_size > 0


def test_a_part_of_a_file_is_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dies = "import sys; open(sys.argv[sys.argv.index('--MNNModel') + 1], 'w').write('a part'); sys.exit(3)"
    monkeypatch.setattr(inspect.getmodule(type(catalog.exporter("torch_mnn"))), "CONVERT", dies)
    with pytest.raises(ArtifactError) as raised:
        convert([node("Add", ["x", "zero"], ["y"])], tmp_path)
    assert str(raised.value) == "MNN cannot convert this model (status 3)"


def test_integers_that_have_no_room_are_refused(tmp_path: Path) -> None:
    types = {"x": onnx.TensorProto.INT64, "y": onnx.TensorProto.INT64}
    model = graphs.model_of(
        [node("Add", ["x", "x"], ["y"])], {}, inputs={"x": ["batch", 2]}, outputs={"y": ["batch", 2]}, types=types
    )
    onnx.save(model, tmp_path / "model.onnx")
    task, exporter = graphs.task_of(model), catalog.exporter("torch_mnn")
    assert isinstance(exporter, TorchThroughOnnxExporter)
    exporter.convert_onnx(tmp_path / "model.onnx", task, tmp_path / "model.mnn")
    how: dict[str, Any] = {"task": task, "source": "torch", "provider": "cpu", "threads": 1}
    with catalog.runtime("mnn").open(tmp_path / "model.mnn", **how) as session:
        (y,) = session.run({"x": np.array([[3, -(2**30)]])})
        np.testing.assert_array_equal(y, [[6, -(2**31)]])
        assert y.dtype == np.int64
        with pytest.raises(ArtifactError, match=r"^the file takes numbers as int32, in which -3000000000 has no room$"):
            session.run({"x": np.array([[3, -3_000_000_000]])})
