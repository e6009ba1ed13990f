"""The report of `bench explain`, from findings that are made up."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from bench.api import NodeTime
from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.features.explain.explanation import Explanation, Side, Step
from bench.features.explain.render import MOST_LINES, render
from bench.records.rows import Row

RAW = "toy/torch/torch_onnx/raw/onnxruntime/cpu/b1t1"
OTHER = RAW.replace("raw", "onnxsim")
HOSTILE = "Evil|\x1b[2J<b>"


def node(name: str, operator: str, time_ns: float = 1e6, *, provider: str = "CPU") -> NodeTime:
    return NodeTime(name=name, operator=operator, provider=provider, time_ns=time_ns, makes=(name,), covers=(name,))


def side(path: str, *nodes: NodeTime, **more: Any) -> Side:
    cell = Cell.from_path(path)
    artifact = Artifact(
        path=Path("model.onnx"),
        format="onnx",
        sha256=path,
        size_bytes=2_500_000,
        canonical=None,
        num_params=None,
        info={},
    )
    row = Row(cell=path, **cell.coordinates, status="ok", latency_p50_ns=7e6)
    return Side(cell=cell, row=row, artifact=artifact, nodes=nodes or None, **more)


def explanation(after: Side, before: Side | None = None, **more: Any) -> Explanation:
    steps = [Step(step="torch_onnx", path="a.onnx", size_bytes=3_000_000, num_nodes=3)]
    return Explanation(
        **{
            "after": after,
            "before": before,
            "names": None,
            "measured": None,
            "steps": steps,
            "drift": None,
            "drift_reason": "it is so",
            "notes": [],
            **more,
        }
    )


def compared(name: str, error: float | None, before: str = "Conv", after: str = "Conv") -> dict[str, Any]:
    return {"name": name, "name_before": name, "error": error, "before": before, "after": after}


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_times_stand_side_by_side() -> None:
    before = side(RAW, node("a", "Conv", 3e6), dataclasses.replace(node("b", "Relu"), reads=("a",)))
    found = lines(render(explanation(side(OTHER, node("b", "FusedConv", 2e6)), before), format="table"))
    assert "before 7.000 2 4.000 2.5" in found
    assert "Conv 1 3.000 75.0 %" in found
    assert "FusedConv 1 2.000 100.0 %" in found
    assert "all 2 4.000 100.0 % 1 2.000 100.0 %" in found
    assert "Conv + Relu FusedConv 1 4.000 2.000 -2.000" in found
    assert "Of the 3 nodes of the file, onnxruntime made the 1 that ran." in found
    assert "Not told: it is so." in found


def test_names_from_outside_do_no_harm() -> None:
    found = explanation(side(RAW, node("a", HOSTILE), node("b", "Relu", provider=HOSTILE)))
    assert "\x1b" not in render(found, format="table")
    assert "Evil|\\x1b[2J<b>" in render(found, format="table")
    text = render(found, format="md")
    assert "| Evil\\|\\\\x1b[2J&lt;b&gt; | 1 | 1.000 | 50.0 % |" in text
    assert "\x1b" not in text
    assert "<b>" not in text
    assert json.loads(render(found, format="json"))["after"]["nodes"][0]["operator"] == HOSTILE


def test_what_could_not_be_asked_is_said_in_its_place() -> None:
    dead = side(OTHER, reason="the profiler of onnxruntime tells nothing: killed by SIGSEGV")
    text = render(explanation(dead, side(RAW, node("a", "Conv"))), format="table")
    assert f"{OTHER}: the profiler of onnxruntime tells nothing: killed by SIGSEGV" in text
    assert "What became of what" not in text
    text = render(explanation(side(RAW, node("a", "Conv")), dead), format="table")
    assert "killed by SIGSEGV" in text
    assert "Conv 1 1.000 100.0 %" in lines(text)


def test_other_providers_are_told_with_what_they_run() -> None:
    nodes = [node("a", "Conv", 3e6, provider="Npu"), node("b", "Loop"), node("c", "Loop"), node("d", "Resize")]
    found = lines(render(explanation(side(RAW, *nodes)), format="table"))
    assert "Npu 1 3.000 50.0 %" in found
    assert "CPU 3 3.000 50.0 %" in found
    assert "CPU runs: 2 Loop, Resize." in found


def test_note_of_a_step_is_told() -> None:
    note = "operator set 9 of the file before it was raised to 13"
    steps = [
        Step(step="native", path="a.onnx", size_bytes=3_000_000, num_nodes=3),
        Step(step="int8_static-minmax", path="b.onnx", size_bytes=1_000_000, num_nodes=5, note=note),
    ]
    found = explanation(side(OTHER, node("a", "Conv")), steps=steps)
    assert f"int8_static-minmax: {note}." in lines(render(found, format="table"))
    assert json.loads(render(found, format="json"))["steps"][1]["note"] == note


def test_long_tables_end() -> None:
    nodes = [node(str(number), f"Operator{number}", 1e6 * (99 - number)) for number in range(MOST_LINES + 3)]
    found = explanation(side(RAW, *nodes))
    assert "3 more; --format json has them all." in lines(render(found, format="table"))
    text = render(found, format="md")
    assert f"Operator{MOST_LINES - 1} " in text
    assert f"Operator{MOST_LINES} " not in text
    assert len(json.loads(render(found, format="json"))["operators"]) == MOST_LINES + 3


def test_drift_is_told_with_its_surroundings() -> None:
    drift = {
        "tolerance": 1e-4,
        "output": compared("y", None),
        "first": {**compared("q", 0.02, before="Conv", after="QLinearConv"), "name_before": "c"},
        "previous": compared("p", 0.0),
        "made_of": [compared("o", 1e-6)],
        "between_before": {"Conv": 1},
        "between_after": {"DequantizeLinear": 2, "QLinearConv": 1},
        "num_common": 9,
        "num_compared": 5,
        "optimized": compared("y", 0.5),
    }
    text = " ".join(render(explanation(side(RAW), drift=drift, drift_reason=None), format="table").split())
    assert "In q (QLinearConv, before: Conv of c): error 0.02." in text
    assert "What it is made of agrees: o (Conv): error 1e-06." in text
    assert "Between these: 2 DequantizeLinear, QLinearConv; before: Conv." in text
    assert "The tensor before it, in the order of the nodes: p (Conv): error 0." in text
    assert "At the output: y (Conv): error not a number." in text
    assert "9 tensors in common lead to the output; 5 looked at" in text
    assert f"With its optimizations, ONNX Runtime answers {RAW} otherwise: y (Conv): error 0.5." in text
