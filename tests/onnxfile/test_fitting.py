"""Sizes of open dimensions that meet what the nodes of a model require."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.onnxfile.file.lazy import Stored
from bench.onnxfile.shapes import fitting, solving
from bench.onnxfile.shapes.constraints import Requirement, Requirements, equal
from bench.onnxfile.shapes.dims import Size, symbol, symbols
from bench.onnxfile.shapes.solving import Proposal
from support.cached_decoder import decoder

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Shape = list[int | str]


def model(
    inputs: dict[str, Shape], nodes: list[onnx.NodeProto], weights: dict[str, Any], opset: int = 17
) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    values = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()]
    output = helper.make_empty_tensor_value_info(nodes[-1].output[0])
    output.type.tensor_type.elem_type = FLOAT
    graph = helper.make_graph(nodes, "g", values, [output], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def proposed(made: onnx.ModelProto, likely: dict[str, int], fixed: tuple[str, ...] = ()) -> list[Proposal]:
    required = fitting.requirements(Stored(model=made, path=None))
    return list(solving.proposals(required, likely, fixed))


def runs(made: onnx.ModelProto, sizes: dict[str, int]) -> bool:
    feeds = {
        value.name: np.ones(
            [sizes.get(dim.dim_param, dim.dim_value) for dim in value.type.tensor_type.shape.dim], np.float32
        )
        for value in made.graph.input
    }
    try:
        session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
        session.run(None, feeds)
    except Exception:
        return False
    return True


def recognizer() -> onnx.ModelProto:
    """Lines of text: four strided convolutions and a pool leave one row of a height of 48 to 95."""
    nodes, name = [], "x"
    for number in range(4):
        nodes.append(
            helper.make_node(
                "Conv", [name, f"w{number}"], [f"c{number}"], name=f"conv{number}", strides=[2, 2], pads=[1, 1, 1, 1]
            )
        )
        name = f"c{number}"
    nodes += [
        helper.make_node("MaxPool", [name], ["pooled"], name="pool", kernel_shape=[3, 1], strides=[3, 1]),
        helper.make_node("Squeeze", ["pooled", "axes"], ["y"], name="rows"),
    ]
    weights: dict[str, Any] = {
        f"w{number}": np.ones((4, 3 if number == 0 else 4, 3, 3), np.float32) for number in range(4)
    }
    return model({"x": ["n", 3, "height", "width"]}, nodes, {**weights, "axes": np.array([2])})


def test_height_that_leaves_one_row_is_found() -> None:
    made, likely = recognizer(), {"n": 1, "height": 224, "width": 224}
    assert not runs(made, likely)
    first, *others = proposed(made, likely)
    assert first.sizes == {"n": 1, "height": 48, "width": 224}
    assert first.reasons == {"height": "node 'rows' (Squeeze) drops an axis of size 1, not 4"}
    assert [proposal.sizes["height"] for proposal in others] == [40, 56, 60, 64]
    assert runs(made, dict(first.sizes))


def test_sizes_that_fit_are_kept() -> None:
    (only,) = proposed(recognizer(), {"n": 1, "height": 64, "width": 100})
    assert (only.sizes, only.reasons) == ({"n": 1, "height": 64, "width": 100}, {})


def test_given_sizes_stay() -> None:
    assert proposed(recognizer(), {"n": 1, "height": 224, "width": 224}, fixed=("height",)) == []


def test_samples_that_a_product_needs_are_found() -> None:
    """Frames of 64 samples, of which a matrix takes 8."""
    nodes = [
        helper.make_node("Reshape", ["x", "frames"], ["h"], name="cut"),
        helper.make_node("Transpose", ["h"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["turned", "w"], ["y"], name="mix"),
    ]
    weights = {"frames": np.array([-1, 64]), "w": np.ones((8, 2), np.float32)}
    made = model({"x": [1, "samples"]}, nodes, weights)
    (first, *_) = proposed(made, {"samples": 16})
    assert first.sizes == {"samples": 512}
    assert runs(made, {"samples": 512})


def test_dimensions_that_must_be_equal_are() -> None:
    """A state has the batch of the data, whatever its dimension is called."""
    nodes = [helper.make_node("GRU", ["x", "w", "r", "", "", "h"], ["y", "z"], name="gru", hidden_size=2)]
    weights = {"w": np.ones((1, 6, 5), np.float32), "r": np.ones((1, 6, 2), np.float32)}
    made = model({"x": ["length", "n", "features"], "h": [1, "rows", 2]}, nodes, weights)
    (first, *_) = proposed(made, {"length": 16, "n": 1, "features": 16, "rows": 16})
    assert first.sizes == {"length": 16, "n": 1, "features": 5, "rows": 1}
    assert runs(made, dict(first.sizes))


def test_largest_length_of_a_table_of_positions_is_kept_below() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["length"], start=1, end=2),
        helper.make_node("Slice", ["table", "zero", "length"], ["positions"], name="positions"),
        helper.make_node("Add", ["x", "positions"], ["y"], name="add"),
    ]
    made = model({"x": ["n", "length_of_text"]}, nodes, {"table": np.ones(100, np.float32), "zero": np.array([0])})
    (first, *_) = proposed(made, {"n": 1, "length_of_text": 224})
    assert first.sizes == {"n": 1, "length_of_text": 100}


def branch(name: str, target: list[int]) -> onnx.GraphProto:
    shape = numpy_helper.from_array(np.array(target), f"shape_{name}")
    node = helper.make_node("Reshape", ["x", f"shape_{name}"], [f"y_{name}"], name=f"cut_{name}")
    return helper.make_graph([node], name, [], [helper.make_tensor_value_info(f"y_{name}", FLOAT, None)], [shape])


@pytest.mark.parametrize(("targets", "size"), [(([1, 512], [1, 256]), 256), (([1, 16], [1, 256]), 16)])
def test_one_branch_of_an_if_is_enough(targets: tuple[list[int], list[int]], size: int) -> None:
    node = helper.make_node(
        "If", ["long"], ["y"], then_branch=branch("then", targets[0]), else_branch=branch("else", targets[1])
    )
    made = model({"x": [1, "samples"]}, [node], {})
    made.graph.input.append(helper.make_tensor_value_info("long", BOOL, []))
    (first, *_) = proposed(made, {"samples": 16})
    assert first.sizes["samples"] == size


def test_what_no_sizes_meet_is_not_proposed() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="first"),
        helper.make_node("MatMul", ["x", "v"], ["g"], name="second"),
        helper.make_node("Add", ["h", "g"], ["y"]),
    ]
    made = model({"x": [1, "k"]}, nodes, {"w": np.ones((5, 2), np.float32), "v": np.ones((7, 2), np.float32)})
    assert proposed(made, {"k": 16}) == []


@pytest.mark.parametrize(
    ("given", "total"),
    [({}, 32), ({"past": 0, "new": 1}, 1), ({"past": 30, "new": 7}, 37), ({"past": 0, "new": 16}, 16)],
)
def test_total_is_the_sum_that_the_nodes_make(given: dict[str, int], total: int) -> None:
    """A mask of one element would do by broadcasting, and is no mask that anybody sends."""
    likely = {"batch": 1, "new": 16, "total": 16, "past": 16, **given}
    first, *_ = proposed(decoder(total="total"), likely, tuple(given))
    assert first.sizes == {**likely, "total": total}


def test_past_is_what_a_given_total_leaves() -> None:
    likely = {"batch": 1, "new": 1, "total": 40, "past": 16}
    first, *_ = proposed(decoder(total="total"), likely, ("new", "total"))
    assert first.sizes == {**likely, "past": 39}


def test_a_mask_of_queries_and_keys_follows_both() -> None:
    nodes = [
        helper.make_node("Transpose", ["k"], ["kt"], "turn", perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "kt"], ["scores"], "scores"),
        helper.make_node("Add", ["scores", "mask"], ["y"], "add_mask"),
    ]
    inputs: dict[str, Shape] = {
        "q": ["batch", 2, "queries", 4],
        "k": ["batch", 2, "keys", 4],
        "mask": ["batch", 1, "mask_2", "mask_3"],
    }
    made = model(inputs, nodes, {})
    given = {"queries": 4, "keys": 9}
    first, *_ = proposed(made, {"batch": 1, "mask_2": 16, "mask_3": 16, **given}, tuple(given))
    assert first.sizes == {"batch": 1, "mask_2": 4, "mask_3": 9, **given}
    assert runs(made, dict(first.sizes))


def test_a_mask_of_an_encoder_follows_its_length() -> None:
    """Cross attention: the file names the length of the mask otherwise than that of the states."""
    nodes = [
        helper.make_node("Transpose", ["states"], ["kt"], "turn", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "kt"], ["scores"], "scores"),
        helper.make_node("Unsqueeze", ["mask", "axes"], ["bias"], "spread"),
        helper.make_node("Add", ["scores", "bias"], ["masked"], "add_mask"),
        helper.make_node("MatMul", ["masked", "states"], ["y"], "mix"),
    ]
    inputs: dict[str, Shape] = {
        "x": ["batch", "length", 4],
        "states": ["batch", "encoder_length", 4],
        "mask": ["batch", "encoder_length_out"],
    }
    made = model(inputs, nodes, {"axes": np.array([1])})
    given = {"length": 1, "encoder_length": 20}
    first, *_ = proposed(made, {"batch": 1, "encoder_length_out": 16, **given}, tuple(given))
    assert first.sizes == {"batch": 1, "encoder_length_out": 20, **given}
    assert runs(made, dict(first.sizes))


def test_windows_of_eight_need_a_multiple_of_eight() -> None:
    nodes = [helper.make_node("Reshape", ["x", "windows"], ["y"], "cut")]
    made = model({"x": ["n", "length", 4]}, nodes, {"windows": np.array([0, -1, 8, 4])})
    (first, *_) = proposed(made, {"n": 1, "length": 12})
    assert first.sizes == {"n": 1, "length": 16}
    assert runs(made, dict(first.sizes))


def test_patches_are_as_many_as_the_table_of_positions() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["patches"], "patch", strides=[8, 8]),
        helper.make_node("Reshape", ["patches", "rows"], ["flat"], "flatten"),
        helper.make_node("Add", ["flat", "positions"], ["y"], "add"),
    ]
    weights = {
        "w": np.ones((4, 3, 8, 8), np.float32),
        "rows": np.array([0, 4, -1]),
        "positions": np.ones((1, 4, 196), np.float32),
    }
    made = model({"x": ["n", 3, "height", "width"]}, nodes, weights)
    (first, *_) = proposed(made, {"n": 1, "height": 112, "width": 224})
    assert first.sizes == {"n": 1, "height": 56, "width": 224}, "28 columns of 7"
    assert runs(made, dict(first.sizes))


def test_a_length_that_an_initializer_fixes_is_that_and_not_one() -> None:
    made = model(
        {"x": ["n", "length", 4]},
        [helper.make_node("Add", ["x", "table"], ["y"], "add")],
        {"table": np.ones((1, 77, 4), np.float32)},
    )
    (first, *_) = proposed(made, {"n": 1, "length": 16})
    assert first.sizes == {"n": 1, "length": 77}
    assert first.reasons == {"length": "node 'add' (Add) joins equal sizes or 1, not 16 and 77"}


def test_states_are_as_wide_as_the_weights_of_their_lstm() -> None:
    node = helper.make_node(
        "LSTM", ["x", "w", "r", "", "", "h", "c"], ["y"], "lstm", hidden_size=5, direction="bidirectional"
    )
    weights = {"w": np.ones((2, 20, 3), np.float32), "r": np.ones((2, 20, 5), np.float32)}
    inputs: dict[str, Shape] = {
        "x": ["length", "batch", 3],
        "h": [2, "batch", "hidden"],
        "c": [2, "batch", "hidden"],
    }
    made = model(inputs, [node], weights)
    (first, *_) = proposed(made, {"length": 16, "batch": 1, "hidden": 16})
    assert first.sizes == {"length": 16, "batch": 1, "hidden": 5}
    assert runs(made, dict(first.sizes))


def test_no_elements_are_chosen_only_where_nothing_else_fits() -> None:
    made = decoder(total="total")
    fixed = ("new", "total")
    (first, *_) = proposed(made, {"batch": 1, "new": 16, "total": 16, "past": 16}, fixed)
    assert first.sizes["past"] == 0


def equals(left: Size, right: Size) -> Requirement:
    names = frozenset(str(atom.arguments[0]) for size in (left, right) for atom in symbols(size))
    return Requirement(node=f"{left}", what="is", sizes=(left, right), holds=equal, dims=names)


PAST, NEW, BATCH = symbol("past"), symbol("new"), symbol("batch")
LIKELY = {"batch": 1, "past": 16, "new": 4}


@pytest.mark.parametrize(
    ("required", "sizes"),
    [
        ([equals(PAST + NEW, 20), equals(NEW, 8)], (1, 12, 8)),
        ([equals(PAST + NEW, 20), equals(PAST, 7)], (1, 7, 13)),
        ([equals(PAST + NEW, 8)], (1, 4, 4)),
        ([equals(PAST + NEW, 4)], (1, 2, 2)),
        ([equals(PAST * NEW, 77)], (1, 77, 1)),
        ([equals(PAST + NEW, 20 * BATCH), equals(NEW, 24)], (2, 16, 24)),
        ([equals(PAST + NEW, 20), equals(NEW, 20)], (1, 0, 20)),
    ],
)
def test_two_dimensions_of_one_equation_change_together(required: list[Requirement], sizes: tuple[int, ...]) -> None:
    """No elements, and another size of the batch, only where nothing else fits."""
    first, *_ = solving.proposals(Requirements(always=tuple(required)), LIKELY, ())
    assert tuple(first.sizes.values()) == sizes
    changed = {dim for dim, size in first.sizes.items() if size != LIKELY[dim]}
    assert first.reasons.keys() == changed


def test_given_sizes_stay_where_two_would_change() -> None:
    required = Requirements(always=(equals(PAST + NEW, 20), equals(NEW, 8)))
    assert list(solving.proposals(required, LIKELY, ("past",))) == []
