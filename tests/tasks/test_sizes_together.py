"""Sizes of a model's inputs that hang together, from the request to the samples; and inputs without elements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api import Arrays, Task, TensorSpec
from bench.api.cell import Cell
from bench.api.errors import InputError
from bench.measure.limits import Limits
from bench.onnxfile.costs.profile import profile
from bench.onnxfile.edits.fold import compute_graph
from bench.onnxfile.shapes.constraints import value_of
from bench.onnxfile.shapes.engine import ShapeEngine
from bench.onnxfile.shapes.stated_sizes import stated
from bench.pipeline import sizing
from bench.plugins import catalog
from bench.tasks import adopt, probe
from bench.tasks.examine import examine
from support.cached_decoder import DEEP, HEADS, WIDTH, decoder, num_macs

FLOAT = TensorProto.FLOAT
LIMITS = Limits.of(step_s=None, memory_bytes=None)


@pytest.fixture
def folder(plugin_folder: Path) -> Path:
    return plugin_folder


def examined(folder: Path, model: onnx.ModelProto, *dims: str, shapes: tuple[str, ...] = ()) -> tuple[Task, Any]:
    """The task that is made of a model in this process, and what was found out about it."""
    path, place = folder / "model.onnx", folder / "models" / "mine"
    path.write_bytes(model.SerializeToString())
    place.mkdir(parents=True)
    found = examine(module="onnx", path=str(path), folder=str(place), data=None, dims=dims, shapes=shapes, trust=False)
    catalog.forget()
    return catalog.task("mine"), found


def sizes_of(task: Task) -> tuple[int, int, int]:
    """The past, new and total length of a decoder's samples."""
    inputs = task.samples("test").inputs
    past, new, total = (inputs[name].shape[axis] for name, axis in (("past_key", 2), ("ids", 1), ("mask", 1)))
    assert inputs["past_value"].shape[1:] == (HEADS, past, DEEP)
    return past, new, total


@pytest.mark.parametrize(
    ("dims", "sizes"),
    [
        ((), (16, 16, 32)),
        (("past=0", "new=1"), (0, 1, 1)),
        (("past=0",), (0, 16, 16)),
        (("new=1",), (16, 1, 17)),
        (("past + new=40", "new=1"), (39, 1, 40)),
    ],
)
def test_a_mask_covers_past_and_new(dims: tuple[str, ...], sizes: tuple[int, int, int], folder: Path) -> None:
    task, found = examined(folder, decoder(), *dims)
    assert sizes_of(task) == sizes
    assert task.batched
    assert {spec.name: spec.shape for spec in task.outputs} == {
        "y": ("batch", "new", WIDTH),
        "present_key": ("batch", HEADS, "past + new", DEEP),
        "present_value": ("batch", HEADS, "past + new", DEEP),
    }
    assert not [note for note in found["notes"] if "no run has checked" in note]


def test_shapes_are_solved_like_sizes(folder: Path) -> None:
    task, found = examined(folder, decoder(), shapes=("ids=1x2", "mask=1x33"))
    assert sizes_of(task) == (31, 2, 33)
    assert (found["guessed"], found["following"]) == ({}, {"past": 31})


def test_names_that_are_joined_in_other_ways_are_one_size(folder: Path) -> None:
    model = decoder()
    model.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "new+past"
    task, _ = examined(folder, model, "past=3")
    assert sizes_of(task) == (3, 16, 19)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        (("past=1", "new=2", "past + new=4"), "dimension 'past + new' is given 4, and new=2 and past=1 make it 3; "),
        (("total=4",), "it has no dynamic dimension 'total'; its dynamic dimensions: batch, new, past, past + new"),
    ],
)
def test_contradictions_are_refused(dims: tuple[str, ...], message: str, folder: Path) -> None:
    with pytest.raises(InputError) as raised:
        examined(folder, decoder(), *dims)
    assert str(raised.value).startswith(message)


def test_a_contradiction_with_the_nodes_has_both_sides(folder: Path) -> None:
    with pytest.raises(InputError) as raised:
        examined(folder, decoder(total="total"), "past=3", "new=2", "total=9")
    assert str(raised.value) == (
        "node 'add_mask' (Add) joins equal sizes or 1, not 5 and 9 with new=2, past=3, total=9; leave one out, such as "
        "--dim total=9"
    )


def test_a_size_that_two_options_give_differently(folder: Path) -> None:
    with pytest.raises(InputError, match="dimension 'new' is given two sizes, 2 and 3"):
        examined(folder, decoder(), "new=3", shapes=("ids=1x2",))


@pytest.mark.parametrize("total", ["past + new", "total_length"])
def test_sizes_that_are_measured_one_by_one_take_the_others_along(total: str, folder: Path) -> None:
    """The second file does not say that its total is a sum: the nodes do."""
    own, _ = examined(folder, decoder(total=total))
    assert sizes_of(own) == (16, 16, 32)
    assert sizes_of(catalog.task("mine@new=1")) == (16, 1, 17)
    assert sizes_of(catalog.task("mine@new=4,past=0")) == (0, 4, 4)


