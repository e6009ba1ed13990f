"""OpenVINO's profiler: layers with the names of the tensors that are computed in them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from bench.plugins import catalog
from support import variant_graphs as graphs


def test_a_model_is_run(tmp_path: Path) -> None:
    """OpenVINO puts Conv and Relu together.

    Its profiler counts whole microseconds, so the layers must take some.
    """
    pytest.importorskip("openvino")
    model = graphs.model_of(
        [
            helper.make_node("Conv", ["x", "w"], ["a"]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("MaxPool", ["b"], ["y"], kernel_shape=[2, 2]),
        ],
        {"w": np.ones((5, 3, 3, 3), np.float32)},
        inputs={"x": ["batch", 3, 128, 128]},
        outputs={"y": ["batch", 5, 125, 125]},
    )
    onnx.save(model, tmp_path / "model.onnx")
    found = catalog.runtime("openvino").profile_nodes(
        tmp_path / "model.onnx",
        task=graphs.task_of(model),
        source="onnx",
        provider="cpu",
        threads=1,
        feeds={"x": np.ones((1, 3, 128, 128), np.float32)},
        num_runs=3,
    )
    assert found is not None
    by_operator = {one.operator: one for one in found}
    assert {"Convolution", "Pooling"} <= by_operator.keys()
    assert not {"Relu", "Eltwise", "Input", "Output"} & by_operator.keys()
    assert by_operator["Convolution"].covers == ("a", "b")
    assert by_operator["Convolution"].makes == ("b",)
    assert "y" in by_operator["Pooling"].covers
    assert {one.provider for one in found} == {"cpu"}
    assert by_operator["Convolution"].time_ns > 1_000
