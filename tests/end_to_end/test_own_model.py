"""`bench run --model` on small models that are hard to measure: each cell ends ok, or with its reason."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from conftest import Harness

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
VOCABULARY, EMBEDDING, HIDDEN = 50, 16, 32
VARIANTS = ("raw", "dedup", "onnxoptimizer", "onnxsim", "ort-basic", "ort-extended", "ort-all", "onnxoptimizer+onnxsim")
CELLS = [f"onnx/native/{variant}/onnxruntime/cpu/b1t1" for variant in VARIANTS]
Run = Callable[..., list[dict[str, Any]]]
OUTCOME = re.compile(r"bench: (\d+ )?(winner|keep|none)\b")
DECIDES = re.compile(rf"{OUTCOME.pattern}|bench: next: bench |bench: next: the same command")
"""Lines that have the decision of a run, or the next command."""


@pytest.fixture
def run(harness: Harness) -> Run:
    """Saves a model as `own.onnx`, measures it for a moment and gives the rows."""
    harness.environment["COLUMNS"] = "200"

    def run(model: onnx.ModelProto, *globs: str, code: int = 0) -> list[dict[str, Any]]:
        (harness.folder / "own.onnx").write_bytes(model.SerializeToString())
        printed = harness.here("run", "--model", "own.onnx", *globs, "--budget", "30s", "--launches", "1", code=code)
        if code == 0:
            *_, outcome, last = [line for line in harness.stderr().splitlines() if DECIDES.match(line)]
            assert OUTCOME.match(outcome)
            assert last == harness.stderr().splitlines()[-1]
        assert "Traceback" not in printed
        rows: list[dict[str, Any]] = json.loads(harness.here("show", "--format", "json"))
        for row in rows:
            assert row["status"] == "skipped" or row["variant"] in printed, "the table shows every cell"
            assert row["status"] == "ok" or row["reason"]
        return rows

    return run


def make_model(
    inputs: dict[str, tuple[int, list[Any]]],
    outputs: dict[str, tuple[int, list[Any]]],
    nodes: list[onnx.NodeProto],
    weights: dict[str, np.ndarray],
) -> onnx.ModelProto:
    values = [[helper.make_tensor_value_info(name, *of) for name, of in side.items()] for side in (inputs, outputs)]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "graph", *values, tensors)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def weights(**shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(1)
    return {name: 0.3 * generator.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}


@pytest.mark.thorough
def test_recurrent_model_with_tokens_and_state(run: Run) -> None:
    """Tokens and a state in; logits, classes and the next state out; the batch first in each."""
    rows = run(
        make_model(
            {"tokens": (INT64, ["batch", "seq"]), "state": (FLOAT, ["batch", 1, HIDDEN])},
            {
                "logits": (FLOAT, ["batch", "seq", 10]),
                "classes": (INT64, ["batch", "seq"]),
                "next_state": (FLOAT, ["batch", 1, HIDDEN]),
            },
            [
                helper.make_node("Gather", ["embedding", "tokens"], ["embedded_BTE"]),
                helper.make_node("Transpose", ["embedded_BTE"], ["embedded_TBE"], perm=[1, 0, 2]),
                helper.make_node("Transpose", ["state"], ["state_DBH"], perm=[1, 0, 2]),
                helper.make_node(
                    "LSTM",
                    ["embedded_TBE", "W", "R", "", "", "state_DBH"],
                    ["all_TDBH", "last_DBH"],
                    hidden_size=HIDDEN,
                ),
                helper.make_node("Squeeze", ["all_TDBH", "one"], ["all_TBH"]),
                helper.make_node("Transpose", ["all_TBH"], ["all_BTH"], perm=[1, 0, 2]),
                helper.make_node("MatMul", ["all_BTH", "head"], ["logits"]),
                helper.make_node("ArgMax", ["logits"], ["classes"], axis=-1, keepdims=0),
                helper.make_node("Transpose", ["last_DBH"], ["next_state"], perm=[1, 0, 2]),
            ],
            {
                **weights(
                    embedding=(VOCABULARY, EMBEDDING),
                    W=(1, 4 * HIDDEN, EMBEDDING),
                    R=(1, 4 * HIDDEN, HIDDEN),
                    head=(HIDDEN, 10),
                ),
                "one": np.array([1]),
            },
        ),
        *CELLS,
    )
    found = {row["variant"]: row for row in rows}
    assert found.keys() == set(VARIANTS)
    for row in rows:
        assert (row["status"], row["reason"]) == ("ok", None), row
        assert row["fidelity"] in ("exact", "close")
        assert row["metric"] > 80
        assert row["num_launches"] or row["same_as"] or row["variant"] != "raw"
    baseline = found["raw"]
    assert baseline["cell"] == "own/onnx/native/raw/onnxruntime/cpu/b1t1"
    assert (baseline["ratio"], baseline["metric"], baseline["loss"]) == (1.0, 120.0, 0.0)
    assert baseline["latency_p50_ns"] > 0


@pytest.mark.thorough
def test_batch_elsewhere_than_first_and_a_scalar(run: Run) -> None:
    """Each sample is a whole request: time first, the state's batch second, a rate without any axis."""
    (row,) = run(
        make_model(
            {"x": (FLOAT, ["seq", "batch", EMBEDDING]), "state": (FLOAT, [1, "batch", HIDDEN]), "rate": (FLOAT, [])},
            {"y": (FLOAT, ["seq", 1, "batch", HIDDEN]), "next_state": (FLOAT, [1, "batch", HIDDEN])},
            [
                helper.make_node("LSTM", ["x", "W", "R", "", "", "state"], ["y", "last"], hidden_size=HIDDEN),
                helper.make_node("Mul", ["last", "rate"], ["next_state"]),
            ],
            weights(W=(1, 4 * HIDDEN, EMBEDDING), R=(1, 4 * HIDDEN, HIDDEN)),
        ),
        "onnx/native/raw/onnxruntime/cpu/b1t1",
    )
    assert (row["status"], row["fidelity"], row["num_launches"] > 0) == ("ok", "exact", True)