def test_an_empty_cache_is_filled_again_at_other_sizes(folder: Path) -> None:
    examined(folder, decoder(), "past=0")
    assert sizes_of(catalog.task("mine@past=8")) == (8, 16, 24)


def test_an_input_that_nothing_reads_may_have_no_rows(folder: Path) -> None:
    sides = [[helper.make_tensor_value_info(name, FLOAT, shape)] for name, shape in (("x", ["n", 4]), ("y", ["n", 4]))]
    sides[0].append(helper.make_tensor_value_info("hints", FLOAT, ["rows", 4]))
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", *sides)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    task, found = examined(folder, model, "rows=0")
    assert [task.samples("test").inputs[name].shape[-2:] for name in ("x", "hints")] == [(1, 4), (0, 4)]
    assert not [note for note in found["notes"] if "no run has checked" in note]


def test_an_output_of_twice_a_dimension(folder: Path) -> None:
    """Of an LSTM of both directions, whose weights say how wide its states are."""
    node = helper.make_node(
        "LSTM", ["x", "w", "r", "", "", "h", "c"], ["both"], "lstm", hidden_size=5, direction="bidirectional"
    )
    nodes = [
        node,
        helper.make_node("Transpose", ["both"], ["turned"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["turned", "flat"], ["y"]),
    ]
    state = [2, "batch", "hidden"]
    inputs = [
        helper.make_tensor_value_info(name, FLOAT, shape)
        for name, shape in (("x", ["length", "batch", 3]), ("h", state), ("c", state))
    ]
    outputs = [helper.make_tensor_value_info("y", FLOAT, ["length", "batch", "2*hidden"])]
    weights = {
        "w": np.ones((2, 20, 3), np.float32),
        "r": np.ones((2, 20, 5), np.float32),
        "flat": np.array([0, 0, -1]),
    }
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    task, found = examined(folder, model)
    assert found["guessed"] == {"length": 16, "batch": 1, "hidden": 5}
    assert task.outputs[0].shape == ("length", "batch", 10)


def test_a_sum_that_only_nodes_tell_is_kept_where_another_size_is_a_guess(folder: Path) -> None:
    """The requirements of an Einsum are not known, so a size that it takes is found by trying."""
    shapes = {"past": [1, "past"], "new": [1, "new"], "mask": [1, "total"], "x": [1, "hid"]}
    inputs = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in shapes.items()]
    nodes = [
        helper.make_node("Concat", ["past", "new"], ["all"], "join", axis=1),
        helper.make_node("Add", ["all", "mask"], ["y"], "add_mask"),
        helper.make_node("Einsum", ["x", "w"], ["z"], "project", equation="ij,jk->ik"),
    ]
    outputs = [helper.make_tensor_value_info(name, FLOAT, None) for name in ("y", "z")]
    weights = [numpy_helper.from_array(np.ones((64, 3), np.float32), "w")]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    task, found = examined(folder, model)
    assert found["guessed"] == {"past": 16, "new": 16, "hid": 1}
    assert found["following"] == {"new + past": 32}
    assert "total is 32 and not 16: node 'add_mask' (Add) joins equal sizes or 1, not 32 and 16" in found["notes"]
    assert task.samples("test").inputs["mask"].shape[-1] == 32


def narrow_cache() -> onnx.ModelProto:
    """A mask over past and new tokens, of which weights take 8 new ones."""
    shapes = {"past": [1, "past"], "new": [1, "new"], "mask": [1, "past + new"]}
    inputs = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in shapes.items()]
    nodes = [
        helper.make_node("Concat", ["past", "new"], ["all"], "join", axis=1),
        helper.make_node("Add", ["all", "mask"], ["y"], "add_mask"),
        helper.make_node("MatMul", ["new", "w"], ["z"], "project"),
    ]
    outputs = [helper.make_tensor_value_info(name, FLOAT, None) for name in ("y", "z")]
    weights = [numpy_helper.from_array(np.ones((8, 3), np.float32), "w")]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_a_guess_within_a_given_sum_gives_way_to_what_nodes_require(folder: Path) -> None:
    task, found = examined(folder, narrow_cache(), "past + new=20")
    assert {name: array.shape[-1] for name, array in task.samples("test").inputs.items()} == {
        "past": 12,
        "new": 8,
        "mask": 20,
    }
    assert found["guessed"] == {"past": 12, "new": 8}
    assert "new is 8 and not 4: node 'project' (MatMul) multiplies over equal sizes, not 4 and 8" in found["notes"]
    assert not [note for note in found["notes"] if "no run has checked" in note]


def test_macs_are_those_of_guesses_within_a_given_sum(folder: Path) -> None:
    found = profile(saved(folder, narrow_cache()), dims={"past + new": 20})
    assert found.inputs == {"past": (1, 12), "new": (1, 8), "mask": (1, 20)}


