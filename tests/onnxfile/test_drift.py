"""The first tensor that drifts: an error is planted at one node, and located there."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

from bench.api.errors import ArtifactError
from bench.onnxfile.diff import drift as drifting
from bench.onnxfile.diff.drift import Drift, find, relative_error
from support import variant_graphs as graphs

pytest.importorskip("onnxruntime")

node = helper.make_node
X = np.linspace(-1, 1, 4, dtype=np.float32)[None]
TOLERANCE = 1e-4


def model_of(nodes: list[onnx.NodeProto], **factors: float) -> ModelProto:
    weights = {name: np.array(factor, np.float32) for name, factor in factors.items()}
    return graphs.model_of(nodes, weights, inputs={"x": ["batch", 4]}, outputs={"y": ["batch", 4]})


def found(folder: Path, before: ModelProto, after: ModelProto, names: dict[str, str] | None = None) -> Drift:
    paths = [folder / name for name in ("before.onnx", "after.onnx")]
    for path, model in zip(paths, (before, after), strict=True):
        onnx.save(model, path)
    return find(*paths, feeds={"x": X}, outputs=["y"], tolerance=TOLERANCE, names=names)


def chain(length: int, planted: int | None = None) -> ModelProto:
    """x times factors of nearly 1, t1 to y; the one planted is 1 % more."""
    names = ["x", *(f"t{number}" for number in range(1, length)), "y"]
    factors = {f"f{number}": 1.01 if number != planted else 1.02 for number in range(1, length + 1)}
    return model_of([node("Mul", [names[n - 1], f"f{n}"], [names[n]]) for n in range(1, length + 1)], **factors)


@pytest.mark.parametrize("planted", [1, 2, 15, 16, 17, 31, 32])
def test_the_planted_tensor_is_found(tmp_path: Path, planted: int) -> None:
    drift = found(tmp_path, chain(32), chain(32, planted))
    assert drift.first is not None
    assert drift.first.name == ("y" if planted == 32 else f"t{planted}")
    assert drift.first.error == pytest.approx(0.01 / 1.01, rel=1e-3)
    before = None if planted == 1 else (f"t{planted - 1}", 0.0)
    assert (drift.previous and (drift.previous.name, drift.previous.error)) == before
    assert [one.name for one in drift.made_of] == ([before[0]] if before else [])
    assert (drift.output.name, drift.num_common) == ("y", 32)
    assert drift.num_compared <= 8  # the output, 5 halvings and what is checked


def test_optimizations_that_change_the_answer_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison is made without them, so it would not be of what a session runs."""
    whole, factor = drifting.outputs_of, 1.5

    def broken(model: ModelProto, feeds: Any, names: Any, *, optimized: bool = False) -> list[np.ndarray]:
        return [array * (factor if optimized else 1.0) for array in whole(model, feeds, names, optimized=optimized)]

    monkeypatch.setattr(drifting, "outputs_of", broken)
    drift = found(tmp_path, chain(8), chain(8))
    assert drift.optimized is not None
    assert (drift.optimized.name, drift.optimized.error) == ("y", pytest.approx(0.5, rel=1e-6))
    factor = math.inf
    nan = found(tmp_path, chain(8), chain(8)).optimized
    assert nan is not None
    assert nan.error is None, "no number that JSON does not have"
    monkeypatch.undo()
    assert found(tmp_path, chain(8), chain(8)).optimized is None


def test_outputs_that_agree(tmp_path: Path) -> None:
    drift = found(tmp_path, chain(8), chain(8))
    assert drift.first is None
    assert (drift.output.error, drift.num_compared) == (0.0, 1)


def branches(factor: float) -> ModelProto:
    """Two chains, their nodes in turn, and their sum; the second chain begins with a factor."""
    nodes = [node("Tanh", ["x"], ["u1"]), node("Mul", ["x", "factor"], ["v1"])]
    nodes += [node("Tanh", [f"{side}{n}"], [f"{side}{n + 1}"]) for n in (1, 2, 3) for side in "uv"]
    return model_of([*nodes, node("Add", ["u4", "v4"], ["y"])], factor=factor)


def test_the_right_branch_is_gone_back_along(tmp_path: Path) -> None:
    """Of u1 v1 u2 v2 u3 v3 u4 v4 y, v1 drifts; bisection alone meets only good u until v4."""
    drift = found(tmp_path, branches(1.0), branches(1.1))
    assert drift.first is not None
    assert drift.first.name == "v1"
    assert drift.made_of == ()
    assert drift.previous is not None
    assert (drift.previous.name, drift.previous.error) == ("u1", 0.0)


