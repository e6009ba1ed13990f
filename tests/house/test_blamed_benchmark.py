"""`benchmarks/blamed.py`: its runs, which of them it makes, and what it counts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

SHARE = {"value": 0.95, "low": 0.9, "high": 1.02}


@pytest.fixture
def script(scripts: Any) -> ModuleType:
    loaded: ModuleType = scripts("blamed")
    return loaded


def answer(
    kind: str,
    *,
    first: str = "node",
    nodes: tuple[str, ...] = (),
    atoms: int = 1,
    share: float = 0.95,
    shown: float = 3.0,
    low: float = 1.2,
    taken_s: float = 60,
) -> Any:
    """What a run said in which `node` was planted: the first part has some nodes, of which the first is named."""
    nodes = nodes or (first,)
    first = nodes[0]
    line = {"share": {**SHARE, "value": share}, "ratio": {"value": 3.0}, "core": {"start": 4, "end": 4 + atoms}}
    culprits = [] if kind == "equal" else [{"name": f"{first} (Conv)", "nodes": [[*nodes], []], "line": line}]
    said: dict[str, Any] = {"culprits": culprits, "outcome": {"is_different": bool(culprits)}}
    if kind == "error":
        said = {"drifted": {"core": [1, 2], "part": [1, 2]}, "name": f"{first} (Conv)", "nodes": [[first], []]}
    planted = None if kind == "equal" else "node"
    return {"answer": said, "shown": [shown, low, 4.0], "taken_s": taken_s, "kind": kind, "planted": planted}


def wide(said: Any) -> Any:
    """An answer whose share has no upper end."""
    said["answer"]["culprits"][0]["line"]["share"]["high"] = None
    return said


def different(said: Any) -> Any:
    """An answer that claims a difference and blames nothing."""
    said["answer"]["outcome"]["is_different"] = True
    return said


def run(script: ModuleType, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[str]:
    """The runs that it makes."""
    made: list[str] = []

    def outcome(case: Any, place: Path, budget: str) -> Any:
        made.append(case.name)
        return answer(case.kind)

    monkeypatch.setattr(script, "outcome", outcome)
    monkeypatch.setattr(sys, "argv", ["blamed.py", *arguments])
    with pytest.raises(SystemExit) as exit_:  # runs are missing
        script.main()
    assert exit_.value.code == 1
    return made


def test_there_are_thirty_slowdowns_ten_errors_and_forty_equal_pairs(script: ModuleType) -> None:
    cases = list(script.cases())

    assert len({case.name for case in cases}) == 80
    kinds = [case.kind for case in cases]
    assert sum(kind in script.SLOWDOWNS for kind in kinds) == 30
    assert (sum(kind in script.ERRORS for kind in kinds), kinds.count("equal")) == (10, 40)


def test_runs_that_the_folder_has_are_not_made_again(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "over").mkdir()
    (tmp_path / "over" / "crnn-kernel0.json").write_text(json.dumps(answer("kernel", taken_s=42)))

    made = run(script, monkeypatch, str(tmp_path), "--only", "crnn-*")

    assert made == ["crnn-unfuse0", "crnn-transpose0", "crnn-error0", *(f"crnn-equal{at}" for at in range(4))]
    text = capsys.readouterr().out
    assert "right node first in 3 of 3 slowdowns and 1 of 1 errors" in text
    assert "something blamed in 0 of 4 runs against itself" in text
    (line,) = [line for line in text.splitlines() if line.startswith("crnn-kernel0")]
    assert "95 [90, 102] %" in line
    assert "3.00 [1.20, 4.00]" in line
    assert line.endswith("42 s")


def test_a_report_makes_no_run(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(script, monkeypatch, str(tmp_path), "--report") == []
    assert "80 of 80 runs are still to be made" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answers", "passes"),
    [
        ([answer("kernel")], True),
        ([answer("kernel", first="other")] * 2, True),
        ([answer("kernel", first="other")] * 3, False),
        ([answer("kernel", share=0.7)] * 4, True),
        ([answer("kernel", share=0.7)] * 5, False),
        ([answer("kernel", low=0.9)] * 5, False),
        ([answer("kernel", shown=1.5)] * 5, False),  # less than half of what is claimed, on the log scale
        ([answer("kernel", nodes=("other", "node"), atoms=2)] * 3, False),  # it names another node
        ([answer("kernel", nodes=("other", "node"))] * 3, True),  # one kernel computes both
        ([wide(answer("kernel"))] * 5, False),
        ([different(answer("equal"))] * 3, False),
        ([answer("error", first="other")], False),
        ([answer("equal")] * 40, True),
        ([{**answer("equal"), "failure": "it crashes"}] * 3, False),
        ([answer("kernel", taken_s=301)], False),
    ],
)
def test_it_fails_where_too_much_went_wrong(script: ModuleType, answers: list[Any], passes: bool) -> None:
    named = {f"run{at}": each for at, each in enumerate(answers)}
    if passes:
        script.report(named)
        return
    with pytest.raises(SystemExit) as exit_:
        script.report(named)
    assert exit_.value.code == 1


def test_a_transposition_is_planted_before_the_largest_tensor_of_a_model_with_open_sizes(
    script: ModuleType, tmp_path: Path
) -> None:
    """The convolution with the most products reads the smallest tensor; only sizes that are known tell that."""
    weights = {"w0": (4, 3, 1, 1), "w1": (2, 4, 1, 1), "w2": (64, 2, 3, 3)}
    strides = {"w0": [1, 1], "w1": [16, 16], "w2": [1, 1]}
    names = ["x", "t0", "t1", "y"]
    nodes = [
        helper.make_node("Conv", [names[at], f"w{at}"], [names[at + 1]], name=f"conv_{at}", strides=strides[f"w{at}"])
        for at in range(3)
    ]
    tensors = [numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in weights.items()]
    shapes = [("x", ["batch", 3, "height", "width"]), ("y", None)]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], tensors)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "plain.onnx"
    )

    planted = script.planted_file(tmp_path / "plain.onnx", "transpose", 0, tmp_path / "slow.onnx")

    assert planted == "conv_1"  # it reads 4 x 224 x 224 numbers
    slow = onnx.load(tmp_path / "slow.onnx")
    assert [node.op_type for node in slow.graph.node][:3] == ["Conv", "Transpose", "Shape"]
    assert next(node for node in slow.graph.node if node.name == planted).input[0] == "planted_t1_5_again"
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(tmp_path / "slow.onnx", options, providers=["CPUExecutionProvider"])
    optimized = [node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node]
    assert optimized.count("Transpose") >= 5  # the first may be a part of the convolution before it
    assert slow.graph.input[0].type.tensor_type.shape.dim[2].dim_param == "height"  # it stays open