def test_a_mask_shorter_than_the_likely_cache_still_has_tokens(folder: Path) -> None:
    task, found = examined(folder, decoder(), shapes=("mask=1x8",))
    assert sizes_of(task) == (4, 4, 8)
    assert found["guessed"] == {"past": 4, "new": 4}


def saved(folder: Path, model: onnx.ModelProto) -> Path:
    path = folder / "step.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_what_was_chosen_is_told_with_the_option_that_changes_it(folder: Path) -> None:
    path = saved(folder, decoder())
    adopted, axes = sizing.adopted(path, adopt.Options(), {"past": (0,)}, LIMITS)
    assert (adopted.notes, axes) == (
        ("sizes: past=0 (given), new=16 (guessed), past + new=16 (from these); say others with --dim new=SIZE",),
        {},
    )


def test_a_batch_has_a_sample(folder: Path) -> None:
    examined(folder, decoder())
    with pytest.raises(InputError, match="a batch has 1 sample or more, not 0: write --dim batch=1"):
        sizing.at_sizes([Cell.from_path("mine/onnx/native/raw/onnxruntime/cpu/b1t1")], {"batch": (0,)})


@pytest.mark.parametrize(("past", "new"), [(16, 1), (0, 16), (16, 16)])
def test_macs_are_those_of_sizes_that_fit(past: int, new: int, folder: Path) -> None:
    found = profile(saved(folder, decoder()), dims={"past": past, "new": new})
    assert found.inputs["mask"] == (1, past + new)
    assert found.macs == num_macs(past, new)


def test_a_dimension_that_stays_open_stays_within_its_sum() -> None:
    folded = compute_graph(decoder(), dims={"past": 3}, free=["new"])
    assert [dim.dim_param for dim in folded.model.graph.input[1].type.tensor_type.shape.dim][1] == "new + 3"


def test_shapes_are_functions_of_dimensions_alone() -> None:
    engine = ShapeEngine.of_model(decoder())
    assert engine.dims == ("batch", "new", "past")
    found = engine.shapes({"batch": 2, "new": 5, "past": 0})
    assert (found["mask"], found["scores"]) == ((2, 5), (2, HEADS, 5, 5))


@pytest.mark.parametrize(("text", "batched"), [("2*batch", False), ("2*length", True)])
def test_a_batch_that_another_size_follows_is_none(text: str, batched: bool) -> None:
    """As `torch.export` names sizes: a sample of a batch of 4 would have another shape than one alone."""
    inputs = tuple(
        TensorSpec(name=name, dtype="float32", shape=shape)
        for name, shape in (("x", ("batch", "length")), ("pairs", ("batch", text)))
    )
    known = stated(("batch", "length", text))
    sizes = {dim: value_of(size, {"batch": 1, "length": 3}) for dim, size in known.sizes.items()}
    example = {spec.name: np.zeros([sizes[dim] for dim in spec.shape], np.float32) for spec in inputs}
    seen: list[tuple[int, ...]] = []

    def run(feeds: Arrays) -> Arrays:
        (batch, length), (_, pairs) = feeds["x"].shape, feeds["pairs"].shape
        assert pairs == 2 * (length if batched else batch), "what follows goes along"
        seen.append(feeds["pairs"].shape)
        return {"y": feeds["pairs"].sum(axis=1, keepdims=True)}

    found = probe.from_specs(run, inputs, example)
    assert found.batched == batched
    assert found.outputs[0].shape == ("batch", 1)
    assert len(seen) == 5, "two other sizes of each dimension"


ROWS = ("n", 4)


@pytest.mark.parametrize(
    ("shape", "output", "batched"),
    [
        (ROWS, ROWS, True),
        (("2*n", 4), ("2*n", 4), False),
        (("n + k", 4), ("n + k", 4), False),
        (("n", "n"), ROWS, False),
        (ROWS, ("n", "n"), False),
        (ROWS, ("n", "?"), True),
        ((1, "k"), (1, "k"), True),
        ((2, "k"), (2, "k"), False),
    ],
)
def test_a_row_is_a_sample_only_where_nothing_else_follows_it(
    shape: tuple[int | str, ...], output: tuple[int | str, ...], batched: bool
) -> None:
    """One row of `2*n` is no request, and a row of a matrix of all pairs is none either."""
    spec = TensorSpec(name="x", dtype="float32", shape=shape)
    known: dict[int | str, int] = {"n": 3, "k": 5, "2*n": 6, "n + k": 8}

    def run(feeds: Arrays) -> Arrays:
        rows = len(feeds["x"])
        made: dict[tuple[int | str, ...], tuple[int, int]] = {
            ROWS: (rows, 4),
            ("n", "n"): (rows, rows),
            ("n", "?"): (rows, 1 + rows // 4),
        }
        return {"y": np.zeros(made.get(output, feeds["x"].shape), np.float32)}

    example = {"x": np.zeros([dim if isinstance(dim, int) else known[dim] for dim in shape], np.float32)}
    found = probe.from_specs(run, (spec,), example)
    assert (found.batched, found.outputs[0].shape) == (batched, output)
