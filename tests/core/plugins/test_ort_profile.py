"""ONNX Runtime's profiler: its events as times, and a model really run under it."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from bench.api import NodeTime
from bench.api.errors import ArtifactError
from bench.plugins.engines.onnxruntime import profile
from bench.plugins.engines.onnxruntime.providers import CPU
from support import variant_graphs as graphs

X = np.ones((1, 3, 8, 8), np.float32)


def event(name: str, ts: int, dur: int, **args: Any) -> dict[str, Any]:
    return {"cat": "Node", "name": name, "ts": ts, "dur": dur, "tid": 1, "args": args}


def run(ts: int) -> dict[str, Any]:
    return {"cat": "Session", "name": "model_run", "ts": ts, "dur": 99, "tid": 1, "args": {}}


def kernel(name: str, ts: int, dur: int) -> dict[str, Any]:
    return event(f"{name}_kernel_time", ts, dur, op_name=name.rstrip("12"), provider="CPUExecutionProvider")


def test_medians_over_inferences_without_the_first() -> None:
    events = [run(0), kernel("Conv1", 0, 90), run(100), kernel("Conv1", 101, 10), kernel("Relu2", 111, 2)]
    events += [run(200), kernel("Conv1", 200, 14), run(300), kernel("Conv1", 300, 13), kernel("Relu2", 313, 4)]
    events.append(event("Conv1_fence_before", 300, 50))
    found = profile.node_times(events, warm_ups=1, num_runs=3)
    provider = "CPUExecutionProvider"
    assert found == [
        NodeTime(name="Conv1", operator="Conv", provider=provider, time_ns=13_000),
        NodeTime(name="Relu2", operator="Relu", provider=provider, time_ns=2_000),
    ]


def test_of_a_clock_that_ticks_rarely_the_mean_tells_more_than_the_median() -> None:
    """Each node takes 2 us by a clock that ticks every 5 us."""
    events = [
        each for at in range(0, 1000, 100) for each in (run(at), kernel("Add1", at, 5 * (at % 500 in (100, 300))))
    ]
    (found,) = profile.node_times(events, warm_ups=0, num_runs=10, average=statistics.fmean)
    assert found.time_ns == 2_000
    assert profile.node_times(events, warm_ups=0, num_runs=10)[0].time_ns == 0


def test_the_nodes_of_a_body_are_not_counted_twice() -> None:
    events = [run(0), kernel("Loop", 10, 100), kernel("Add", 20, 30), kernel("Add", 60, 20), kernel("Relu", 110, 5)]
    found = profile.node_times(events, warm_ups=0, num_runs=1)
    assert [(one.name, one.time_ns, one.calls) for one in found] == [
        ("Loop", 50_000, 1),
        ("Add", 50_000, 2),
        ("Relu", 5_000, 1),
    ]


def test_a_trace_that_was_cut_short() -> None:
    with pytest.raises(ArtifactError, match="wrote down 1 inferences of 3"):
        profile.node_times([run(0)], warm_ups=1, num_runs=2)


def test_a_model_is_run(tmp_path: Path) -> None:
    """ONNX Runtime puts Conv and Relu together; nodes without names are known by what they make."""
    pytest.importorskip("onnxruntime")
    model = graphs.model_of(
        [
            helper.make_node("Conv", ["x", "w"], ["a"]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("ReduceMax", ["b"], ["y"], keepdims=0),
        ],
        {"w": np.ones((5, 3, 3, 3), np.float32)},
        inputs={"x": ["batch", 3, 8, 8]},
        outputs={"y": []},
    )
    onnx.save(model, tmp_path / "model.onnx")
    found = profile.profile(tmp_path / "model.onnx", CPU, threads=1, feeds={"x": X}, num_runs=3)
    operators = [one.operator for one in found]
    assert operators[-1] == "ReduceMax"
    assert "Relu" not in operators
    assert {one.provider for one in found} == {"CPUExecutionProvider"}
    assert {one.calls for one in found} == {1}
    assert sum(one.time_ns for one in found) > 0
    assert (found[-1].reads, found[-1].makes, found[-1].covers) == (("b",), ("y",), ("y",))
    assert [one.covers for one in found if one.covers] == [("a", "b"), ("y",)]
    assert found[0].reads == ("x",)
    assert any(one.makes == ("b",) for one in found)
    assert not any("a" in one.makes for one in found)
