"""Variants quantized by ONNX Runtime's own tools, and the properties of every quantizing variant."""

from __future__ import annotations

import collections
import itertools
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api import Samples, TensorSpec
from bench.api.errors import RefusedError
from bench.onnxfile.file.digest import canonical_digest, operator_counts
from bench.onnxfile.shapes.feeds import sample_feeds
from bench.plugins import catalog, steps
from bench.plugins.engines import cpu
from support import small_models as small

FILES = ("int8_dynamic", "int8_static", "matmul_nbits", "weight_only")
NAMES = [name for name, named in catalog.variants().items() if named.variant.name in FILES]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "source.onnx"
    onnx.save(small.make_model(), path)
    return path


def apply(name: str, source: Path, target: Path, task: object = None) -> tuple[onnx.ModelProto, dict[str, object]]:
    info = steps.transform(catalog.variant(name), task or small.make_task(), source, target)
    return onnx.load(target), info


def count(model: onnx.ModelProto) -> collections.Counter[str]:
    return collections.Counter(node.op_type for node in model.graph.node)


def test_all_of_them_are_lossy() -> None:
    assert len(NAMES) == 2 + 6 + 2 + 12
    assert all(catalog.variant(name).variant.lossy for name in NAMES)


def test_feeds_are_one_sample_in_the_dtypes_of_the_task() -> None:
    task = small.make_task()
    inputs = task.samples("train").inputs
    feeds = sample_feeds(task, inputs, 4)
    assert {name: (array.dtype.name, array.shape) for name, array in feeds.items()} == {
        "tokens": ("int64", (1, 4)),
        "image": ("float32", (1, 3, 8, 8)),
    }
    np.testing.assert_array_equal(feeds["image"][0], inputs["image"][4])


def test_feeds_of_a_fixed_batch_and_of_whole_requests() -> None:
    class Pairs(small.SmallTask):
        inputs = (TensorSpec(name="tokens", dtype="int64", shape=(2, 4)),)

    class Requests(small.SmallTask):
        inputs = (TensorSpec(name="tokens", dtype="int64", shape=(4,)),)
        batched = False

    tokens = np.arange(12).reshape(3, 4)
    pair = sample_feeds(small.make_task(Pairs), {"tokens": tokens}, 2)["tokens"]
    np.testing.assert_array_equal(pair, tokens[[2, 0]])
    request = sample_feeds(small.make_task(Requests), {"tokens": tokens}, 1)["tokens"]
    np.testing.assert_array_equal(request, tokens[1])


def test_dynamic_leaves_convolutions_alone(source: Path, tmp_path: Path) -> None:
    model, info = apply("int8_dynamic", source, tmp_path / "target.onnx")
    operators = count(model)
    # Three MatMuls and the Gemm read three weights; the LSTM's are transposed and packed in its own operator.
    assert operators["MatMulInteger"] == 4
    assert operators["DynamicQuantizeLSTM"] == 1
    assert operators["Conv"] == operators["ConvTranspose"] == 1
    assert operators["Gemm"] == operators["MatMul"] == 0
    assert info == {"num_quantized": 6, "num_left": 2}
    kinds = collections.Counter((tensor.data_type, *tensor.dims) for tensor in model.graph.initializer)
    assert kinds[TensorProto.INT8, 36, 36] == 1, "tied weights stay tied"
    assert kinds[TensorProto.INT8, 36, 10] == 1
    assert 0 < small.drift(small.run(model), small.run(source)) < 0.1


def test_dynamic_with_every_operator(source: Path, tmp_path: Path) -> None:
    model, info = apply("int8_dynamic-all", source, tmp_path / "target.onnx")
    assert count(model)["ConvInteger"] == 1
    assert info == {"num_quantized": 7, "num_left": 1}  # it knows no transposed convolution


def test_nbits_applies_to_every_product(source: Path, tmp_path: Path) -> None:
    for option, level in (("float", 1), ("int8", 4)):
        model, info = apply(f"matmul_nbits-{option}", source, tmp_path / "target.onnx")
        operators = count(model)
        assert operators["MatMulNBits"] == 4
        assert operators["MatMul"] == operators["Gemm"] == 0
        note = "only 39 % of the weights' numbers are quantized; the others are float32 as before"
        assert info == {"num_quantized": 3, "num_left": 5, "note": note}
        nodes = [node for node in model.graph.node if node.op_type == "MatMulNBits"]
        assert len({node.input[1] for node in nodes}) == 3, "tied weights stay tied"
        names = [tensor.name for tensor in model.graph.initializer]
        assert len(names) == len(set(names))
        attributes = {attribute.name: attribute.i for attribute in nodes[0].attribute}
        assert (attributes["bits"], attributes["block_size"], attributes["accuracy_level"]) == (4, 32, level)
        assert 0 < small.drift(small.run(model), small.run(source)) < 0.5