def test_sizes_are_rows_of_one_family(run: Run) -> None:
    """The file is prepared once; each size and batch is a request with its own baseline."""
    rows = run(
        make_model(
            {"x": (FLOAT, ["batch", "length", EMBEDDING])},
            {"y": (FLOAT, ["batch", "length", HIDDEN])},
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            weights(w=(EMBEDDING, HIDDEN)),
        ),
        "onnx/native/raw/onnxruntime/cpu/b1t1",
        "--dim",
        "length=2000,4",
        "--dim",
        "batch=1,3",
    )
    requests = [(4, 1), (4, 3), (2000, 1), (2000, 3)]
    assert [(row["task"], row["batch"]) for row in rows] == [(f"own@length={size}", batch) for size, batch in requests]
    assert {(row["status"], row["fidelity"] in ("exact", "close")) for row in rows} == {("ok", True)}
    small, large = rows[0], rows[2]
    assert large["macs"] == 500 * small["macs"] == 2000 * EMBEDDING * HIDDEN
    assert large["latency_p50_ns"] > small["latency_p50_ns"]


@pytest.mark.thorough
def test_batch_fixed_at_four(run: Run, tmp_path: Path) -> None:
    rows = run(
        make_model(
            {"x": (FLOAT, [4, 3, 8, 8])},
            {"y": (FLOAT, [4, 5, 8, 8])},
            [helper.make_node("Conv", ["x", "kernel"], ["y"], pads=[1, 1, 1, 1])],
            weights(kernel=(5, 3, 3, 3)),
        ),
        "onnx/native/raw/onnxruntime/cpu/b1t1",
        "onnx/native/raw/onnxruntime/cpu/b2t1",
    )
    one, two = sorted(rows, key=lambda row: row["batch"])
    assert (one["status"], one["fidelity"]) == ("ok", "exact")
    assert two["status"] == "failed"
    assert "own takes one whole request at a time; the batch must be 1, not 2" in two["reason"]
    (record,) = [path for path in (tmp_path / "results").rglob("*.jsonl") if "b1t1" in path.read_text()]
    (quality,) = [line for line in map(json.loads, record.read_text().splitlines()) if line["kind"] == "quality"]
    assert quality["input_shapes"] == {"x": [4, 3, 8, 8]}


