"""Graphs before and after quantizing: rewiring for quantizers, and weight-only variants."""

from __future__ import annotations

import collections
import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api import TensorSpec, loading
from bench.api.errors import RefusedError
from bench.onnxfile.edits.opset import opset_of, raise_opset
from bench.onnxfile.edits.rewire import load_settled, matmul_from_gemm, shorten_names
from bench.onnxfile.file.digest import all_graphs, subgraphs
from bench.onnxfile.weights.affine import SCHEMES, Scheme, scheme
from bench.onnxfile.weights.quantizable import (
    expected_bytes,
    find_weights,
    num_floats,
    worth_quantizing,
)
from bench.plugins import catalog, steps
from support import small_models as small

every_scheme = pytest.mark.parametrize("chosen", SCHEMES, ids=lambda item: item.name)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    onnx.save(small.make_model(), tmp_path / "source.onnx")
    return tmp_path / "source.onnx"


def settle(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    onnx.save(model, folder / "detours.onnx")
    return load_settled(folder / "detours.onnx")


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def apply(option: str, source: Path, task: object = None) -> tuple[onnx.ModelProto, dict[str, object], Path]:
    target = source.with_name(f"{option}.onnx")
    info = steps.transform(catalog.variant(f"weight_only-{option}"), task or small.make_task(), source, target)
    return onnx.load(target), info, target


def make_detours() -> onnx.ModelProto:
    """x @ a @ b @ b @ c @ d: transposed, tied by Identity and two Transposes, a Constant, and cut and turned around."""
    a, b, c = small.floats(6, 4), small.floats(6, 6, seed=1), small.floats(6, 5, seed=2)
    nodes = [
        helper.make_node("Transpose", ["a_stored"], ["a"], perm=[1, 0]),
        helper.make_node("Identity", ["b_stored"], ["b_again"]),
        helper.make_node("Transpose", ["b_stored"], ["b"], perm=[1, 0]),
        helper.make_node("Transpose", ["b_again"], ["b_second"], perm=[1, 0]),
        helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(c)),
        helper.make_node("Slice", ["d_stored", "zero", "two"], ["d_first"]),
        helper.make_node("Slice", ["d_stored", "two", "five"], ["d_last"]),
        helper.make_node("Concat", ["d_last", "d_first"], ["d_turned"], axis=0),
        helper.make_node("Unsqueeze", ["d_turned", "zero"], ["d"]),
        helper.make_node("MatMul", ["x", "a"], ["xa"]),
        helper.make_node("MatMul", ["xa", "b"], ["xab"]),
        helper.make_node("MatMul", ["xab", "b_second"], ["xabb"]),
        helper.make_node("MatMul", ["xabb", "c"], ["xabbc"]),
        helper.make_node("MatMul", ["xabbc", "d"], ["y"]),
    ]
    arrays = {
        "a_stored": a,
        "b_stored": b.T.copy(),
        "d_stored": small.floats(5, 7, seed=3),
        **{name: np.array([number]) for name, number in (("zero", 0), ("two", 2), ("five", 5))},
    }
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, "N", 7])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return small.make_valid(graph)


def test_weights_are_read_without_a_detour(tmp_path: Path) -> None:
    model = make_detours()
    x = small.floats(3, 4, seed=9)
    expected = small.run(model, x=x)
    settled = settle(model, tmp_path)
    assert operators(settled) == ["MatMul"] * 5
    assert [node.input[1] for node in settled.graph.node[1:3]] == ["b", "b"], "tied weights stay tied"
    assert set(small.constants(settled.graph)) == {"a", "b", "c", "d"}
    np.testing.assert_array_equal(small.run(settled, x=x)[0], expected[0])


