"""Raising the operator set version of a model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, version_converter

from bench.api import Task, TensorSpec
from bench.api.errors import ArtifactError
from bench.onnxfile.edits.opset import complete, opset_of, raise_opset
from support import small_models as small


class Normalized(small.SmallTask):
    inputs = (TensorSpec(name="x", dtype="float32", shape=("batch", 1, 4)),)
    outputs = (TensorSpec(name="y", dtype="float32", shape=("batch", 1, 4)),)

    def samples(self, split: str) -> object:
        return type(super().samples(split))(inputs={"x": small.floats(4, 1, 4, seed=8)}, targets=None)


def test_opset_is_raised_with_equal_outputs() -> None:
    model = small.make_model(opset=15)
    raised = raise_opset(model, 21, small.make_task())
    assert (opset_of(model), opset_of(raised), raised.ir_version) == (15, 21, 10)
    onnx.checker.check_model(raised, full_check=True)
    assert small.drift(small.run(raised), small.run(model)) == 0
    assert raise_opset(model, 13, small.make_task()) is model


def test_operators_of_newer_sets_are_kept_when_the_opset_is_raised() -> None:
    """ONNX Runtime runs them in older files, and its optimizers write them; onnx's converter refuses them."""
    weights = {"scale": small.floats(4), "shift": small.floats(4, seed=1)}
    graph = helper.make_graph(
        [
            helper.make_node("LayerNormalization", ["x", "scale", "shift"], ["n"], epsilon=1e-5),
            helper.make_node("Squeeze", ["n"], ["s"], axes=[1]),
            helper.make_node("Unsqueeze", ["s"], ["y"], axes=[1]),
        ],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 1, 4])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    task = small.make_task(Normalized)
    for raised, version in ((complete(model, task), 17), (raise_opset(model, 13, task), 13)):
        assert [(entry.domain, entry.version) for entry in raised.opset_import] == [("", version)]
        assert [(node.domain, node.op_type, len(node.input)) for node in raised.graph.node if node.input] == [
            ("", "LayerNormalization", 3),
            ("", "Squeeze", 2),
            ("", "Unsqueeze", 2),
        ]
        x = small.floats(3, 1, 4)
        assert small.drift(small.run(raised, x=x), small.run(model, x=x)) == 0
    onnx.checker.check_model(complete(model, task), full_check=True)
    assert complete(raised_once := small.make_model(), task) is raised_once


def test_opset_that_cannot_be_raised_is_refused() -> None:
    model = small.make_model()
    model.graph.node[0].op_type = "NoSuchOperator"
    with pytest.raises(ArtifactError, match=r"it needs operator set 21; raising the file's 15 fails: .*NoSuchOperator"):
        raise_opset(model, 21, small.make_task())


def test_opset_is_not_raised_when_outputs_change(monkeypatch: pytest.MonkeyPatch) -> None:
    convert = version_converter.convert_version

    def convert_wrongly(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
        raised = convert(model, version)
        next(node for node in raised.graph.node if node.op_type == "Tanh").op_type = "Sigmoid"
        return raised

    monkeypatch.setattr(version_converter, "convert_version", convert_wrongly)
    with pytest.raises(ArtifactError, match=r"15 fails: .* output text of training sample 0 differs by"):
        raise_opset(small.make_model(), 21, small.make_task())


def with_function(*, opset: int, own: int) -> onnx.ModelProto:
    """A local function of a LayerNormalization, and behind it a Squeeze and an Unsqueeze with axes as attributes.

    Args:
        opset: the operator set version of the model.
        own: that of the function.
    """
    body = [helper.make_node("LayerNormalization", ["a", "scale", "shift"], ["b"], epsilon=1e-5)]
    function = helper.make_function(
        "local", "Normalize", ["a", "scale", "shift"], ["b"], body, [helper.make_opsetid("", own)]
    )
    nodes = [
        helper.make_node("Normalize", ["x", "scale", "shift"], ["n"], domain="local"),
        helper.make_node("Squeeze", ["n"], ["s"], axes=[1]),
        helper.make_node("Unsqueeze", ["s"], ["y"], axes=[1]),
    ]
    weights = {"scale": small.floats(4), "shift": small.floats(4, seed=1)}
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 1, 4]) for name in ("x", "y")]
    stored = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "graph", ports[:1], ports[1:], stored)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=8)


def normalized(x: np.ndarray) -> np.ndarray:
    centered = x - x.mean(-1, keepdims=True)
    scaled = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)
    return scaled * small.floats(4) + small.floats(4, seed=1)


@pytest.mark.parametrize(
    ("raised", "version"),
    [(complete, 17), (lambda model, task: raise_opset(model, 18, task), 18)],
    ids=["complete", "raise_opset"],
)
def test_local_functions_are_raised_with_the_model(
    raised: Callable[[onnx.ModelProto, Task], onnx.ModelProto], version: int
) -> None:
    made = raised(with_function(opset=11, own=11), small.make_task(Normalized))
    assert (opset_of(made), len(made.functions)) == (version, 0)
    onnx.checker.check_model(made, full_check=True)
    kinds = [node.op_type for node in made.graph.node if node.op_type != "Constant"]
    assert kinds == ["LayerNormalization", "Squeeze", "Unsqueeze"]
    x = small.floats(3, 1, 4)
    np.testing.assert_allclose(small.run(made, x=x)[0], normalized(x), atol=1e-5)


def test_a_function_of_another_version_is_told_when_the_model_is_raised() -> None:
    model = with_function(opset=11, own=17)
    assert complete(model, small.make_task(Normalized)) is model, "the function states that it has what it uses"
    expected = r"raising the file's 11 fails: its function 'Normalize' states another version"
    with pytest.raises(ArtifactError, match=expected):
        raise_opset(model, 18, small.make_task(Normalized))
