"""The guard on real files: the fixture in a user's test, and `bench check`. No test depends on measured times."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from conftest import Harness

COMMAND = Path(sys.executable).with_name("bench")
TESTS = """
from pathlib import Path
from bench.testing import guard

HERE = Path(__file__).parent

def test_same(guard):
    outcome = guard(HERE / "same.onnx", pinned=HERE / "pinned.onnx", max_launches=1, tolerance=0.9)
    assert outcome.fidelity == "exact"

def test_wrong(guard):
    guard(HERE / "wrong.onnx", pinned=HERE / "pinned.onnx", max_launches=1, tolerance=0.9)
"""


def make(path: Path, *, seed: int, columns: int = 3) -> None:
    weight = np.random.default_rng(seed).standard_normal((4, columns), dtype=np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", columns])],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, seed in (("pinned", 1), ("same", 1), ("wrong", 2)):
        make(tmp_path / f"{name}.onnx", seed=seed)
    (tmp_path / "test_mine.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")  # or settings of a folder above hold
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "BENCH_CACHE": str(folder / "cache"), "BENCH_PATH": "", "PYTEST_ADDOPTS": ""}
    return subprocess.run(
        arguments, cwd=folder, env=environment, capture_output=True, text=True, timeout=250, check=False
    )


@pytest.mark.timing
def test_fixture(folder: Path) -> None:
    pytest_ = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py")
    kept = ("--benchmark-json", "figures.json", "--benchmark-histogram", "figure")
    done = run(folder, *pytest_, *kept, "--benchmark-save", "first", "--benchmark-storage", "kept")
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "outputs broken (the error of its outputs is " in done.stdout
    figures = {found["name"]: found for found in json.loads((folder / "figures.json").read_text())["benchmarks"]}
    same = figures["test_same"]
    assert same["extra_info"]["fidelity"] == "exact"
    assert same["extra_info"]["num_launches"] == 1
    ratio = same["extra_info"]["ratio"]
    assert ratio["low"] <= ratio["value"] <= ratio["high"]
    assert same["stats"]["rounds"] > 10
    assert 0 < same["stats"]["min"] <= same["stats"]["median"] <= same["stats"]["max"] < 1
    assert (folder / "figure.svg").read_text().startswith("<?xml")
    compared = run(
        folder,
        *pytest_,
        "-k",
        "same",
        "--benchmark-compare",
        "0001",
        "--benchmark-storage",
        "kept",
        "--benchmark-group-by=name",
    )
    assert "test_same (0001_first)" in compared.stdout, compared.stdout
    skipped = run(folder, *pytest_, "--benchmark-disable")
    assert "2 skipped" in skipped.stdout, skipped.stdout


@pytest.mark.timing
def test_command(folder: Path) -> None:
    short = ("--launches", "1", "--tolerance", "90%")
    same = run(folder, str(COMMAND), "check", "pinned.onnx", "same.onnx", *short)
    assert same.returncode == 0, same.stderr
    assert "same/onnx/native/raw/onnxruntime/cpu/b1t1: " in same.stdout
    assert "outputs exact" in same.stdout
    wrong = run(folder, str(COMMAND), "check", "pinned.onnx", "wrong.onnx", *short)
    assert wrong.returncode == 1, wrong.stderr
    assert "outputs broken" in wrong.stdout


def test_what_cannot_be_compared_is_said(folder: Path, harness: Harness) -> None:
    make(folder / "other.onnx", seed=1, columns=5)
    renamed = onnx.load(folder / "same.onnx")
    renamed.graph.input[0].name = renamed.graph.node[0].input[0] = "image"
    (folder / "renamed.onnx").write_bytes(renamed.SerializeToString())
    for arguments, said in (
        (("renamed.onnx",), "renamed.onnx has other inputs or outputs than pinned.onnx"),
        (("nowhere.onnx",), "nowhere.onnx"),
        ((), "name the new model file, too"),
    ):
        harness.here("check", "pinned.onnx", *arguments, code=2)
        assert said in harness.stderr()
    other = harness.here("check", "pinned.onnx", "other.onnx", "--launches", "1", code=1)
    assert "outputs broken (output y has shape" in other