def test_a_weight_that_is_read_as_it_is_is_not_stored_twice(tmp_path: Path) -> None:
    """As the table of an embedding that is the last layer, too."""
    nodes = [
        helper.make_node("Gather", ["table", "x"], ["h"]),
        helper.make_node("Transpose", ["table"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["h", "turned"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.INT64, ["N"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 9])],
        [numpy_helper.from_array(small.floats(9, 4), "table")],
    )
    settled = settle(small.make_valid(graph), tmp_path)
    assert operators(settled) == ["Gather", "Transpose", "MatMul"]
    assert list(small.constants(settled.graph)) == ["table"]


def test_tied_gemms_become_products_of_one_weight() -> None:
    """ONNX Runtime's own rewriting transposes the weight once for each Gemm."""
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["h"], transB=1),
        helper.make_node("Gemm", ["h", "w"], ["g"], transB=1),
        helper.make_node("Gemm", ["g", "w"], ["f"]),
        helper.make_node("Gemm", ["f", "w", "b"], ["y"], alpha=0.5),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 6])],
        [numpy_helper.from_array(small.floats(6, 6), "w"), numpy_helper.from_array(small.floats(6), "b")],
    )
    model = small.make_valid(graph)
    x = small.floats(2, 6, seed=4)
    expected = small.run(model, x=x)
    matmul_from_gemm(model)
    assert operators(model) == ["MatMul", "Add", "MatMul", "MatMul", "Gemm"]
    assert [node.input[1] for node in model.graph.node if node.op_type == "MatMul"] == ["w_transposed"] * 2 + ["w"]
    np.testing.assert_allclose(small.run(model, x=x)[0], expected[0], rtol=1e-5)


def test_a_weight_that_both_branches_read_is_transposed_once_for_each(tmp_path: Path) -> None:
    """ONNX Runtime's own rewriting transposes it in place twice, and then the shapes contradict each other."""

    def branch(name: str, scale: float) -> onnx.GraphProto:
        nodes = [helper.make_node("Gemm", ["x", "w"], [f"{name}_y"], name=name, transB=1, alpha=scale)]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(f"{name}_y", 1, ["N", 8])])

    node = helper.make_node(
        "If", ["yes"], ["y"], then_branch=branch("then", 1.0), else_branch=branch("else", 1.0)
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("x", 1, ["N", 6]), helper.make_tensor_value_info("yes", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", 1, ["N", 8])],
        [numpy_helper.from_array(small.floats(8, 6), "w")],
    )
    model = small.make_valid(graph)
    feeds = {"x": small.floats(2, 6, seed=4), "yes": np.array(True)}
    expected = small.run(model, **feeds)
    matmul_from_gemm(model)
    inner = [item for graph in subgraphs(model.graph.node[0]) for item in graph.node]
    assert [(item.op_type, item.input[1]) for item in inner] == [("MatMul", "w_transposed")] * 2
    np.testing.assert_allclose(small.run(model, **feeds)[0], expected[0], rtol=1e-5)


def test_layouts_of_old_operator_sets_are_computed(tmp_path: Path) -> None:
    """An Unsqueeze of operator set 9 has its axes as an attribute; onnx's reference runs the later one alone."""
    nodes = [
        helper.make_node("Unsqueeze", ["row"], ["wide"], axes=[1]),
        helper.make_node("Mul", ["x", "wide"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [numpy_helper.from_array(small.floats(3), "row")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=4)
    settled = settle(model, tmp_path)
    assert operators(settled) == ["Mul"]
    (weight,) = settled.graph.initializer
    np.testing.assert_array_equal(numpy_helper.to_array(weight), small.floats(3)[:, None])


def test_a_version_that_is_stated_twice_is_stated_once(tmp_path: Path) -> None:
    model = small.make_model()
    model.opset_import.append(model.opset_import[0])
    assert [entry.domain for entry in settle(model, tmp_path).opset_import].count("") == 1


def make_loop() -> onnx.ModelProto:
    """h = tanh(h @ outer @ inner), three times; `inner` is stored in the loop's body."""
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["h", "outer"], ["a"]),
            helper.make_node("MatMul", ["a", "inner"], ["b"]),
            helper.make_node("Tanh", ["b"], ["h_next"]),
            helper.make_node("Identity", ["go"], ["go_on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("step", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("h", TensorProto.FLOAT, ["N", 16]),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("h_next", TensorProto.FLOAT, ["N", 16]),
        ],
        [numpy_helper.from_array(small.floats(16, 16, seed=1) / 4, "inner")],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["three", "true", "x"], ["y"], body=body)],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 16])],
        [
            numpy_helper.from_array(np.array(3), "three"),
            numpy_helper.from_array(np.array(True), "true"),
            numpy_helper.from_array(small.floats(16, 16) / 4, "outer"),
        ],
    )
    return small.make_valid(graph)


