"""Work on graphs: comparing, counting and cutting models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api.errors import InputError
from bench.onnxfile.costs.profile import profile
from bench.onnxfile.diff.models import GraphDiff, NodeRef, diff_models
from bench.onnxfile.diff.operators import OperatorCount, count_operators
from bench.onnxfile.edits.extract import extract
from bench.onnxfile.edits.split import cut, split
from bench.onnxfile.file.lazy import read
from support.resnet_graph import resnet18

FLOAT = TensorProto.FLOAT


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "resnet18.onnx"
    onnx.save(resnet18(), path)
    return path


def run(path: Path, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    given = {one.name: feeds[one.name] for one in session.get_inputs()}
    return dict(zip([one.name for one in session.get_outputs()], session.run(None, given), strict=True))


def image(batch: int = 2) -> dict[str, np.ndarray]:
    return {"image": np.random.default_rng(1).standard_normal((batch, 3, 32, 32), np.float32)}


def changed(path: Path, folder: Path, change: Any) -> GraphDiff:
    """The diff of a model and what a function makes of it."""
    model = onnx.load(path)
    model = change(model) or model
    onnx.save(model, folder / "changed.onnx")
    return diff_models(read(path), read(folder / "changed.onnx"))


def node_called(model: onnx.ModelProto, name: str) -> onnx.NodeProto:
    return next(node for node in model.graph.node if node.name == name)


def renamed(model: onnx.ModelProto) -> None:
    """Other names for everything inside."""
    kept = {value.name for value in (*model.graph.input, *model.graph.output)}
    for tensor in model.graph.initializer:
        tensor.name = f"renamed_{tensor.name}"
    for number, node in enumerate(model.graph.node):
        node.name = f"node_{number}"
        for names in (node.input, node.output):
            names[:] = [name if name in kept else f"renamed_{name}" for name in names]


def test_names_make_no_difference(path: Path, tmp_path: Path) -> None:
    found = changed(path, tmp_path, renamed)

    assert found.equal
    assert found.num_same == len(onnx.load(path).graph.node)
    assert (found.removed, found.added, found.changed, found.interface, found.changed_weights) == ((),) * 5


def test_an_attribute_that_differs_is_named_and_nothing_else(path: Path, tmp_path: Path) -> None:
    def change(model: onnx.ModelProto) -> None:
        pads = next(one for one in node_called(model, "layer2.1.conv1").attribute if one.name == "pads")
        pads.ints[:] = [0, 2, 0, 2]

    found = changed(path, tmp_path, change)

    assert not found.equal
    (difference,) = found.changed
    assert (difference.before.name, difference.rewired_only) == ("layer2.1.conv1", False)
    assert difference.changes == ("pads: [1, 1, 1, 1] -> [0, 2, 0, 2]",)
    assert (found.removed, found.added, found.changed_weights) == ((),) * 3


def test_a_weight_that_differs_is_measured(path: Path, tmp_path: Path) -> None:
    def change(model: onnx.ModelProto) -> None:
        tensor = next(one for one in model.graph.initializer if one.name == "layer3.0.conv2.w")
        array = numpy_helper.to_array(tensor).copy()
        array[1, 2, 0, 0] += 0.5
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))

    found = changed(path, tmp_path, change)

    (difference,) = found.changed_weights
    assert (difference.before, difference.after) == ("layer3.0.conv2.w",) * 2
    assert difference.max_abs_difference == pytest.approx(0.5, rel=1e-6)
    assert [change.before.name for change in found.changed] == ["layer3.0.conv2"]
    assert (found.equal, found.removed_weights, found.added_weights) == (False, (), ())


def test_nodes_removed_and_added_are_found_between_those_that_stay(path: Path, tmp_path: Path) -> None:
    def change(model: onnx.ModelProto) -> None:
        graph = model.graph
        one = node_called(model, "layer1.1.relu1")
        node_called(model, "layer1.1.conv2").input[0] = one.input[0]
        graph.node.remove(one)
        last = node_called(model, "pool")
        extra = helper.make_node("Tanh", [last.input[0]], ["squashed"], name="squash")
        last.input[0] = "squashed"
        graph.node.insert(list(graph.node).index(last), extra)

    found = changed(path, tmp_path, change)

    assert found.removed == (NodeRef(name="layer1.1.relu1", op_type="Relu"),)
    assert found.added == (NodeRef(name="squash", op_type="Tanh"),)
    assert {change.before.name for change in found.changed} == {"layer1.1.conv2", "pool"}
    assert all(change.rewired_only for change in found.changed)


def test_inputs_and_opsets_are_compared(path: Path, tmp_path: Path) -> None:
    def change(model: onnx.ModelProto) -> None:
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 4
        model.opset_import[0].version = 17

    found = changed(path, tmp_path, change)

    assert found.interface == (
        "input image: float32[N, 3, 32, 32] -> float32[4, 3, 32, 32]",
        "opset ai.onnx: 18 -> 17",
    )


@pytest.mark.parametrize(
    ("kind", "before", "after", "difference"),
    [(np.float32, np.inf, -np.inf, None), (np.int64, 2**53, 2**53 + 1, 1.0)],
    ids=["not finite", "integers"],
)
def test_weights_that_float64_cannot_tell_or_measure(
    kind: type, before: float, after: float, difference: float | None, tmp_path: Path
) -> None:
    for name, value in (("one", before), ("other", after)):
        nodes = [helper.make_node("Mul", ["x", "w"], ["y"])]
        stored = np.full(20, value, kind)
        dtype = helper.np_dtype_to_tensor_dtype(stored.dtype)
        values = [helper.make_tensor_value_info(one, dtype, [20]) for one in ("x", "y")]
        weights = [numpy_helper.from_array(stored, "w")]
        onnx.save(helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:], weights)), tmp_path / name)
    (found,) = diff_models(read(tmp_path / "one"), read(tmp_path / "other")).changed_weights

    assert (found.type_before, found.max_abs_difference) == (f"{stored.dtype}[20]", difference)


def test_operators_are_counted_before_and_after_in_subgraphs_too() -> None:
    branch = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["b"])], "b", [], [helper.make_tensor_value_info("b", FLOAT, None)]
    )
    before = helper.make_graph(
        [
            helper.make_node("If", ["c"], ["h"], then_branch=branch, else_branch=branch),
            helper.make_node("Relu", ["h"], ["g"]),
            helper.make_node("Gelu", ["g"], ["y"], domain="com.microsoft"),
        ],
        "g", [], [],
    )  # fmt: skip
    after = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [], [])

    assert count_operators(helper.make_model(before), helper.make_model(after)) == [
        OperatorCount(operator="com.microsoft.Gelu", before=1, after=0),
        OperatorCount(operator="If", before=1, after=0),
        OperatorCount(operator="Relu", before=3, after=1),
    ]


def test_a_part_between_tensors_computes_the_same(path: Path, tmp_path: Path) -> None:
    model = onnx.load(path)
    begin, end = "layer1.1.relu2:out", "layer3.0.add:out"
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in (begin, end))
    onnx.save(model, tmp_path / "all.onnx")
    whole = run(tmp_path / "all.onnx", image())
    found = extract(read(path), tmp_path / "part.onnx", [begin], [end])

    assert found.inputs == {begin: "float32[N, 4, 8, 8]"}
    assert found.outputs == {end: "float32[N, 16, 2, 2]"}
    assert found.num_nodes == 6 + 5 + 5  # a block with a shortcut, one without, and one up to its sum
    np.testing.assert_array_equal(run(tmp_path / "part.onnx", whole)[end], whole[end])


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        (["layer9"], [], "no tensor 'layer9'"),
        (["fc.w"], [], "'fc.w' is a weight"),
        (["layer2.0.relu1:out"], [], "the outputs need more than these inputs, namely 'image' of the model"),
        (["layer4.0.relu1:out", "layer3.1.relu2:out"], ["layer1.0.add:out"], "the outputs need more than these inputs"),
        (["image", "layer4.1.relu2:out"], ["layer1.0.add:out"], "the outputs do not need 'layer4.1.relu2:out'"),
        ([], ["image"], "'image' is an input: no node between makes it"),
    ],
)
def test_a_part_that_is_none_is_refused(
    path: Path, tmp_path: Path, inputs: list[str], outputs: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        extract(read(path), tmp_path / "part.onnx", inputs, outputs)
    assert not (tmp_path / "part.onnx").exists()


def test_a_model_is_not_written_over(tmp_path: Path) -> None:
    onnx.save(resnet18(), tmp_path / "model.onnx")
    before = (tmp_path / "model.onnx").read_bytes()

    with pytest.raises(InputError, match="would be written over the model that it is made of"):
        extract(read(tmp_path / "model.onnx"), tmp_path / "model.onnx", [], ["pool:out"])
    assert (tmp_path / "model.onnx").read_bytes() == before


@pytest.mark.parametrize("num_parts", [1, 2, 3, 7, 49])
def test_parts_give_the_same_outputs_one_after_the_other(path: Path, tmp_path: Path, num_parts: int) -> None:
    found = split(read(path), profile(path), tmp_path, num_parts)
    tensors = image()
    for part in found.parts:
        made = run(tmp_path / part.file, tensors)
        assert set(made) == set(part.outputs)
        tensors |= made

    assert len(found.parts) == num_parts
    for name, expected in run(path, image()).items():
        np.testing.assert_array_equal(tensors[name], expected)
    assert sum(part.cost for part in found.parts) == found.cost == profile(path).macs
    largest = max(node.macs for node in profile(path).nodes)
    assert max(part.cost for part in found.parts) <= found.cost / num_parts + largest


def test_too_many_parts_are_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="50 parts of 49 nodes; from 1 to 49 are possible"):
        split(read(path), profile(path), tmp_path, 50)


def test_the_cut_is_the_best_of_all() -> None:
    import itertools

    generator = np.random.default_rng(0)
    for _ in range(50):
        costs = generator.integers(0, 9, 9).tolist()
        crossing = [0, *generator.integers(1, 9, 8).tolist(), 0]
        num_parts = int(generator.integers(1, 5))
        ranked = []
        for places in itertools.combinations(range(1, 9), num_parts - 1):
            bounds = [0, *places, 9]
            most = max(sum(costs[start:end]) for start, end in itertools.pairwise(bounds))
            ranked.append((most, sum(crossing[place] for place in places)))
        found = cut(costs, crossing, num_parts)

        assert (found[0], found[-1], sorted(set(found))) == (0, 9, found)
        most = max(sum(costs[start:end]) for start, end in itertools.pairwise(found))
        assert (most, sum(crossing[place] for place in found[1:-1])) == min(ranked)


def test_weights_made_of_weights_stay_in_the_parts_that_read_them(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"]),
        *[helper.make_node("MatMul", [f"x{at}", "t"], [f"x{at + 1}"]) for at in range(4)],
    ]
    values = [helper.make_tensor_value_info(name, FLOAT, [2, 8]) for name in ("x0", "x4")]
    weight = numpy_helper.from_array(np.random.default_rng(0).standard_normal((8, 8), np.float32), "w")
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:], [weight]), ir_version=9), path)
    found = split(read(path), profile(path), tmp_path / "parts", 2)

    assert [(part.inputs, part.outputs) for part in found.parts] == [(("x0",), ("x2",)), (("x2",), ("x4",))]
    assert [part.num_nodes for part in found.parts] == [3, 3]
