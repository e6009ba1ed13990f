"""The tensors that two models have in common, whatever their names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, helper

from bench.onnxfile.diff.common_tensors import common_tensors
from bench.onnxfile.file import lazy
from support import variant_graphs as graphs

OPERATORS = ("Tanh", "Abs", "Sigmoid", "Relu", "Softplus")


def chain(operators: tuple[str, ...], names: str) -> ModelProto:
    """x through the operators to y, the tensors between with these letters as names."""
    tensors = ["x", *names, "y"]
    nodes = [helper.make_node(one, [tensors[at]], [tensors[at + 1]]) for at, one in enumerate(operators)]
    return graphs.model_of(nodes, {}, inputs={"x": ["batch", 4]}, outputs={"y": ["batch", 4]})


def found(folder: Path, before: ModelProto, after: ModelProto) -> dict[str, str]:
    paths = [folder / name for name in ("before.onnx", "after.onnx")]
    for path, model in zip(paths, (before, after), strict=True):
        onnx.save(model, path)
    return common_tensors(*map(lazy.read, paths))


def test_names_that_were_kept_and_one_that_was_not(tmp_path: Path) -> None:
    before, after = chain(OPERATORS, "abcd"), chain(OPERATORS, "abzd")
    assert found(tmp_path, before, after) == {"a": "a", "b": "b", "z": "c", "d": "d", "y": "y"}


def test_names_that_mean_something_else_now(tmp_path: Path) -> None:
    """Everything has a new name, and some are those of other tensors."""
    before, after = chain(OPERATORS, "abcd"), chain(OPERATORS, "bcde")
    assert found(tmp_path, before, after) == {"b": "a", "c": "b", "d": "c", "e": "d", "y": "y"}


def test_what_is_in_one_model_only(tmp_path: Path) -> None:
    before, after = chain(OPERATORS, "abcd"), chain(("Tanh", "Abs", "Softplus"), "ab")
    assert found(tmp_path, before, after) == {"a": "a", "b": "b", "y": "y"}


def test_a_model_and_itself(tmp_path: Path) -> None:
    weights = {"w": np.ones((4, 4), np.float32)}
    model = graphs.model_of(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], weights, inputs={"x": [1, 4]}, outputs={"y": [1, 4]}
    )
    assert found(tmp_path, model, model) == {"y": "y"}