class LoopTask(small.SmallTask):
    inputs = (TensorSpec(name="x", dtype="float32", shape=("batch", 16)),)
    outputs = (TensorSpec(name="y", dtype="float32", shape=("batch", 16)),)

    def samples(self, split: str) -> object:
        return type(super().samples(split))(inputs={"x": small.floats(4, 16, seed=8)}, targets=None)


def test_short_names_change_nothing_else(source: Path) -> None:
    for model, feeds in ((onnx.load(source), {}), (make_loop(), {"x": small.floats(2, 16)})):
        expected, before = small.run(model, **feeds), operators(model)
        interface = [value.SerializeToString() for value in (*model.graph.input, *model.graph.output)]
        shorten_names(model)
        assert operators(model) == before
        assert [value.SerializeToString() for value in (*model.graph.input, *model.graph.output)] == interface
        inside = {name for node in model.graph.node for name in node.output} - {"text", "picture"}
        assert max(map(len, inside), default=0) < 3
        np.testing.assert_array_equal(small.run(model, **feeds)[0], expected[0])


def test_weights_that_subgraphs_read_are_quantized(tmp_path: Path) -> None:
    onnx.save(make_loop(), tmp_path / "loop.onnx")
    model, info, target = apply("int8-sym-channel", tmp_path / "loop.onnx", small.make_task(LoopTask))
    assert operators(model) == ["DequantizeLinear", "Loop"]
    assert (info["num_quantized"], info["num_left_in_subgraphs"]) == (1, 1)
    x = small.floats(2, 16, seed=8)
    assert 0 < small.drift(small.run(target, x=x), small.run(make_loop(), x=x)) < 0.02


@every_scheme
def test_weight_only_model_loads_and_is_close(chosen: Scheme, source: Path) -> None:
    model, info, target = apply(chosen.name, source)
    onnx.checker.check_model(model, full_check=True)
    assert opset_of(model) == (21 if chosen.bits == 4 or chosen.per == "block" else 15)
    assert info["num_quantized"] == len(small.WEIGHTS)
    assert not find_weights(model)
    limit = {8: 0.03, 4: 0.5}[chosen.bits]
    assert 0 < small.drift(small.run(target), small.run(source)) < limit
    assert {node.domain for node in model.graph.node} == {""}, "standard operators only"


@every_scheme
def test_each_weight_is_within_half_a_scale_on_onnx_runtime(chosen: Scheme) -> None:
    module = loading.load_module(loading.find("variants")["weight_only"])
    model = raise_opset(small.make_model(), 21, small.make_task())
    weights = worth_quantizing(model, chosen)
    assert {weight.name for weight in weights} == set(small.WEIGHTS)
    module.quantize_weights(model, weights, chosen)
    stored = small.constants(model.graph)
    for name, array in small.WEIGHTS.items():
        model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape))
    dequantized = dict(zip(small.WEIGHTS, small.run(model)[2:], strict=True))
    for name, array in small.WEIGHTS.items():
        coarsest = stored[f"{name}_s"].max()
        assert np.abs(dequantized[name] - array).max() <= coarsest / 2 * (1 + 1e-5)
        assert np.abs(dequantized[name] - array).max() > coarsest / 8
        if chosen.symmetric:
            assert f"{name}_z" not in stored