def test_tensors_that_one_has_are_told_as_what_is_between(tmp_path: Path) -> None:
    """The second model computes c another way; `b` has another shape there, and cannot be compared."""
    before = model_of(
        [
            node("Mul", ["x", "f"], ["a"]),
            node("Tanh", ["a"], ["b"]),
            node("Mul", ["b", "f"], ["c"]),
            node("Abs", ["c"], ["y"]),
        ],
        f=2.0,
    )
    after = model_of(
        [
            node("Mul", ["x", "f"], ["a"]),
            node("Tanh", ["a"], ["other"]),
            node("Shape", ["other"], ["b"]),
            node("Reshape", ["other", "b"], ["same"]),
            node("Mul", ["same", "g"], ["c"]),
            node("Abs", ["c"], ["y"]),
        ],
        f=2.0,
        g=2.1,
    )
    drift = found(tmp_path, before, after)
    assert drift.first is not None
    assert (drift.first.name, drift.first.before, drift.first.after) == ("c", "Mul", "Mul")
    assert [(one.name, one.error) for one in drift.made_of] == [("a", 0.0)]
    assert drift.between_before == {"Tanh": 1, "Mul": 1}
    assert drift.between_after == {"Tanh": 1, "Shape": 1, "Reshape": 1, "Mul": 1}


def test_tensors_that_were_renamed(tmp_path: Path) -> None:
    after = chain(8, planted=5)
    for one in after.graph.node:
        one.input[0], one.output[0] = (name.replace("t", "other") for name in (one.input[0], one.output[0]))
    drift = found(tmp_path, chain(8), after, {f"other{number}": f"t{number}" for number in range(1, 8)})
    assert drift.first is not None
    assert (drift.first.name, drift.first.name_before, drift.num_common) == ("other5", "t5", 8)
    assert [(one.name, one.name_before, one.error) for one in drift.made_of] == [("other4", "t4", 0.0)]


def test_outputs_that_are_no_numbers(tmp_path: Path) -> None:
    drift = found(tmp_path, chain(2), model_of([node("Mul", ["x", "f"], ["t1"]), node("Log", ["t1"], ["y"])], f=1.01))
    assert drift.first is not None
    assert (drift.first.name, drift.first.error, drift.output.error) == ("y", None, None)


def test_output_that_is_not_there(tmp_path: Path) -> None:
    other = chain(1)
    other.graph.node[0].output[0] = other.graph.output[0].name = "z"
    with pytest.raises(ArtifactError, match="no node of one of the models makes the output 'y'"):
        found(tmp_path, chain(1), other)


def test_error_is_relative_to_what_was_before() -> None:
    two, three = np.array([2.0, -4.0]), np.array([2.0, -5.0])
    assert relative_error(two, three) == 0.25
    assert relative_error(two.astype(np.float16), three.astype(np.float32)) == 0.25
    assert relative_error(np.array([3]), np.array([4])) == pytest.approx(1 / 3)
    assert relative_error(np.array([70_000, 3]), np.array([70_001, 3])) == pytest.approx(1 / 3), "no mask"
    assert relative_error(np.array([2**53]), np.array([2**53 + 1])) == math.inf
    assert relative_error(np.array(2**53 + 1), np.array(2**53 + 1)) == 0
    mask = np.array([1.0, -math.inf])
    assert relative_error(mask, mask) == 0
    assert relative_error(mask, np.array([1.0, -65504])) == 0
    assert relative_error(np.array([2.0, -1e9]), np.array([1.0, -math.inf])) == 0.5
    assert relative_error(mask, -mask) == math.inf
    assert relative_error(two, np.array([2.0, math.nan])) == math.inf
    assert relative_error(np.zeros(2), np.zeros(2)) == 0
    assert relative_error(np.zeros(2), two) == math.inf
    assert relative_error(np.zeros((0, 2)), np.zeros((0, 2))) == 0


def test_what_cannot_be_compared() -> None:
    assert relative_error(np.zeros(2), np.zeros(3)) is None
    assert relative_error(np.zeros(2), np.zeros(2, int)) is None
    assert relative_error(np.array(["a"]), np.array(["a"])) is None
    assert relative_error([np.zeros(2)], [np.zeros(2)]) is None  # type: ignore[arg-type]


def test_neighbour_that_cannot_be_compared_is_passed_over(tmp_path: Path) -> None:
    """One file makes `p` integers, the other floats; `a`, the next one, drifts."""
    models = []
    for kind, factor in (("Identity", 1.0), ("Cast", 1.5)):
        to = {"to": TensorProto.INT64} if kind == "Cast" else {}
        nodes = [
            node(kind, ["x"], ["p"], **to),
            node("Mul", ["x", "factor"], ["a"]),
            node("Cast", ["p"], ["q"], to=TensorProto.FLOAT),
            node("Mul", ["q", "zero"], ["z"]),
            node("Add", ["a", "z"], ["y"]),
        ]
        models.append(model_of(nodes, factor=factor, zero=0.0))
    drift = found(tmp_path, *models)
    assert drift.first is not None
    assert drift.first.name == "a"
    assert drift.previous is None
