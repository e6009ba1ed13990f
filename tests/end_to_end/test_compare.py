"""`bench compare` at the real command line: two sweeps, and a model at two revisions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from onnx import ModelProto, TensorProto, helper

from support.features import needs

if TYPE_CHECKING:
    from conftest import Harness

pytestmark = needs("compare")

TOY = Path(__file__).parents[2] / "bench" / "plugins" / "models" / "toy"
FAULTS = Path(__file__).parents[1] / "faults"
RAW, FEWER = (f"toy/null/native/{variant}/null/cpu/b1t1" for variant in ("raw", "fewer"))
NULL = "null/native/raw/null/cpu/b1t1"
ONNX = "onnx/native/raw/onnxruntime/cpu/b1t1"
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def commit(folder: Path) -> None:
    settings = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "core.hooksPath=/dev/null")
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for arguments in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "as expected"]):
        subprocess.run(["git", "-C", folder, *settings, *arguments], check=True, capture_output=True, env=environment)


def small_model(note: str) -> ModelProto:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8]) for name in "xy"]
    node = helper.make_node("Relu", ["x"], ["y"], doc_string=note)
    graph = helper.make_graph([node], "graph", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def test_results_against_themselves(harness: Harness) -> None:
    harness.environment["BENCH_PATH"] = str(FAULTS)
    harness.here("run", RAW, FEWER, "--launches", "2")
    content = json.loads(harness.here("compare", "results", "results", "--format", "json", "--strict"))
    rows = {row["cell"]: row for row in content["cells"]}
    assert (rows[RAW]["is_baseline"], rows[RAW]["verdict"]) == (True, None)
    assert rows[FEWER]["verdict"] in ("noise", "undecided")
    assert rows[FEWER]["ratio_low"] < rows[FEWER]["ratio"] == 1 < rows[FEWER]["ratio_high"]
    assert rows[FEWER]["before"] == rows[FEWER]["after"]
    assert rows[FEWER]["before"]["num_launches"] == 2
    assert content["remarks"] == []


@needs_git
@pytest.mark.thorough
def test_task_folder_at_two_revisions(harness: Harness) -> None:
    """The second does ten times the work."""
    folder = harness.folder / "repository" / "mine"
    shutil.copytree(TOY, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for rounds in (10, 100):
        (folder / "weights.json").write_text(json.dumps({"rounds": rounds, "scale": 2.0}))
        commit(folder.parent)
    (folder / "weights.json").write_text("{}")  # not committed: of no consequence
    arguments = ("compare", "HEAD~1", "HEAD", "--model", str(folder), "--launches", "2", "--format", "json")
    content = json.loads(harness.here(*arguments))
    (row,) = content["cells"]
    assert row["cell"] == NULL
    assert row["ratio"] > 1
    assert row["before"]["num_launches"] == row["after"]["num_launches"] * 2 == 4, "A is its own control, too"
    assert content["a"]["name"].startswith("mine at HEAD~1 (")
    assert (folder / "weights.json").read_text() == "{}"
    assert not (harness.folder / "results").exists()
    said = harness.here("compare", "HEAD", "HEAD", "--model", str(folder))
    assert "the same at both revisions: nothing was measured" in said


@needs_git
@pytest.mark.thorough
def test_onnx_file_with_another_note(harness: Harness) -> None:
    folder = harness.folder / "repository"
    folder.mkdir()
    for note in ("", "another"):
        (folder / "m.onnx").write_bytes(small_model(note).SerializeToString())
        commit(folder)
    path = str(folder / "m.onnx")
    same = ("compare", "HEAD~1", "HEAD", ONNX, "--model", path)
    assert "the same graph with the same weights" in harness.here(*same)
    (row,) = json.loads(harness.here(*same, "--format", "json"))["cells"]
    assert row["before"]["num_launches"] == row["after"]["num_launches"] == 0
    assert "no revision 'v9'" in refused(harness, "compare", "v9", "HEAD", "--model", path)


def refused(harness: Harness, *arguments: str) -> str:
    harness.here(*arguments, code=2)
    lines = harness.stderr().splitlines()
    assert len(lines) == 1
    return lines[0]