@every_scheme
def test_tensors_take_what_bits_scales_and_zero_points_add_up_to(chosen: Scheme, source: Path) -> None:
    model, info, _ = apply(chosen.name, source)
    num_scales = {
        "tensor": dict.fromkeys(small.WEIGHTS, 1),
        "channel": {name: small.WEIGHTS[name].shape[axes[0]] for name, axes in small.AXES.items()},
        # Rows of 20, 12 and 27 are one block each, sums of 36 are two; `up` has 5 times 9 sums of 8.
        "block": {"table": 50, "w": 48, "r": 48, "wide": 36, "tied": 72, "gemm": 20, "conv": 8, "up": 45},
    }[chosen.per]
    expected = sum(array.nbytes for name, array in small.OTHERS.items())
    for name, array in small.WEIGHTS.items():
        expected += array.size * chosen.bits // 8 + 4 * num_scales[name]
        expected += 0 if chosen.symmetric else -(-num_scales[name] * chosen.bits // 8)
    arrays = [tensor for tensor in model.graph.initializer if tensor.data_type != TensorProto.INT64]
    num_bytes = sum(len(tensor.raw_data) for tensor in arrays) + small.OTHERS["axes"].nbytes
    assert num_bytes == expected
    assert 0 < model.ByteSize() - info["expected_bytes"] < 150 * len(small.WEIGHTS), "only nodes and names come on top"


def test_tied_weights_are_stored_and_dequantized_once(source: Path) -> None:
    model, _, _ = apply("int8-sym-channel", source)
    assert operators(model).count("DequantizeLinear") == len(small.WEIGHTS)
    read = [node.input[1] for node in model.graph.node if node.op_type == "MatMul"]
    assert sorted(collections.Counter(read).values()) == [1, 2]
    producers = {name: node for node in model.graph.node for name in node.output}
    (tied,) = (name for name, count in collections.Counter(read).items() if count == 2)
    assert producers[tied].op_type == "Reshape"  # or ONNX Runtime would dequantize it twice
    assert producers[producers[tied].input[0]].op_type == "DequantizeLinear"


def test_weights_too_small_to_gain_stay_floats(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "small"], ["h"]), helper.make_node("MatMul", ["h", "large"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 16])],
        [
            numpy_helper.from_array(small.floats(16, 2), "small"),
            numpy_helper.from_array(small.floats(2, 16), "large"),
        ],
    )
    model = small.make_valid(graph)
    # A channel of `large` has two weights: 16 scales take half of what the floats do, 2 of `small` next to nothing.
    assert [weight.name for weight in worth_quantizing(model, scheme("int8-asym-channel"))] == ["small"]
    before = expected_bytes(model, scheme("int8-asym-channel"))
    assert before == model.ByteSize() - 4 * 32 + (32 + 4 * 2 + 2)


def test_a_file_without_weights_is_refused(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 16])],
    )
    onnx.save(small.make_valid(graph), tmp_path / "relu.onnx")
    with pytest.raises(RefusedError, match="no float32 weights"):
        apply("int8-sym-tensor", tmp_path / "relu.onnx", small.make_task(LoopTask))


def test_local_functions_are_inlined(tmp_path: Path) -> None:
    body = [helper.make_node("MatMul", ["a", "b"], ["c"]), helper.make_node("Relu", ["c"], ["d"])]
    function = helper.make_function("local", "Layer", ["a", "b"], ["d"], body, [helper.make_opsetid("", 15)])
    graph = helper.make_graph(
        [helper.make_node("Layer", ["x", "w"], ["y"], domain="local")],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 6])],
        [numpy_helper.from_array(small.floats(6, 6), "w")],
    )
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("local", 1)]
    model = helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=8)
    settled = settle(model, tmp_path)
    assert operators(settled) == ["MatMul", "Relu"]
    assert [weight.name for weight in find_weights(settled)] == ["w"]


def test_numbers_are_counted_in_subgraphs_too() -> None:
    stored = [*small.WEIGHTS.values(), small.OTHERS["lstm_bias"], small.OTHERS["scale"]]
    assert num_floats(small.make_model()) == sum(array.size for array in stored)
    inner = [tensor for graph in all_graphs(make_loop()) for tensor in graph.initializer if len(tensor.dims) > 1]
    assert num_floats(make_loop()) == sum(math.prod(tensor.dims) for tensor in inner) == 2 * 16 * 16
