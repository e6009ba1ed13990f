"""Whether an ONNX file keeps its task's inputs and outputs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api import UNKNOWN, TensorSpec
from bench.api.errors import ArtifactError
from bench.onnxfile.file.interface import check_interface, check_kept
from bench.plugins import catalog


def save(
    path: Path,
    *,
    output: str = "y",
    dtype: int = TensorProto.FLOAT,
    batch: int | str = "N",
    size: int = 8,
    reshape: tuple[int, ...] | None = None,
    stated: tuple[int | str, ...] | None = None,
) -> None:
    """A model with the interface of the toy task, or not quite; `stated` is the shape that it states of its output."""
    operator = helper.make_node("Identity", ["x"], [output])
    weights = []
    if reshape:
        operator = helper.make_node("Reshape", ["x", "shape"], [output])
        weights = [numpy_helper.from_array(np.array(reshape, dtype=np.int64), "shape")]
    x = helper.make_tensor_value_info("x", dtype, [batch, size])
    y = helper.make_tensor_value_info(output, dtype, stated or ["M", size])
    onnx.save(helper.make_model(helper.make_graph([operator], "graph", [x], [y], weights)), path)


def test_dynamic_dimensions_may_have_any_name(tmp_path: Path) -> None:
    save(tmp_path / "model.onnx", reshape=(-1, 8))
    check_interface(tmp_path / "model.onnx", catalog.task("toy"))
    save(tmp_path / "old.onnx", batch=-1, stated=(-1, 8))
    check_interface(tmp_path / "old.onnx", catalog.task("toy"))


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


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ({}, {"batch": "batch"}),
        # The statement of an old exporter is wrong in both files.
        ({"stated": ("M",)}, {"stated": ("M",)}),
        # A variant puts the rank that follows from the inputs in place of a wrong one.
        ({"stated": ("M",)}, {"stated": ("M", 8)}),
        ({"batch": 1, "stated": (1, 8)}, {"batch": 1, "stated": (1, 8)}),
        # Older exporters write -1 for a size that they leave open.
        ({}, {"stated": (-1, 8)}),
    ],
)
def test_changed_file_is_held_against_the_file_before_it(
    source: dict[str, Any], changed: dict[str, Any], tmp_path: Path
) -> None:
    save(tmp_path / "source.onnx", **source)
    save(tmp_path / "changed.onnx", **changed)
    check_kept(tmp_path / "changed.onnx", tmp_path / "source.onnx", catalog.task("toy"), may_fix=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"output": "z"}, "outputs are z; those of the file before it are y"),
        ({"dtype": TensorProto.DOUBLE}, "input x is float64 in the file, and float32 in the file before it"),
        ({"batch": 1}, r"input x is \(1, 8\) in the file, and \(\?, 8\) in the file before it"),
        ({"size": 9}, r"input x is \(\?, 9\)"),
        ({"stated": ("M", 8, 1)}, r"output y is \(\?, 8, 1\) in the file, and \(\?, 8\) in the file before it"),
        ({"reshape": (1, 8)}, r"output y is \(1, 8\)"),
    ],
)
def test_difference_from_the_file_before_is_named(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    save(tmp_path / "source.onnx")
    save(tmp_path / "changed.onnx", **change)
    with pytest.raises(ArtifactError, match=message):
        check_kept(tmp_path / "changed.onnx", tmp_path / "source.onnx", catalog.task("toy"), may_fix=False)


def test_sizes_may_be_fixed_where_the_variant_or_the_task_says_so(tmp_path: Path) -> None:
    save(tmp_path / "source.onnx")
    save(tmp_path / "changed.onnx", batch=1, stated=(1, 8))
    files, toy = (tmp_path / "changed.onnx", tmp_path / "source.onnx"), catalog.task("toy")
    check_kept(*files, toy, may_fix=True)
    known: Any = SimpleNamespace(
        inputs=(TensorSpec(name="x", dtype="float32", shape=(1, 8)),),
        outputs=(TensorSpec(name="y", dtype="float32", shape=(UNKNOWN, 8)),),
    )
    check_kept(*files, known, may_fix=False)