@pytest.mark.parametrize("cells", [CELLS[::7], pytest.param(CELLS, marks=pytest.mark.thorough)], ids=len)
def test_operator_that_the_runtime_does_not_have(cells: list[str], run: Run) -> None:
    node = helper.make_node("Unheard", ["x"], ["y"], domain="mine")
    model = make_model({"x": (FLOAT, ["batch", 8])}, {"y": (FLOAT, ["batch", 8])}, [node], {})
    rows = run(model, *cells, code=1)  # no cell could be timed
    assert len(rows) == len(cells)
    for row in rows:
        assert row["status"] == "failed"
        assert "mine:Unheard(-1) is not a registered function/op" in row["reason"]


@pytest.mark.thorough
def test_file_that_optimizations_of_the_runtime_break(run: Run) -> None:
    """Its own rows fail, and no others: without its optimizations it is the reference, and it runs another copy."""
    nodes = [
        helper.make_node("Cast", ["x"], ["same"], to=FLOAT),
        helper.make_node("Div", ["one", "std"], ["inverse"]),
        helper.make_node("Mul", ["same", "inverse"], ["y"]),
    ]
    weights = {"one": np.float32(1), "std": np.linspace(0.5, 2, 8, dtype=np.float32)}
    model = make_model({"x": (FLOAT, ["batch", 8])}, {"y": (FLOAT, ["batch", 8])}, nodes, weights)
    raw = "onnx/native/raw/{}/cpu/b1t1"
    names = ("onnxruntime", "onnxruntime_unoptimized", "openvino")
    rows = run(model, *map(raw.format, names), CELLS[3])
    found = {(row["variant"], row["runtime"]): row for row in rows}
    failed = found["raw", "onnxruntime"]
    assert failed["status"] == "failed"
    said = f"ONNX Runtime {onnxruntime.__version__} fails on a file that unoptimized ONNX Runtime"
    assert failed["reason"].startswith(said)
    for key in (("raw", "onnxruntime_unoptimized"), ("raw", "openvino"), ("onnxsim", "onnxruntime")):
        assert found[key]["status"] == "ok", found[key]["reason"]
        assert found[key]["fidelity"] in ("exact", "close")


@pytest.mark.thorough
def test_file_of_a_newer_format_than_the_runtime_reads(run: Run) -> None:
    model = make_model(
        {"x": (FLOAT, ["batch", 8])}, {"y": (FLOAT, ["batch", 8])}, [helper.make_node("Relu", ["x"], ["y"])], {}
    )
    model.ir_version = 99
    rows = run(model, CELLS[0], CELLS[0].replace("onnx/", "as_is/", 1))
    found = {row["source"]: row for row in rows}
    assert (found["onnx"]["status"], found["onnx"]["fidelity"]) == ("ok", "exact")
    assert found["as_is"]["status"] == "failed"
    assert "failed: Unsupported model IR version: 99, max supported" in found["as_is"]["reason"]


@pytest.mark.thorough
def test_no_number_of_threads_that_runs(run: Run) -> None:
    node = helper.make_node("Unheard", ["x"], ["y"], domain="mine")
    model = make_model({"x": (FLOAT, ["batch", 8])}, {"y": (FLOAT, ["batch", 8])}, [node], {})
    rows = run(model, "--sweep", "threads", code=1)
    assert {row["status"] for row in rows} == {"failed"}


@pytest.mark.thorough
def test_file_that_contradicts_itself(run: Run) -> None:
    """ONNX Runtime refuses it as it is; the other rows are those of a mended copy, in which both say the same."""
    model = make_model(
        {"x": (FLOAT, ["batch", 8])},
        {"y": (FLOAT, ["batch", 8])},
        [helper.make_node("ReduceMax", ["x"], ["most"]), helper.make_node("Mul", ["x", "most"], ["y"])],
        {},
    )
    model.graph.value_info.append(helper.make_tensor_value_info("most", INT64, [1, 1]))
    rows = run(model, CELLS[0], CELLS[0].replace("onnx/", "as_is/", 1), CELLS[3])
    found = {(row["source"], row["variant"]): row for row in rows}
    assert found["as_is", "raw"]["status"] == "failed"
    assert "Type Error" in found["as_is", "raw"]["reason"]
    for variant in ("raw", "onnxsim"):
        assert (found["onnx", variant]["status"], found["onnx", variant]["fidelity"]) == ("ok", "exact")
