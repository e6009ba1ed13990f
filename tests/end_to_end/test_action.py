"""The action on a sample repository, as GitHub runs its steps, where `bench` measures: the report is of real checks."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.github import run_action

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("bench")
WIDTH = 128


def save(path: Path, *, seed: int = 1, repeats: int = 0) -> None:
    """A layer, and after it as many multiplications by 1, which cost as much and change nothing."""
    names = ["x", *(f"h{number}" for number in range(repeats)), "y"]
    weights = {"w": np.random.default_rng(seed).standard_normal((WIDTH, WIDTH)), "one": np.eye(WIDTH)}
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", [before, "one" if number else "w"], [after])
            for number, (before, after) in enumerate(itertools.pairwise(names))
        ],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", WIDTH])],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()],
    )
    path.parent.mkdir(exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.mark.thorough
@pytest.mark.timing
def test_an_equal_a_wrong_and_a_slower_model(tmp_path: Path) -> None:
    """The slower one does sixty times the work: no load of the machine hides that."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    names: dict[str, dict[str, int]] = {"equal": {}, "wrong": {"seed": 2}, "slower": {"repeats": 60}}
    for name, fields in names.items():
        save(workspace / "base" / f"{name}.onnx")
        save(workspace / "head" / f"{name}.onnx", **fields)

    def run(name: str) -> tuple[int, str, dict[str, Any]]:
        ran = run_action(
            ROOT,
            {
                "pinned": f"base/{name}.onnx",
                "new": f"head/{name}.onnx",
                "options": "--tolerance 90% --launches 1",
                "bench": str(COMMAND),
            },
            workspace=workspace,
            environment={"BENCH_CACHE": str(tmp_path / "cache"), "BENCH_PATH": ""},
        )
        report = json.loads(Path(ran.outputs["report"], "report.json").read_text())
        assert ran.outputs["outcome"] == report["outcome"], ran.log
        return ran.code, ran.summary, report["checks"][0]

    code, summary, equal = run("equal")
    assert (code, equal["outputs"]) == (0, "exact")
    assert equal["outcome"] in ("fine", "undecided")
    assert f"| `head/equal.onnx` | {equal['ratio'][0]:.3f} [" in summary
    code, summary, wrong = run("wrong")
    assert (code, wrong["outcome"]) == (1, "wrong")
    assert "| wrong | `broken (the error of its outputs is " in summary, summary
    code, summary, slower = run("slower")
    assert (code, slower["outcome"], slower["outputs"]) == (1, "regression", "exact")
    value, low, high = slower["ratio"]
    assert 1.9 < low < value < high
    assert f"| {value:.3f} [{low:.3f}, {high:.3f}] | regression | `exact` |" in summary
