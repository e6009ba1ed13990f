"""`bench explain`: from stored results to operator times, changes of the graph, and the first tensor that drifts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api.errors import InputError
from bench.plugins import catalog
from bench.records import folder as stored
from bench.tasks import adopt
from support.features import needs

pytestmark = needs("explain")
TOY = "toy/null/native/raw/{runtime}/cpu/b1t1"
DEADLY = '''
"""The null runtime, whose profiler ends the process."""

import os
import signal

from bench.plugins.runtimes.null import NullRuntime


class Deadly(NullRuntime):
    """Dies when it is profiled."""

    default_for = ()

    def profile_nodes(self, artifact, **request):
        os.kill(os.getpid(), signal.SIGKILL)
'''


def write_model(path: Path) -> None:
    """x (batch, 8) -> product with (8, 16), sum, Relu; Identity; product with (16, 4)."""
    random = np.random.default_rng(1)
    shapes = {"first": (8, 16), "bias": (16,), "second": (16, 4)}
    weights = {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "first"], ["product"]),
            helper.make_node("Add", ["product", "bias"], ["sum"]),
            helper.make_node("Relu", ["sum"], ["hidden"]),
            helper.make_node("Identity", ["hidden"], ["same"]),
            helper.make_node("MatMul", ["same", "second"], ["y"]),
        ],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.mark.thorough
def test_own_model_with_weights_of_8_bits(harness: Any) -> None:
    write_model(harness.folder / "mine.onnx")
    globs = [f"onnx/native/{chain}/onnxruntime/cpu/b1t1" for chain in ("raw", "onnxsim+weight_only-int8-sym-channel")]
    harness.here("run", "--model", "mine.onnx", *globs, "--launches", "1")
    raw, cell = (f"mine/{glob}" for glob in globs)

    told = json.loads(harness.here("explain", "*int8*", "--format", "json"))

    assert (told["after"]["cell"], told["before"]["cell"]) == (cell, raw)
    for side in ("before", "after"):
        nodes = told[side]["nodes"]
        assert {node["provider"] for node in nodes} == {"CPUExecutionProvider"}
        assert told[side]["profiled_ns"] == sum(node["time_ns"] for node in nodes)
        assert sum(one[f"{side}_nodes"] for one in told["operators"]) == len(nodes)
        assert sum(one["count"] * sum(one[side].values()) for one in told["changes"]) == len(nodes)
    assert "DequantizeLinear" not in {node["operator"] for node in told["before"]["nodes"]}

    assert [step["step"] for step in told["steps"]] == ["native", "onnxsim", "weight_only-int8-sym-channel"]
    assert told["steps"][0]["num_nodes"] == 5
    assert told["steps"][1]["removed"] == {"Identity": 1}
    assert told["steps"][2]["added"] == {"DequantizeLinear": 2}
    assert told["steps"][2]["changed_weights"] > 0

    drift = told["drift"]
    assert drift["first"]["name_before"] == "product"
    assert drift["between_after"] == {"DequantizeLinear": 1, "MatMul": 1}
    assert drift["tolerance"] < drift["first"]["error"] < 0.01
    assert drift["made_of"] == []
    assert drift["output"]["name"] == "y"

    text = harness.here("explain", cell, "--vs", "mine.onnx", "--tolerance", "10%")
    assert f"before  {raw}" in text
    for part in ("Where the time goes", "What became of what", "What each step changed", "bench graph diff "):
        assert part in text
    assert "CPUExecutionProvider" in text
    assert "The outputs agree: y (" in text
    assert "The row is drifted all the same" in text
    alone = harness.here("explain", "mine.onnx", "--format", "md")
    assert "### Where drift first appears\n\nNot told: there is nothing to hold it against" in alone
    assert "| operator | nodes | ms | share |" in alone

    shutil.copyfile(harness.folder / "mine.onnx", harness.folder / "other.onnx")
    for arguments, said in (
        (("other.onnx",), "other.onnx was not measured; `bench run --model other.onnx` measures it"),
        ((cell, "--dim", "batch=2"), "is a cell, which has its own (leave them out, or name a file)"),
    ):
        harness.here("explain", *arguments, code=2)
        assert said in harness.stderr()


@pytest.mark.thorough
def test_file_that_was_measured_at_several_sizes(harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest is explained and the others are named; a size may be asked for, and one that was not measured."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "length", 4])],
        [numpy_helper.from_array(np.ones((8, 4), np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, harness.folder / "sized.onnx")
    plain, at = "onnx/native/raw/onnxruntime/cpu/b1t1", "sized@length={}/onnx/native/raw/onnxruntime/cpu/b1t1"
    run = ("run", "--model", "sized.onnx", plain, "--launches", "1", "--dim")
    monkeypatch.chdir(harness.folder)
    monkeypatch.setenv("BENCH_CACHE", harness.environment["BENCH_CACHE"])

    def explained(*dims: str) -> str:
        """The cell that the command would explain."""
        from bench.features.explain.model_cells import plain_cell

        catalog.forget()
        try:
            return plain_cell(stored.read(Path("results")), Path("sized.onnx"), adopt.Options(dims=dims)).path
        finally:
            catalog.forget()

    harness.here(*run, "length=24")
    assert explained() == explained("length=24") == f"sized/{plain}"
    harness.here(*run, "length=5,9")
    assert explained("length=5") == at.format(5)
    assert explained("length=9") == at.format(9)
    with pytest.raises(InputError, match=r"sized\.onnx was not measured at length=6; `bench explain` also takes sized"):
        explained("length=6")
    told = json.loads(harness.here("explain", "sized.onnx", "--format", "json"))
    assert told["after"]["cell"] == at.format(9)
    assert f"this is {at.format(9)}; `bench explain` also takes {at.format(5)}" in harness.stderr()


@pytest.mark.thorough
def test_what_cannot_be_told_is_said(harness: Any) -> None:
    """A runtime without a profiler, one that dies of it, an artifact that is no ONNX file; then a refusal."""
    runtimes = harness.folder / "plugins" / "runtimes"
    runtimes.mkdir(parents=True)
    (runtimes / "deadly.py").write_text(DEADLY)
    harness.environment["BENCH_PATH"] = str(runtimes.parent)
    null, deadly = (TOY.format(runtime=name) for name in ("null", "deadly"))
    harness.here("run", null, deadly, "--launches", "1")

    text = " ".join(harness.here("explain", null).split())
    assert f"{null}: null has no profiler that can be asked" in text
    assert "Its artifact is no ONNX file but null" in text
    assert "Not told: " in text
    text = " ".join(harness.here("explain", deadly).split())
    assert f"{deadly}: the profiler of deadly tells nothing: killed by SIGKILL" in text

    harness.here("explain", "toy/*", code=2)
    assert "one cell at a time; 'toy/*' names" in harness.stderr()
    harness.here("explain", null, "--vs", "mine", code=2)
    assert "no result matches 'mine'" in harness.stderr()
    for path in harness.files():
        path.write_text(path.read_text().replace('"sha256":"', '"sha256":"0'))
    harness.here("explain", null, code=2)
    assert f"what is made of {null} now is not what was measured: its digest is " in harness.stderr()
    assert f"(`bench run '{null}'` measures it anew)" in harness.stderr()
