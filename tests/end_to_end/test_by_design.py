"""`bench run --model` on outputs with infinities by design or as many rows as the data give, and files of one name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.features import is_there

if TYPE_CHECKING:
    from conftest import Harness

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
SHORT = ("--launches", "1", "--budget", "20s")
RAW = "onnx/native/raw/onnxruntime*/cpu/b1t1"
Value = tuple[str, int, list[Any]]


def save(
    harness: Harness, place: str, nodes: list[onnx.NodeProto], outputs: list[Value], weights: dict[str, np.ndarray]
) -> None:
    sides = [[helper.make_tensor_value_info(*value) for value in side] for side in ([("x", FLOAT, [1, 16])], outputs)]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "graph", *sides, tensors)
    path = harness.folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def weights(width: int) -> np.ndarray:
    return np.random.default_rng(width).normal(0, 0.3, (16, width)).astype(np.float32)


def rows(harness: Harness) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(harness.here("show", "--format", "json"))
    return found


@pytest.mark.thorough
def test_a_mask_of_minus_infinity_is_timed(harness: Harness) -> None:
    mask = np.where(np.arange(12) % 4 == 3, -np.inf, 0).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["s"]), helper.make_node("Add", ["s", "mask"], ["scores"])]
    save(harness, "masked.onnx", nodes, [("scores", FLOAT, [1, 12])], {"w": weights(12), "mask": mask})
    harness.here("run", "--model", "masked.onnx", RAW, "onnx/native/fp16/onnxruntime/cpu/b1t1", *SHORT)
    found = {row["cell"].removeprefix("masked/onnx/native/"): row for row in rows(harness)}
    assert found["raw/onnxruntime/cpu/b1t1"]["fidelity"] == "exact"
    assert found["raw/onnxruntime_iobinding/cpu/b1t1"]["fidelity"] == "exact"
    assert found["fp16/onnxruntime/cpu/b1t1"]["fidelity"] == "drifted"
    assert all(row["latency_p50_ns"] > 0 for row in found.values() if row["status"] == "ok")


@pytest.mark.thorough
def test_rows_that_depend_on_the_data_are_timed(harness: Harness) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["s"]),
        helper.make_node("Greater", ["s", "least"], ["is_more"]),
        helper.make_node("NonZero", ["is_more"], ["places"]),
    ]
    made = {"w": weights(12), "least": np.array(0.5, np.float32)}
    save(harness, "places.onnx", nodes, [("places", INT64, [2, "found"])], made)
    harness.here("run", "--model", "places.onnx", RAW, *SHORT)
    found = [row for row in rows(harness) if row["status"] == "ok"]
    assert len(found) >= 2
    assert {row["fidelity"] for row in found} == {"exact"}
    assert all(row["latency_p50_ns"] > 0 for row in found)


@pytest.mark.thorough
def test_two_files_of_one_name_stay_in_the_table(harness: Harness) -> None:
    for folder, width in (("small", 4), ("large", 32)):
        nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
        save(harness, f"{folder}/model.onnx", nodes, [("y", FLOAT, [1, width])], {"w": weights(width)})
        harness.here("run", "--model", f"{folder}/model.onnx", RAW, *SHORT)
    assert "results named model in results are of another file" in harness.stderr()
    found = rows(harness)
    assert {row["task"] for row in found} == {"model", "large_model"}
    assert all(row["status"] == "ok" and row["latency_p50_ns"] > 0 for row in found)
    sizes = {row["task"]: row["num_params"] for row in found}
    assert sizes == {"model": 16 * 4, "large_model": 16 * 32}
    if is_there("explain"):
        explained = harness.here("explain", "large/model.onnx")
        assert "large_model/onnx/native/raw/onnxruntime/cpu/b1t1" in explained
    harness.here("run", "--model", "small/model.onnx", RAW, *SHORT)
    assert len(rows(harness)) == len(found)
