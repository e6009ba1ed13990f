"""Nodes of ONNX files that were left in training mode, or draw random numbers: they are named, and others are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.onnxfile.costs.profile import profile
from bench.onnxfile.file.training import DRAWS, DROPS, NORMALIZES, Unsettled, of_onnx, sentences

FLOAT, BOOL = TensorProto.FLOAT, TensorProto.BOOL
NORM = ["x", "s", "b", "mean", "var"]


def model(*nodes: onnx.NodeProto, opset: int = 17, stored: Any = (), functions: Any = (), inputs: Any = ()) -> Any:
    vectors = {name: np.ones(3, np.float32) for name in NORM[1:]}
    tensors = [*(numpy_helper.from_array(array, name) for name, array in vectors.items()), *stored]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", FLOAT, ["N", 3, 4, 4]), *inputs],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        tensors,
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("mine", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=8)


def single(name: str, value: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(value), name)


def constant(name: str, value: Any) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=single(name, value))


def norm(outputs: Any = ("y",), **attributes: Any) -> onnx.NodeProto:
    return helper.make_node("BatchNormalization", NORM, list(outputs), "norm", **attributes)


def dropout(*inputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node("Dropout", ["x", *inputs], ["y"], "drop", **attributes)


TRUE, FALSE, RATIO, ZERO = single("mode", True), single("mode", False), single("ratio", 0.3), single("ratio", 0.0)
SEEN = Unsettled(kind="BatchNormalization", name="norm", effect=NORMALIZES)
DROP = Unsettled(kind="Dropout", name="drop", effect=DROPS)


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (model(norm(("y", "m", "v"), training_mode=1)), [SEEN]),
        (model(norm(training_mode=0)), []),
        (model(norm()), []),
        (model(norm(("y", "m", "v", "sm", "sv")), opset=9), [SEEN]),
        (model(norm(("y", "", "", "", "")), opset=9), []),
        (model(norm(), opset=9), []),
        (model(dropout("ratio", "mode"), stored=[RATIO, TRUE]), [DROP]),
        (model(dropout("", "mode"), stored=[TRUE]), [DROP]),
        (model(constant("mode", True), dropout("", "mode")), [DROP]),
        (model(dropout("ratio", "mode"), stored=[RATIO, FALSE]), []),
        (model(dropout("ratio", "mode"), stored=[ZERO, TRUE]), []),
        (model(dropout("ratio"), stored=[RATIO]), []),
        (model(dropout("", "fed"), inputs=[helper.make_tensor_value_info("fed", BOOL, [])]), []),
        (model(dropout(ratio=0.3), opset=10), []),
        (model(dropout(ratio=0.3), opset=6), [DROP]),
        (model(dropout(ratio=0.3, is_test=1), opset=6), []),
        (
            model(helper.make_node("RandomNormalLike", ["x"], ["y"], "noise")),
            [Unsettled(kind="RandomNormalLike", name="noise", effect=DRAWS)],
        ),
        (
            model(helper.make_node("Bernoulli", ["x"], ["y"])),
            [Unsettled(kind="Bernoulli", name="y", effect=DRAWS)],
        ),
        (model(helper.make_node("Relu", ["x"], ["y"])), []),
        (model(helper.make_node("Dropout", ["x", "", "mode"], ["y"], domain="mine"), stored=[TRUE]), []),
    ],
)
def test_nodes_whose_outputs_follow_from_more_than_their_inputs(graph: Any, expected: list[Unsettled]) -> None:
    assert list(of_onnx(graph)) == expected


def test_nodes_in_branches() -> None:
    made = helper.make_tensor_value_info("y", FLOAT, None)
    then = helper.make_graph([constant("mode", True), dropout("", "mode")], "then", [], [made])
    other = helper.make_graph([norm(("y", "m", "v"), training_mode=1)], "else", [], [made])
    graph = model(
        helper.make_node("If", ["on"], ["y"], then_branch=then, else_branch=other), stored=[single("on", True)]
    )
    assert sorted(map(str, of_onnx(graph))) == ["BatchNormalization 'norm'", "Dropout 'drop'"]


@pytest.mark.parametrize("mode", [True, False])
def test_nodes_in_functions_whose_mode_the_call_tells(mode: bool) -> None:
    body = [helper.make_node("Dropout", ["a", "r", "t"], ["b"], "inner")]
    function = helper.make_function("mine", "F", ["a", "r", "t"], ["b"], body, [helper.make_opsetid("", 17)])
    call = helper.make_node("F", ["x", "ratio", "mode"], ["y"], domain="mine")
    found = list(of_onnx(model(call, stored=[RATIO, single("mode", mode)], functions=[function])))
    assert [(node.kind, node.effect) for node in found] == ([("Dropout", DROPS)] if mode else [])


def test_one_sentence_for_each_effect() -> None:
    nodes = [SEEN, Unsettled(kind="BatchNormalization", name="other", effect=NORMALIZES), DROP, SEEN]
    assert sentences(nodes) == (
        "BatchNormalization 'norm' (as 1 more) is in training mode: its outputs depend on the other samples of a "
        "batch; export after model.eval()",
        "Dropout 'drop' is in training mode: it drops values at random, others at each run; export after model.eval()",
    )
    assert sentences([]) == ()


def test_a_profile_tells_it(tmp_path: Any) -> None:
    for name, mode in (("train", 1), ("eval", 0)):
        outputs = ("y", "m", "v") if mode else ("y",)
        onnx.save(model(norm(outputs, training_mode=mode)), tmp_path / f"{name}.onnx")
    said = [
        any("training mode" in note for note in profile(tmp_path / f"{name}.onnx").notes) for name in ("train", "eval")
    ]
    assert said == [True, False]