@pytest.mark.parametrize("method", ["minmax", "entropy", "percentile"])
@pytest.mark.parametrize("per", ["", "-channel"])
def test_static(method: str, per: str, source: Path, tmp_path: Path) -> None:
    model, info = apply(f"int8_static-{method}{per}", source, tmp_path / "target.onnx")
    assert (info["num_quantized"], info["num_left"], info["num_samples"]) == (4, 4, 6)
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    dequantized = [node for node in model.graph.node if node.op_type == "DequantizeLinear"]
    weights = [node for node in dequantized if node.input[0] in tensors and len(tensors[node.input[0]].dims) > 1]
    shapes = sorted(tuple(tensors[node.input[0]].dims) for node in weights)
    assert shapes == [(8, 3, 3, 3), (12, 36), (36, 36), (50, 20)], "the last product before each output stays a float"
    for node in weights:
        weight, scale, zero_point = (tensors[name] for name in node.input)
        if tuple(weight.dims) == small.WEIGHTS["table"].shape:
            assert weight.data_type == TensorProto.UINT8  # its rows are activations
            continue
        assert weight.data_type == TensorProto.INT8
        assert not numpy_helper.to_array(zero_point).any()
        axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), None)
        channels = {(8, 3, 3, 3): 0, (12, 36): 1, (36, 36): 1}[tuple(weight.dims)]
        assert list(scale.dims) == ([weight.dims[channels]] if per else [])
        assert not per or axis == channels
    activations = [node for node in model.graph.node if node.op_type == "QuantizeLinear"]
    assert {tensors[node.input[2]].data_type for node in activations} == {TensorProto.UINT8}
    assert 0 < small.drift(small.run(model), small.run(source)) < 0.2


RAMP = np.linspace(-1, 3, 12, dtype=np.float32).reshape(3, 4)


class Ramp(small.SmallTask):
    """Inputs that span -1 to 3 in training."""

    inputs = (TensorSpec(name="x", dtype="float32", shape=("batch", 4)),)
    outputs = (TensorSpec(name="y", dtype="float32", shape=("batch", 4)),)

    def samples(self, split: str) -> Samples:
        return Samples(inputs={"x": RAMP if split == "train" else 100 * RAMP}, targets=None)


