"""Shapes as a function of the dynamic dimensions, and models with the arithmetic of shapes folded away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api.errors import InputError
from bench.api.loading import load_module
from bench.onnxfile.edits.fold import compute_graph
from bench.onnxfile.file.digest import all_nodes
from bench.onnxfile.shapes.engine import ShapeEngine
from support import shape_inference

GRAPHS = Path(__file__).parents[2] / "benchmarks" / "transformer_graphs.py"
ARITHMETIC = {"Shape", "Size", "Gather", "Unsqueeze", "Squeeze", "Concat", "Range", "Less"}


@pytest.fixture(scope="module")
def transformers() -> Any:
    return load_module(GRAPHS)


@pytest.fixture(scope="module", params=["bert", "gpt2", "llama"])
def path(request: pytest.FixtureRequest, transformers: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    small = transformers.Config(vocabulary=20, positions=32, hidden=12, inner=24, heads=3, layers=2)
    path = tmp_path_factory.mktemp("models") / f"{request.param}.onnx"
    getattr(transformers, request.param)(small, path, random=True)
    return path


def feeds(model: onnx.ModelProto, batch: int, length: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {value.name: generator.integers(0, 2, (batch, length)) for value in model.graph.input}


def run(model: onnx.ModelProto, given: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"]).run(None, given)


def outputs_of_everything(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the output of every node as an output."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    del copy.graph.output[:]
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for node in copy.graph.node for name in node.output)
    return copy


@pytest.mark.parametrize(("batch", "length"), [(1, 1), (2, 7), (5, 32)])
def test_every_shape_is_that_of_a_run(path: Path, batch: int, length: int) -> None:
    model = outputs_of_everything(onnx.load(path))
    expected = {
        value.name: made.shape
        for value, made in zip(model.graph.output, run(model, feeds(model, batch, length)), strict=True)
    }
    engine = ShapeEngine.of_file(path)
    actual = engine.shapes({"batch": batch, "length": length})

    assert engine.dims == ("batch", "length")
    assert engine.undecided == ()
    assert {name: actual[name] for name in expected} == expected


def test_expressions_are_of_the_dynamic_dimensions(path: Path) -> None:
    model = onnx.load(path, load_external_data=False)
    engine = ShapeEngine.of_file(path)

    texts = {str(size) for shape in engine.expressions.values() for size in shape}
    assert {text for text in texts if not text.isdigit()} == {"batch", "length"}
    assert engine.expressions.keys() >= {name for node in model.graph.node for name in node.output}


def test_convolutions_are_expressions_too() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["a"], ["b"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        helper.make_node("Resize", ["b", "", "scales"], ["y"]),
    ]
    stored = [
        numpy_helper.from_array(np.zeros((8, 3, 3, 3), np.float32), "w"),
        numpy_helper.from_array(np.array([1, 1, 2.5, 3], np.float32), "scales"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, "H", "W"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        stored,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    engine = ShapeEngine.of_model(model)

    assert tuple(map(str, engine.expressions["a"])) == ("N", "8", "(H + 1) // 2", "(W + 1) // 2")
    for height in (5, 9, 30, 31, 32, 33):
        found = engine.shapes({"N": 2, "H": height, "W": 17})
        expected = run(outputs_of_everything(model), {"x": np.zeros((2, 3, height, 17), np.float32)})
        assert [found[name] for name in ("a", "b", "y")] == [made.shape for made in expected]


def test_what_the_data_decide_is_set_apart() -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["found"]), helper.make_node("Relu", ["x"], ["y"])]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N"])
    made = [helper.make_tensor_value_info(name, kind, None) for name, kind in (("found", 7), ("y", 1))]
    graph = helper.make_graph(nodes, "g", [x], made)
    engine = ShapeEngine.of_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))

    assert engine.undecided == ("found",)
    assert engine.shapes({"N": 3}) == {"x": (3,), "y": (3,)}


def test_sizes_must_be_those_of_the_model(path: Path) -> None:
    engine = ShapeEngine.of_file(path)

    with pytest.raises(InputError, match="no dimension 'lenght'; did you mean 'length'"):
        engine.shapes({"batch": 1, "lenght": 2})
    with pytest.raises(InputError, match="no size for: length"):
        engine.shapes({"batch": 1})


def test_compute_graph_computes_the_same_without_shapes(path: Path) -> None:
    model = onnx.load(path)
    given = feeds(model, 2, 7)
    folded = compute_graph(model, dims={"batch": 2, "length": 7}).model

    left = {node.op_type for node in all_nodes(folded)}
    assert not left & {"Shape", "Range", "Less", "Concat"} - ({"Concat"} if path.stem == "llama" else set())
    assert sum(1 for _ in all_nodes(folded)) < 0.7 * sum(1 for _ in all_nodes(model))
    onnx.checker.check_model(folded, full_check=True)
    for expected, actual in zip(run(model, given), run(folded, given), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_compute_graph_keeps_a_free_dimension_free(path: Path) -> None:
    model = onnx.load(path)
    folded = compute_graph(model, dims={"length": 7}, free=["batch"]).model

    assert not {node.op_type for node in all_nodes(folded)} & {"Shape", "Range", "Less"}
    for batch in (1, 3):
        given = feeds(model, batch, 7)
        for expected, actual in zip(run(model, given), run(folded, given), strict=True):
            np.testing.assert_array_equal(actual, expected)


def test_compute_graph_leaves_its_argument_alone(path: Path) -> None:
    model = onnx.load(path, load_external_data=False)
    before = model.SerializeToString()
    compute_graph(model, dims={"batch": 1, "length": 3})

    assert model.SerializeToString() == before


def test_compute_graph_folds_inside_subgraphs() -> None:
    """The body of a Loop asks for the size of what is outside."""
    inner = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["c2"]),
            helper.make_node("Shape", ["x"], ["size"]),
            helper.make_node("Cast", ["size"], ["float_size"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["v", "float_size"], ["v2"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, ["N"]),
        ],
        [
            helper.make_tensor_value_info("c2", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v2", TensorProto.FLOAT, ["N"]),
        ],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["three", "", "x"], ["y"], body=inner)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N"])],
        [numpy_helper.from_array(np.array(3), "three")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    folded = compute_graph(model, dims={"N": 4}).model
    given = {"x": np.arange(4, dtype=np.float32)}

    assert [node.op_type for node in all_nodes(folded)] == ["Loop", "Identity", "Mul"]
    np.testing.assert_array_equal(run(folded, given)[0], run(model, given)[0])


def test_shapes_of_the_engine_are_those_of_static_inference(path: Path) -> None:
    model = onnx.load(path, load_external_data=False)
    expected = {name: info.shape for name, info in shape_inference.infer(model, dims={"batch": 3, "length": 5}).items()}

    assert ShapeEngine.of_file(path).shapes({"batch": 3, "length": 5}) == expected


def test_compute_graph_of_an_old_model_has_no_weights_among_its_inputs() -> None:
    """Before IR version 4 every weight had to be an input, and a new constant would have to be one, too."""
    nodes = [
        helper.make_node("Shape", ["x"], ["size"]),
        helper.make_node("Cast", ["size"], ["float_size"], to=TensorProto.FLOAT),
        helper.make_node("Sum", ["x", "float_size", "w"], ["y"]),
    ]
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in
              (("x", ["N"]), ("w", [1]), ("y", ["N"]))}  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [values["x"], values["w"]], [values["y"]], [numpy_helper.from_array(np.ones(1, np.float32), "w")]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=3)
    folded = compute_graph(model, dims={"N": 4}).model

    onnx.checker.check_model(folded)
    assert [value.name for value in folded.graph.input] == ["x"]
    assert [node.op_type for node in folded.graph.node] == ["Sum"]
    np.testing.assert_array_equal(run(folded, {"x": np.zeros(4, np.float32)})[0], [5] * 4)


def test_large_values_are_not_followed() -> None:
    """A causal mask of many tokens is no shape arithmetic: it stays in the graph, and costs no time here."""
    nodes = [
        helper.make_node("Shape", ["x"], ["size"], start=0, end=1),
        helper.make_node("Squeeze", ["size"], ["length"]),
        helper.make_node("Range", ["zero", "length", "one"], ["at"]),
        helper.make_node("Unsqueeze", ["at", "first"], ["row"]),
        helper.make_node("Unsqueeze", ["at", "last"], ["column"]),
        helper.make_node("Less", ["column", "row"], ["y"]),
    ]
    stored = {"zero": 0, "one": 1, "first": [0], "last": [1]}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["T"])],
        [helper.make_tensor_value_info("y", TensorProto.BOOL, None)],
        [numpy_helper.from_array(np.array(value), name) for name, value in stored.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    folded = compute_graph(model, dims={"T": 1000}).model

    assert [node.op_type for node in folded.graph.node] == ["Less"]
    assert shape_inference.infer(model, dims={"T": 1000})["y"].shape == (1000, 1000)


def test_a_free_dimension_must_be_one_of_the_model(path: Path) -> None:
    with pytest.raises(InputError, match="no dimension 'lenght'; did you mean 'length'"):
        compute_graph(onnx.load(path), dims={"batch": 1}, free=["lenght"])
