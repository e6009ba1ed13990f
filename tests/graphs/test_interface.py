"""Whether an ONNX file keeps its task's inputs and outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api.errors import ArtifactError
from bench.graphs.file.interface import check_interface
from bench.plugins import catalog


def save(
    path: Path,
    *,
    output: str = "y",
    dtype: int = TensorProto.FLOAT,
    batch: int | str = "N",
    size: int = 8,
    reshape: tuple[int, ...] | None = None,
) -> None:
    """A model with the interface of the toy task, or not quite."""
    operator = helper.make_node("Identity", ["x"], [output])
    weights = []
    if reshape:
        operator = helper.make_node("Reshape", ["x", "shape"], [output])
        weights = [numpy_helper.from_array(np.array(reshape, dtype=np.int64), "shape")]
    x = helper.make_tensor_value_info("x", dtype, [batch, size])
    y = helper.make_tensor_value_info(output, dtype, ["M", size])
    onnx.save(helper.make_model(helper.make_graph([operator], "graph", [x], [y], weights)), path)


def test_dynamic_dimensions_may_have_any_name(tmp_path: Path) -> None:
    save(tmp_path / "model.onnx", reshape=(-1, 8))
    check_interface(tmp_path / "model.onnx", catalog.task("toy"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"output": "z"}, "outputs are z; the task's are y"),
        ({"dtype": TensorProto.DOUBLE}, "input x is float64 in the file; the task says float32"),
        ({"batch": 1}, r"input x is \(1, 8\)"),
        ({"size": 9}, r"input x is \(\?, 9\)"),
        # The file says that the batch is dynamic, the Reshape that it is not.
        ({"reshape": (1, 8)}, r"output y is \(1, 8\) in the file; the task says \('batch', 8\)"),
    ],
)
def test_difference_is_named(change: dict[str, object], message: str, tmp_path: Path) -> None:
    save(tmp_path / "model.onnx", **change)
    with pytest.raises(ArtifactError, match=message):
        check_interface(tmp_path / "model.onnx", catalog.task("toy"))