def test_static_ranges_are_those_of_the_training_samples(tmp_path: Path) -> None:
    """An input that spans -1 to 3 in training has the zero point 64 and 255 steps in between, whatever else comes."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])],
        [numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")],
    )
    onnx.save(small.make_valid(graph), tmp_path / "source.onnx")
    model, _ = apply("int8_static-minmax", tmp_path / "source.onnx", tmp_path / "target.onnx", small.make_task(Ramp))
    constants = small.constants(model.graph)
    quantize = next(node for node in model.graph.node if node.input[0] == "x")
    assert constants[quantize.input[1]] == pytest.approx(4 / 255)
    assert constants[quantize.input[2]] == 64


def test_static_keeps_an_activation_that_a_branch_reads(tmp_path: Path) -> None:
    """The quantizer removes a Relu whose range the scale has, and would leave the branch without its input."""

    def branch(name: str, op_type: str) -> onnx.GraphProto:
        made = helper.make_node(op_type, ["r"], [f"{name}_y"])
        return helper.make_graph([made], name, [], [helper.make_tensor_value_info(f"{name}_y", 1, ["N", 4])])

    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Relu", ["m"], ["r"]),
        helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0),
        helper.make_node("Greater", ["top", "one"], ["high"]),
        helper.make_node(
            "If", ["high"], ["b"], then_branch=branch("then", "Neg"), else_branch=branch("else", "Identity")
        ),
        helper.make_node("MatMul", ["b", "w"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])],
        [numpy_helper.from_array(np.eye(4, dtype=np.float32), "w"), numpy_helper.from_array(np.float32(1), "one")],
    )
    onnx.save(small.make_valid(graph), tmp_path / "source.onnx")
    model, _ = apply("int8_static-minmax", tmp_path / "source.onnx", tmp_path / "target.onnx", small.make_task(Ramp))
    assert count(model)["Relu"] == 1
    assert count(model)["QuantizeLinear"] >= 1
    x = np.linspace(-1, 3, 4, dtype=np.float32)[None]
    expected = small.run(onnx.load(tmp_path / "source.onnx"), x=x)[0]
    np.testing.assert_allclose(small.run(model, x=x)[0], expected, atol=0.05)


def test_static_takes_a_file_that_has_the_names_that_the_quantizer_gives(tmp_path: Path) -> None:
    """As a file that was quantized in part before; the quantizer says "Graph is not a DAG" where a name is taken."""
    taken = ["h_quantized", "h_scale", "h_zero_point"]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("DynamicQuantizeLinear", ["h"], taken),
        helper.make_node("DequantizeLinear", taken, ["d"]),
        helper.make_node("MatMul", ["h", "w"], ["g"]),
        helper.make_node("Max", ["g", "d"], ["a"]),
        helper.make_node("MatMul", ["a", "w"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])],
        [numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")],
    )
    onnx.save(small.make_valid(graph), tmp_path / "source.onnx")
    model, _ = apply("int8_static-minmax", tmp_path / "source.onnx", tmp_path / "target.onnx", small.make_task(Ramp))
    assert (count(model)["DynamicQuantizeLinear"], count(model)["QuantizeLinear"]) == (1, 3)
    np.testing.assert_allclose(small.run(model, x=RAMP)[0], RAMP, atol=0.05)


def test_static_takes_a_bias_that_many_nodes_share(tmp_path: Path) -> None:
    """The quantizer numbers the copies that it makes: the first copy of the bias 1 must not be the value 10."""
    values = ["x", *(f"h{number}" for number in range(24)), "y"]
    graph = helper.make_graph(
        [helper.make_node("Gemm", [source, "w", "b"], [target]) for source, target in itertools.pairwise(values)],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])],
        [numpy_helper.from_array(np.eye(4, dtype=np.float32), "w"), numpy_helper.from_array(np.zeros(4, "f4"), "b")],
    )
    onnx.save(small.make_valid(graph), tmp_path / "source.onnx")
    task = small.make_task(Ramp)
    model, _ = apply("int8_static-minmax-channel", tmp_path / "source.onnx", tmp_path / "target.onnx", task)
    np.testing.assert_allclose(small.run(model, x=RAMP)[0], RAMP, atol=0.05)


@pytest.mark.parametrize("shape", [(1, 4), (1, 1), (1,), ()])
def test_static_takes_a_bias_that_a_gemm_repeats(shape: tuple[int, ...], tmp_path: Path) -> None:
    """As skl2onnx writes it for a perceptron; the quantizer takes its first axis for that of the columns."""
    bias = np.arange(1, math.prod(shape) + 1, dtype=np.float32).reshape(shape)
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["x", "w", "b"], ["h"]),
            helper.make_node("Add", ["h", "b"], ["again"]),
            helper.make_node("Gemm", ["again", "w"], ["y"], transB=1),
        ],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])],
        [numpy_helper.from_array(np.eye(4, dtype=np.float32), "w"), numpy_helper.from_array(bias, "b")],
    )
    onnx.save(small.make_valid(graph), tmp_path / "source.onnx")
    task = small.make_task(Ramp)
    model, info = apply("int8_static-minmax-channel", tmp_path / "source.onnx", tmp_path / "target.onnx", task)
    assert info["num_quantized"] == 1
    np.testing.assert_allclose(small.run(model, x=RAMP)[0], RAMP + 2 * bias, atol=0.1)


@pytest.mark.parametrize(("flags", "expected"), [({"avx2"}, True), ({"avx2", "avx512_vnni"}, False)])
def test_weights_have_7_bits_where_8_overflow(
    flags: set[str], expected: bool, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "instruction_sets", lambda: frozenset(flags))
    monkeypatch.setattr(cpu.platform, "machine", lambda: "x86_64")
    model, info = apply("int8_static-minmax-channel", source, tmp_path / "target.onnx")
    largest = max(
        int(np.abs(array.astype(int)).max())
        for array in small.constants(model.graph).values()
        if array.dtype == np.int8 and array.ndim > 1
    )
    assert info["reduce_range"] == expected
    assert largest == (64 if expected else 127)
    _, info = apply("int8_static-minmax", source, tmp_path / "target.onnx")
    assert not info["reduce_range"], "with one scale for a whole weight few are that large"


def test_dynamic_takes_values_behind_operators_of_the_runtime(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("QuickGelu", ["x"], ["g"], domain="com.microsoft"),
        helper.make_node("MatMul", ["g", "w"], ["h"]),
        helper.make_node("MatMul", ["h", "w"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])],
        [numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "source.onnx")
    model, _ = apply("int8_dynamic", tmp_path / "source.onnx", tmp_path / "target.onnx", small.make_task(Ramp))
    assert count(model)["MatMulInteger"] == 2


@pytest.mark.parametrize("name", ["int8_dynamic", "matmul_nbits-int8"])
def test_a_file_without_their_operators_is_refused(name: str, tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 8, 6, 6])],
        [numpy_helper.from_array(small.WEIGHTS["conv"], "w")],
    )
    onnx.save(small.make_valid(graph), tmp_path / "source.onnx")
    with pytest.raises(RefusedError, match="none of the file's 1 weights"):
        apply(name, tmp_path / "source.onnx", tmp_path / "target.onnx")
    assert not (tmp_path / "target.onnx").exists()


@pytest.mark.parametrize("name", ["int8_dynamic", "int8_static-minmax"])
def test_nodes_stay_before_the_branches_that_read_them(name: str, tmp_path: Path) -> None:
    """ONNX Runtime's quantizers put an If whose condition is an input first, before what its branches read."""

    class Branches(small.SmallTask):
        inputs = (
            TensorSpec(name="x", dtype="float32", shape=("batch", 36)),
            TensorSpec(name="flag", dtype="bool", shape=(1,)),
        )
        outputs = (TensorSpec(name="y", dtype="float32", shape=("batch", 36)),)

        def samples(self, split: str) -> Samples:
            return Samples(inputs={"x": small.floats(4, 36, seed=8), "flag": np.array([True])}, targets=None)

    def branch(operator: str) -> onnx.GraphProto:
        output = helper.make_tensor_value_info(operator, TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node(operator, ["h"], [operator])], operator, [], [output])

    nodes = [
        helper.make_node("MatMul", ["x", "tied"], ["h"]),
        helper.make_node("If", ["flag"], ["b"], then_branch=branch("Relu"), else_branch=branch("Tanh")),
        helper.make_node("MatMul", ["b", "last"], ["y"]),
    ]
    ports = [
        [helper.make_tensor_value_info(spec.name, helper.np_dtype_to_tensor_dtype(np.dtype(spec.dtype)), spec.shape)
         for spec in specs]
        for specs in (Branches.inputs, Branches.outputs)
    ]  # fmt: skip
    weights = [
        numpy_helper.from_array(small.floats(36, 36, seed=seed) / 6, name) for seed, name in enumerate(("tied", "last"))
    ]
    graph = helper.make_graph(nodes, "graph", *ports, weights)
    path = tmp_path / "branches.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    made, _ = apply(name, path, tmp_path / "target.onnx", small.make_task(Branches))
    assert operator_counts(tmp_path / "target.onnx")["If"] == 1
    assert canonical_digest(tmp_path / "target.onnx"), "it reads no value before it is made"
    feeds = {"x": small.floats(2, 36, seed=9), "flag": np.array([True])}
    assert 0 < small.drift(small.run(made, **feeds), small.run(path, **feeds)) < 0.1


def test_same_input_gives_same_bytes(source: Path, tmp_path: Path) -> None:
    """In another process, too, where sets have another order."""
    code = f"""
import hashlib
from pathlib import Path
import sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from bench.plugins import catalog
from support import small_models
for name in {NAMES}:
    named, target = catalog.variant(name), Path({str(tmp_path)!r}) / name
    named.variant.apply(Path({str(source)!r}), target, option=named.option, task=small_models.make_task())
    print(name, hashlib.sha256(target.read_bytes()).hexdigest())
"""
    outputs = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        outputs.append(dict(line.split() for line in done.stdout.splitlines()))
    assert outputs[0].keys() == set(NAMES)
    assert outputs[0] == outputs[1]
