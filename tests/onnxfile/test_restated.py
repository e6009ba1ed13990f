"""Shapes that a tool states of outputs, and that follow from nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from bench.onnxfile.file.stated_outputs import restate
from support import variant_graphs as graphs


def save(path: Path, stated: tuple[int | str, ...], *, batch: int | str = "n") -> Path:
    """`y` is `x` without axes of size 1: which are these, the file does not say."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 1, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, stated)
    graph = helper.make_graph([helper.make_node("Squeeze", ["x"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6), path)
    return path


def stated_shape(path: Path) -> list[int | str]:
    (value,) = onnx.load(path).graph.output
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ((4,), ("n", 4), "output 'y' is stated as float of 4, as before, not as float of ?x4"),
        ((), ("n",), "output 'y' is stated as float of no axes, as before, not as float of ?"),
        (("n", 4), ("n", 5), "output 'y' is stated as float of ?x4, as before, not as float of ?x5"),
    ],
)
def test_a_shape_that_follows_from_nothing_is_put_back(
    before: tuple[int | str, ...], after: tuple[int | str, ...], told: str, tmp_path: Path
) -> None:
    source, target = save(tmp_path / "source.onnx", before), save(tmp_path / "target.onnx", after)
    assert restate(target, source) == f"{told}: its shape does not follow from the nodes"
    assert stated_shape(target) == list(before)


@pytest.mark.parametrize(
    ("before", "after", "batch"),
    [
        # The shape follows from the inputs: the statement before may be wrong, or the tool changed the model.
        ((4,), (3, 4), 3),
        # Both may be true.
        (("n", 4), ("m", 4), "n"),
        (("n", 4), ("n", "k"), "n"),
    ],
)
def test_other_statements_are_left_alone(
    before: tuple[int | str, ...], after: tuple[int | str, ...], batch: int | str, tmp_path: Path
) -> None:
    source = save(tmp_path / "source.onnx", before, batch=batch)
    target = save(tmp_path / "target.onnx", after, batch=batch)
    content = target.read_bytes()
    assert restate(target, source) is None
    assert target.read_bytes() == content


def test_onnxslim_keeps_what_a_file_states_of_a_squeezed_output(tmp_path: Path) -> None:
    """onnxslim states another rank; the file states what comes out for one sample."""
    pytest.importorskip("onnxslim")
    source = onnx.load(save(tmp_path / "old.onnx", (4,)))
    made, info = graphs.apply("onnxslim", source, tmp_path)
    assert info["note"].startswith("output 'y' is stated as float of 4, as before, not as float of ")
    assert stated_shape(tmp_path / "onnxslim.onnx") == [4]
    (found,) = graphs.run(made, {"x": np.ones((1, 1, 4), np.float32)})
    assert found.shape == (4,)
