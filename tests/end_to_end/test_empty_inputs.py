"""`bench run --model` with a size of 0: a runtime that fails then says so in its own row, and in no other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from conftest import Harness

FLOAT = TensorProto.FLOAT
SHORT = ("--launches", "1", "--budget", "5s")
FAILING = """
import os
from bench.api import Session
from bench.plugins.runtimes.onnxruntime import OnnxRuntime


class FailingSession(Session):
    def __init__(self, session):
        self._session = session

    def run(self, feeds):
        if not all(array.size for array in feeds.values()):
            {fails}
        return self._session.run(feeds)


class Failing(OnnxRuntime):
    default_for = ()

    def providers(self):
        return ("cpu",)

    def open(self, artifact, **how):
        return FailingSession(super().open(artifact, **how))
"""
FAILURES = {
    "raising": ('raise ValueError("no rows")', "ValueError: no rows (raising.py, line 13)"),
    "dying": ("os.abort()", "killed by SIGABRT"),
}
"""By the name of a runtime that fails, its code, and the reason of its row."""


@pytest.fixture
def measured(harness: Harness) -> Any:
    """Saves a model as `own.onnx`, measures it on runtimes at sizes, and gives the rows by size and runtime."""
    folder = harness.folder / "plugins" / "runtimes"
    folder.mkdir(parents=True)
    for name, (fails, _) in FAILURES.items():
        (folder / f"{name}.py").write_text(FAILING.format(fails=fails))
    harness.environment["BENCH_PATH"] = str(harness.folder / "plugins")

    def run(model: onnx.ModelProto, dim: str, *runtimes: str) -> Mapping[tuple[str, str], dict[str, Any]]:
        (harness.folder / "own.onnx").write_bytes(model.SerializeToString())
        globs = [f"onnx/native/raw/{name}/cpu/b1t1" for name in runtimes]
        harness.here("run", "--model", "own.onnx", "--dim", dim, *globs, *SHORT)
        rows = json.loads(harness.here("show", "--format", "json"))
        return {(row["task"].partition("@")[2], row["runtime"]): row for row in rows}

    return run


def model_of(
    nodes: Sequence[onnx.NodeProto],
    x: Sequence[str | int],
    y: Sequence[str | int],
    weights: Mapping[str, np.ndarray],
) -> onnx.ModelProto:
    sides = [[helper.make_tensor_value_info(name, FLOAT, shape)] for name, shape in (("x", x), ("y", y))]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "graph", *sides, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def summed(x: Sequence[str | int], axis: int) -> onnx.ModelProto:
    """The sum along an axis, to which no elements add nothing, and one."""
    nodes = [
        helper.make_node("ReduceSum", ["x", "axis"], ["sum"], keepdims=0),
        helper.make_node("Add", ["sum", "one"], ["y"]),
    ]
    y = [dim for number, dim in enumerate(x) if number != axis]
    return model_of(nodes, x, y, {"axis": np.array([axis]), "one": np.ones(4, np.float32)})


@pytest.mark.parametrize(
    ("x", "dim"),
    [
        pytest.param(("batch", "tokens", 4), "tokens", id="sequence"),
        pytest.param(("batch", 4), "batch", id="batch", marks=pytest.mark.thorough),
    ],
)
def test_a_runtime_that_fails_at_size_0_says_so_in_its_own_row_alone(
    x: Sequence[str | int], dim: str, measured: Any
) -> None:
    rows = measured(summed(x, x.index(dim)), f"{dim}=0,3", "onnxruntime", *FAILURES)
    assert set(rows) == {(f"{dim}={size}", name) for size in (0, 3) for name in ("onnxruntime", *FAILURES)}
    for (size, name), row in rows.items():
        if size == f"{dim}=0" and name in FAILURES:
            assert (row["status"], row["fidelity"], row["reason"]) == ("failed", None, FAILURES[name][1])
            assert row["latency_p50_ns"] is None
        else:
            assert (row["status"], row["fidelity"], row["reason"]) == ("ok", "exact", None), (size, name)
            assert row["latency_p50_ns"] > 0


@pytest.mark.thorough
def test_a_model_that_the_usual_runtime_refuses_at_size_0_has_the_rows_of_the_others(measured: Any) -> None:
    """ONNX Runtime refuses a convolution of no elements."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"])]
    model = model_of(nodes, ("batch", 3, "length"), ("batch", 2, "length"), {"w": np.ones((2, 3, 1), np.float32)})
    rows = measured(model, "length=0", "onnxruntime", "openvino", "raising")
    rows = {name: row for (_, name), row in rows.items()}
    assert (rows["openvino"]["status"], rows["openvino"]["fidelity"]) == ("ok", "exact")
    for name in ("onnxruntime", "raising"):
        assert rows[name]["status"] == "failed"
        assert " fails on a file that OpenVINO " in rows[name]["reason"]


def test_a_model_at_which_the_usual_runtime_dies_has_the_rows_of_the_others(measured: Any) -> None:
    """ONNX Runtime 1.31.1 aborts at a recurrent layer without a step, with and without its optimizations."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["steps"], perm=[1, 0, 2]),
        helper.make_node("GRU", ["steps", "w", "r"], ["", "last"], hidden_size=4),
        helper.make_node("Squeeze", ["last", "first"], ["y"]),
    ]
    weights = {name: np.full((1, 12, 4), 0.1, np.float32) for name in "wr"} | {"first": np.array([0])}
    rows = measured(
        model_of(nodes, ("batch", "tokens", 4), ("batch", 4), weights), "tokens=0", "onnxruntime", "openvino"
    )
    rows = {name: row for (_, name), row in rows.items()}
    assert (rows["openvino"]["status"], rows["openvino"]["fidelity"]) == ("ok", "exact")
    own = rows["onnxruntime"]
    assert own["status"] == "ok" or own["reason"].endswith("runs: killed by SIGABRT"), own["reason"]
