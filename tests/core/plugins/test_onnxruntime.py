"""ONNX Runtime: checks beyond the contract that all runtimes keep."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api import Session
from bench.plugins import catalog


def open_doubling(model_path: Path, data_path: Path, location: str) -> Session:
    """A model of the toy task whose weight lies in another file."""
    weight = numpy_helper.from_array(np.full(8, 2, dtype=np.float32), "w")
    data_path.write_bytes(weight.raw_data)
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": "0", "length": "32"}.items():
        weight.external_data.add(key=key, value=value)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8]) for name in ("x", "y"))
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "graph", [x], [y], [weight])
    model_path.parent.mkdir(exist_ok=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    model_path.write_bytes(model.SerializeToString())
    return catalog.runtime("onnxruntime").open(
        model_path, task=catalog.task("toy"), source="null", provider="cpu", threads=1
    )


def test_external_data_beside_the_model(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    session = open_doubling(tmp_path / "model" / "model.onnx", tmp_path / "model" / "w.bin", "w.bin")
    (y,) = session.run({"x": np.ones((3, 8), dtype=np.float32)})
    assert y.tolist() == [[2.0] * 8] * 3


@pytest.mark.parametrize("absolute", [False, True])
def test_external_data_outside_the_folder_is_refused(absolute: bool, tmp_path: Path) -> None:
    outside = tmp_path / "outside.bin"
    with pytest.raises(Exception, match=r"(?i)external data"):
        open_doubling(tmp_path / "model" / "model.onnx", outside, str(outside) if absolute else "../outside.bin")


def test_external_data_through_a_link_is_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside.bin"
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "w.bin").symlink_to(outside)
    with pytest.raises(Exception, match=r"(?i)external data"):
        open_doubling(tmp_path / "model" / "model.onnx", outside, "w.bin")
