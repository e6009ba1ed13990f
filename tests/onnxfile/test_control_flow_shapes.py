"""Shapes of tensors inside loops, branches, scans and local functions, inferred without running the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api.errors import InputError
from bench.onnxfile.costs.profile import profile
from support import shape_inference
from support.shape_inference import graph_model


def body(nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], *outputs: str) -> onnx.GraphProto:
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    return helper.make_graph(nodes, "body", inputs, made)


def loop_model(*, grows: bool = False) -> onnx.ModelProto:
    """x (N, 4): five times a MatMul, its results stacked; or a Concat with itself."""
    inputs = [
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        helper.make_tensor_value_info("v", TensorProto.FLOAT, None),
    ]
    step = (
        helper.make_node("Concat", ["v", "v"], ["v2"], axis=0)
        if grows
        else helper.make_node("MatMul", ["v", "w"], ["v2"])
    )
    inner = [helper.make_node("Identity", ["c"], ["c2"]), step, helper.make_node("Relu", ["v2"], ["s"])]
    nodes = [
        helper.make_node(
            "Loop", ["five", "true", "x"], ["y", "stack"], name="loop", body=body(inner, inputs, "c2", "v2", "s")
        )
    ]
    stored = {"five": np.array(5), "true": np.array(True), "w": np.zeros((4, 4), np.float32)}
    return graph_model(nodes, {"x": ["N", 4]}, "y", "stack", **stored)


def test_loops_keep_the_shapes_that_do_not_change() -> None:
    tensors = shape_inference.infer(loop_model(), dims={"N": 3})

    assert tensors["y"].shape == (3, 4)
    assert tensors["stack"].shape == (5, 3, 4)
    assert tensors["loop.body:v2"].shape == (3, 4)
    assert tensors["loop.body:i"].shape == ()


def test_loops_do_not_claim_a_shape_that_changes() -> None:
    tensors = shape_inference.infer(loop_model(grows=True), dims={"N": 3})

    assert tensors["y"].shape is None
    assert tensors["y"].bytes is None
    assert tensors["loop.body:v"].shape is None


def branched(then_size: int, else_size: int) -> onnx.ModelProto:
    """x (1, 8): reshaped to one of two sizes, as data decide."""
    branches = {
        f"{name}_branch": body(
            [helper.make_node("Reshape", ["x", f"{name}_shape"], [name], name=f"cut_{name}")], [], name
        )
        for name in ("then", "else")
    }
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0),
        helper.make_node("Cast", ["top"], ["flag"], to=TensorProto.BOOL),
        helper.make_node("If", ["flag"], ["y"], name="if", **branches),
    ]
    shapes = {"then_shape": np.array([1, then_size]), "else_shape": np.array([1, else_size])}
    return graph_model(nodes, {"x": [1, 8]}, "y", **shapes)


def test_branch_that_cannot_run_with_these_sizes_is_told(tmp_path: Path) -> None:
    onnx.save(branched(8, 512), tmp_path / "one.onnx")
    found = profile(tmp_path / "one.onnx")
    assert found.tensors["y"].shape == (1, 8)
    told = "node 'if' (If): its else_branch cannot run with these sizes: node 'cut_else' (Reshape)"
    assert any(note.startswith(told) for note in found.notes)


def test_file_is_profiled_although_no_branch_can_run(tmp_path: Path) -> None:
    onnx.save(branched(256, 512), tmp_path / "none.onnx")
    found = profile(tmp_path / "none.onnx", observe=False)
    assert found.tensors["y"].shape is None
    assert sum("_branch cannot run with these sizes" in note for note in found.notes) == 2
    assert not any("is counted" in note for note in found.notes)


@pytest.mark.parametrize(("flag", "expected"), [(None, None), (True, (2, 3)), (False, (6,))])
def test_branches_agree_or_are_chosen(flag: bool | None, expected: tuple[int, ...] | None) -> None:
    nodes = [
        helper.make_node(
            "If", ["flag"], ["y"], name="if",
            then_branch=body([helper.make_node("Relu", ["x"], ["t"])], [], "t"),
            else_branch=body([helper.make_node("Reshape", ["x", "flat"], ["e"])], [], "e"),
        )
    ]  # fmt: skip
    stored: dict[str, Any] = {"flat": np.array([-1])}
    if flag is None:
        nodes.insert(0, helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0))
        nodes.insert(1, helper.make_node("Cast", ["top"], ["flag"], to=TensorProto.BOOL))
    else:
        stored["flag"] = np.array(flag)
    tensors = shape_inference.infer(graph_model(nodes, {"x": [2, 3]}, "y", **stored))

    assert tensors["y"].shape == expected
    assert tensors["if.then_branch:t"].shape == (2, 3)
    assert tensors["if.else_branch:e"].shape == (6,)


def test_branches_may_list_their_weights_as_inputs() -> None:
    branch = body([helper.make_node("Add", ["x", "w"], ["t"])], [], "t")
    branch.initializer.append(numpy_helper.from_array(np.zeros((4, 1, 1), np.float32), "w"))
    branch.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 1, 1]))
    choice = helper.make_node("If", ["flag"], ["y"], then_branch=branch, else_branch=branch)
    tensors = shape_inference.infer(graph_model([choice], {"x": [2, 3]}, "y", flag=np.array(True)))

    assert tensors["y"].shape == (4, 2, 3)


def test_bodies_are_given_as_many_values_as_they_take() -> None:
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("state", "row")]
    inner = body([helper.make_node("Add", ["state", "row"], ["next"])], inputs, "next")
    for number, message in (
        (1, "gives its body 1 values; it takes 2"),
        (2, "scans 2 of 1 inputs"),
        (2**31 - 1, "scans 2147483647 of 1 inputs"),
    ):
        scan = helper.make_node("Scan", ["x"], ["y"], body=inner, num_scan_inputs=number)
        with pytest.raises(InputError, match=message):
            shape_inference.infer(graph_model([scan], {"x": [3, 4]}, "y"))


@pytest.mark.parametrize("name", ["Loop", "Scan"])
def test_values_that_are_carried_may_not_be_left_out(name: str) -> None:
    inputs = [helper.make_tensor_value_info(each, TensorProto.FLOAT, None) for each in ("i", "c", "v")]
    inner = body([helper.make_node("Identity", ["c"], ["c2"])], inputs, "c2", "v")
    given = {"num_scan_inputs": 1} if name == "Scan" else {}
    node = helper.make_node(name, ["x", "x", ""], ["y"], body=inner, **given)
    with pytest.raises(InputError, match="a value that a loop carries or scans is left out"):
        shape_inference.infer(graph_model([node], {"x": [3, 4]}, "y"))


@pytest.mark.parametrize("axes", [[0, 0], [0, 5, -7]])
def test_scans_stack_each_output_along_one_axis(axes: list[int]) -> None:
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("state", "row")]
    inner = body([helper.make_node("Add", ["state", "row"], ["next"])], inputs, "next", "next")
    node = helper.make_node("Scan", ["x", "x"], ["y", "z"], body=inner, num_scan_inputs=1, scan_output_axes=axes)
    with pytest.raises(InputError, match=f"stacks 1 outputs along {len(axes)} axes"):
        shape_inference.infer(graph_model([node], {"x": [3, 4]}, "y", "z"))


def test_scans_take_their_steps_from_what_they_scan() -> None:
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("state", "row")]
    inner = [helper.make_node("Add", ["state", "row"], ["next"]), helper.make_node("Relu", ["next"], ["out"])]
    nodes = [
        helper.make_node(
            "Scan", ["start", "x"], ["last", "all"], body=body(inner, inputs, "next", "out"), num_scan_inputs=1
        )
    ]
    tensors = shape_inference.infer(graph_model(nodes, {"start": [4], "x": ["T", 4]}, "last", "all"), dims={"T": 9})

    assert tensors["last"].shape == (4,)
    assert tensors["all"].shape == (9, 4)


def test_local_functions_are_followed() -> None:
    double = helper.make_function(
        "local",
        "Double",
        ["a"],
        ["b"],
        [helper.make_node("Concat", ["a", "a"], ["b"], axis=0)],
        [helper.make_opsetid("", 18)],
    )
    model = graph_model([helper.make_node("Double", ["x"], ["y"], domain="local")], {"x": ["N", 2]}, "y")
    model.functions.append(double)
    model.opset_import.append(helper.make_opsetid("local", 1))

    assert shape_inference.infer(model, dims={"N": 3})["y"].shape == (6, 2)


@pytest.mark.parametrize("sizes", [[-1, 4], [-2], [3, -(2**40)]])
def test_constants_of_a_negative_shape_are_refused(sizes: list[int]) -> None:
    node = helper.make_node("ConstantOfShape", ["sizes"], ["y"])
    with pytest.raises(InputError, match="no size is negative"):
        shape_inference.infer(graph_model([node], {"x": [3]}, "y", sizes=np.array(sizes, np.int64)))
