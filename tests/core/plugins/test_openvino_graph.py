"""The graph of an OpenVINO model as ONNX computes the same, and costs what the ONNX file of the model costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api.errors import InputError
from bench.onnxfile.costs.profile import Profile, profile
from bench.plugins.engines.openvino import graph, ir

pytest.importorskip("openvino")
openvino = ir.import_openvino()
ops = openvino.opset13
Value = helper.make_tensor_value_info
node = helper.make_node
Sizes = tuple[int, ...]
RNG = np.random.default_rng(0)


def weights(**shapes: Sequence[int]) -> list[onnx.TensorProto]:
    return [
        numpy_helper.from_array(np.asarray(RNG.standard_normal(shape), "float32"), name)
        for name, shape in shapes.items()
    ]


def cnn() -> onnx.GraphProto:
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["c"], ["r"]),
        node("MaxPool", ["r"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["m", "wg"], ["g"], group=4, auto_pad="SAME_UPPER"),
        node("ConvTranspose", ["g", "wt"], ["t"], strides=[2, 2]),
        node("AveragePool", ["t"], ["a"], kernel_shape=[3, 3]),
        node("Flatten", ["a"], ["f"]),
        node("Gemm", ["f", "wf", "bf"], ["y"], transB=1),
    ]
    stored = weights(w=(4, 3, 3, 3), b=(4,), wg=(8, 1, 3, 3), wt=(8, 2, 2, 2), wf=(5, 392), bf=(5,))
    return helper.make_graph(nodes, "cnn", [Value("x", 1, [2, 3, 32, 32])], [Value("y", 1, [2, 5])], stored)


def transformer() -> onnx.GraphProto:
    """A block of attention with 2 heads and 4 channels for each."""
    sizes = numpy_helper.from_array(np.array([0, 0, 2, 4]), "heads")
    joined = numpy_helper.from_array(np.array([0, 0, 8]), "joined")
    scale = numpy_helper.from_array(np.array(0.5, "float32"), "scale")
    nodes = [node("Gather", ["table", "ids"], ["x"])]
    for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [
            node("MatMul", ["x", f"w{name}"], [f"{name}1"]),
            node("Reshape", [f"{name}1", "heads"], [f"{name}2"]),
            node("Transpose", [f"{name}2"], [name], perm=order),
        ]
    nodes += [
        node("MatMul", ["q", "k"], ["s1"]),
        node("Mul", ["s1", "scale"], ["s2"]),
        node("Softmax", ["s2"], ["s"], axis=-1),
        node("MatMul", ["s", "v"], ["o1"]),
        node("Transpose", ["o1"], ["o2"], perm=[0, 2, 1, 3]),
        node("Reshape", ["o2", "joined"], ["o"]),
        node("Add", ["o", "x"], ["sum"]),
        node("LayerNormalization", ["sum", "gain", "shift"], ["n"]),
        node("MatMul", ["n", "wm"], ["m1"]),
        node("Gelu", ["m1"], ["m"]),
        node("Add", ["m", "bm"], ["y"]),
    ]
    stored = weights(table=(20, 8), wq=(8, 8), wk=(8, 8), wv=(8, 8), gain=(8,), shift=(8,), wm=(8, 16), bm=(16,))
    inputs, outputs = [Value("ids", TensorProto.INT64, [1, 6])], [Value("y", 1, [1, 6, 16])]
    return helper.make_graph(nodes, "block", inputs, outputs, [*stored, sizes, joined, scale])


def recurrent(kind: str, gates: int) -> Callable[[], onnx.GraphProto]:
    def make() -> onnx.GraphProto:
        more = {"linear_before_reset": 1} if kind == "GRU" else {}
        layer = node(kind, ["x", "w", "r", "b"], ["y"], hidden_size=4, direction="bidirectional", **more)
        stored = weights(w=(2, 4 * gates, 3), r=(2, 4 * gates, 4), b=(2, 8 * gates))
        inputs, outputs = [Value("x", 1, [7, 2, 3])], [Value("y", 1, [7, 2, 2, 4])]
        return helper.make_graph([layer], kind, inputs, outputs, stored)

    return make


def scan() -> onnx.GraphProto:
    body = helper.make_graph(
        [
            node("MatMul", ["s", "w"], ["p"]),
            node("Add", ["p", "xi"], ["next"]),
            node("Relu", ["next"], ["yi"]),
        ],
        "body",
        [Value("s", 1, [1, 4]), Value("xi", 1, [1, 4])],
        [Value("next", 1, [1, 4]), Value("yi", 1, [1, 4])],
        weights(w=(4, 4)),
    )
    layer = node("Scan", ["s0", "xs"], ["last", "ys"], num_scan_inputs=1, body=body)
    inputs = [Value("s0", 1, [1, 4]), Value("xs", 1, [6, 1, 4])]
    return helper.make_graph([layer], "scan", inputs, [Value("last", 1, [1, 4]), Value("ys", 1, [6, 1, 4])])


def loop() -> onnx.GraphProto:
    body = helper.make_graph(
        [
            node("Identity", ["on"], ["still"]),
            node("MatMul", ["s", "w"], ["p"]),
            node("Cast", ["i"], ["n"], to=1),
            node("Add", ["p", "n"], ["next"]),
            node("Sigmoid", ["next"], ["yi"]),
        ],
        "body",
        [Value("i", TensorProto.INT64, []), Value("on", TensorProto.BOOL, []), Value("s", 1, [2, 4])],
        [Value("still", TensorProto.BOOL, []), Value("next", 1, [2, 4]), Value("yi", 1, [2, 4])],
        weights(w=(4, 4)),
    )
    times, on = numpy_helper.from_array(np.array(5), "times"), numpy_helper.from_array(np.array(True), "go")
    layer = node("Loop", ["times", "go", "x"], ["last", "ys"], body=body)
    outputs = [Value("last", 1, [2, 4]), Value("ys", 1, [5, 2, 4])]
    return helper.make_graph([layer], "loop", [Value("x", 1, [2, 4])], outputs, [times, on])


def choice() -> onnx.GraphProto:
    one = helper.make_graph([node("MatMul", ["x", "w"], ["a"])], "then", [], [Value("a", 1, [2, 4])])
    two = helper.make_graph([node("Relu", ["x"], ["b"])], "else", [], [Value("b", 1, [2, 4])])
    layer = node("If", ["c"], ["y"], then_branch=one, else_branch=two)
    inputs = [Value("c", TensorProto.BOOL, []), Value("x", 1, [2, 4])]
    return helper.make_graph([layer], "choice", inputs, [Value("y", 1, [2, 4])], weights(w=(4, 4)))


GRAPHS = {
    "cnn": cnn,
    "transformer": transformer,
    "lstm": recurrent("LSTM", 4),
    "gru": recurrent("GRU", 3),
    "scan": scan,
    "loop": loop,
    "choice": choice,
}
MERGED_BIASES = {"lstm": 2 * 4 * 4, "gru": 2 * 2 * 4}
"""Parameters that OpenVINO does without: it stores the sum of two biases, but for the last gate of a GRU."""


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("name", GRAPHS)
def test_costs_are_those_of_the_onnx_file(name: str, compressed: bool, tmp_path: Path) -> None:
    source = tmp_path / "model.onnx"
    onnx.save(helper.make_model(GRAPHS[name](), opset_imports=[helper.make_opsetid("", 20)], ir_version=9), source)
    openvino.save_model(openvino.convert_model(source), tmp_path / "model.xml", compress_to_fp16=compressed)
    graph.write(openvino.Core().read_model(tmp_path / "model.xml"), tmp_path / "graph.onnx")
    before, after = (profile(path, observe=False) for path in (source, tmp_path / "graph.onnx"))
    assert before.macs > 0
    assert after.macs == before.macs
    assert after.num_params == before.num_params - MERGED_BIASES.get(name, 0)
    assert after.is_complete
    assert after.inputs == before.inputs
    if name == "cnn":  # whose operations are the same in both, but that biases are added by operations of their own
        assert after.other_ops == before.other_ops
    if compressed and name in ("cnn", "transformer"):
        assert after.weight_bytes < 0.6 * before.weight_bytes, "weights are stored in 16 bits"


@pytest.mark.parametrize("name", ["cnn", "transformer"])
def test_weights_that_are_stored_in_16_bits_change_no_work_and_no_activation(name: str, tmp_path: Path) -> None:
    onnx.save(helper.make_model(GRAPHS[name](), opset_imports=[helper.make_opsetid("", 20)]), tmp_path / "model.onnx")
    profiles = []
    for compressed in (False, True):
        model = openvino.convert_model(tmp_path / "model.onnx")
        openvino.save_model(model, tmp_path / "model.xml", compress_to_fp16=compressed)
        graph.write(openvino.Core().read_model(tmp_path / "model.xml"), tmp_path / "graph.onnx")
        profiles.append(profile(tmp_path / "graph.onnx"))
    plain, half = profiles
    assert (half.other_ops, half.activation_bytes, half.macs) == (plain.other_ops, plain.activation_bytes, plain.macs)


def written(model: Any, folder: Path) -> Profile:
    """The profile of a model's graph, whose outputs have the shapes that OpenVINO states."""
    graph.write(model, folder / "graph.onnx")
    found = profile(folder / "graph.onnx")
    for port, value in zip(model.outputs, onnx.load(folder / "graph.onnx").graph.output, strict=True):
        assert found.tensors[value.name].shape == tuple(port.get_shape())
    return found


def ints(*values: int) -> Any:
    return ops.constant(np.array(values, "int64"))


def one(value: float) -> Any:
    return ops.constant(np.array(value, "float32"))


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "floor mod": lambda x: ops.floor_mod(x, one(0.7)),
    "mod": lambda x: ops.mod(ops.subtract(x, one(2)), one(0.7)),
    "squared difference": lambda x: ops.squared_difference(x, one(0.5)),
    "not equal": lambda x: ops.not_equal(x, x),
    "clamp": lambda x: ops.clamp(x, 0.5, 1.5),
    "elu": lambda x: ops.elu(ops.subtract(x, one(2)), 0.7),
    "gelu tanh": lambda x: ops.gelu(x, "tanh"),
    "hard sigmoid": lambda x: ops.hard_sigmoid(x, one(0.3), one(0.1)),
    "h sigmoid": ops.hsigmoid,
    "h swish": ops.hswish,
    "selu": lambda x: ops.selu(ops.subtract(x, one(2)), one(1.5), one(1.1)),
    "swish": lambda x: ops.swish(x, one(1.3)),
    "prelu": lambda x: ops.prelu(ops.subtract(x, one(2)), ops.constant(np.array([0.1, 0.2, 0.3, 0.4], "float32"))),
    "select": lambda x: ops.select(ops.greater(x, one(1)), x, ops.negative(x)),
    "softmax": lambda x: ops.softmax(x, 1),
    "reduce": lambda x: ops.reduce_mean(x, ints(1, -1), True),
    "reduce l2": lambda x: ops.reduce_l2(x, ints(2)),
    "cumsum": lambda x: ops.cum_sum(x, ops.constant(np.array(1)), True, False),
    "normalize": lambda x: ops.normalize_l2(x, ints(1), 1e-12, "add"),
    "mvn": lambda x: ops.mvn(x, ints(2, 3), True, 1e-9, "inside_sqrt"),
    "group norm": lambda x: ops.group_normalization(
        x, ops.constant(np.ones(4, "f4")), ops.constant(np.ones(4, "f4")), 2, 1e-5
    ),
    "transpose without order": lambda x: ops.transpose(x, ops.constant(np.array([], "int64"))),
    "reshape": lambda x: ops.reshape(x, ints(0, -1), True),
    "shape": lambda x: ops.shape_of(x, "i32"),
    "broadcast": lambda x: ops.broadcast(ops.reduce_sum(x, ints(1), True), ints(2, 4, 6, 6)),
    "tile": lambda x: ops.tile(x, ints(1, 2, 1, 1)),
    "gather": lambda x: ops.gather(x, ints(2, 0), ops.constant(np.array(1))),
    "gather elements": lambda x: ops.gather_elements(x, ops.constant(np.zeros((2, 1, 6, 6), "int64")), 1),
    "gather nd": lambda x: ops.gather_nd(x, ops.constant(np.array([[1, 2], [0, 3]], "int32"))),
    "scatter nd": lambda x: ops.scatter_nd_update(x, ints(1), ops.constant(np.ones((4, 6, 6), "f4"))),
    "split": lambda x: ops.split(x, ops.constant(np.array(1)), 2).output(1),
    "variadic split": lambda x: ops.variadic_split(x, ops.constant(np.array(1)), ints(1, -1)).output(1),
    "slice": lambda x: ops.slice(x, ints(5), ints(0), ints(-2), ints(-1)),
    "strided slice": lambda x: ops.strided_slice(
        x, ints(0, 1, 0, 4), ints(0, 2, 0, 1), ints(1, 1, 1, -1), [1, 0, 1, 0], [1, 0, 1, 0], [0] * 4, [0, 1, 0, 0]
    ),
    "strided slice with a new axis": lambda x: ops.strided_slice(
        x, ints(0, 0, 1), ints(0, 0, 3), ints(1, 1, 1), [1, 1, 0], [1, 1, 0], [1, 0, 0]
    ),
    "pad": lambda x: ops.pad(x, ints(0, 0, 1, 0), ints(0, 0, 0, 2), "reflect"),
    "top k": lambda x: ops.topk(x, ops.constant(np.array(2)), 1, "max", "value").output(1),
    "one hot": lambda x: ops.one_hot(ints(1, 3), ops.constant(np.array(4)), one(2), one(-1), 0),
    "depth to space": lambda x: ops.depth_to_space(x, "depth_first", 2),
    "space to depth": lambda x: ops.space_to_depth(x, "blocks_first", 2),
    "lrn": lambda x: ops.lrn(x, ints(1), 1e-2, 0.7, 1.0, 3),
    "matmul with a vector": lambda x: ops.matmul(x, ops.constant(np.ones(6, "f4")), False, True),
    "matmul transposed": lambda x: ops.matmul(x, ops.constant(np.ones((5, 6), "f4")), True, True),
    "einsum": lambda x: ops.einsum([x, x], "bcij,bckj->bik"),
    "attention": lambda x: ops.scaled_dot_product_attention(x, x, x, one(0), one(0.4)),
    "causal attention": lambda x: ops.scaled_dot_product_attention(x, x, x, causal=True),
    "average pool": lambda x: ops.avg_pool(x, [2, 2], [1, 1], [1, 1], [3, 3], True, "ceil", "explicit"),
    "dilated pool": lambda x: ops.max_pool(x, [1, 1], [2, 2], [0, 0], [0, 0], [2, 2]).output(0),
    "global pool": lambda x: ops.adaptive_avg_pool(x, ints(1, 1)),
    "interpolate": lambda x: ops.interpolate(x, ints(9, 3), "linear_onnx", "sizes", axes=ints(2, 3)),
    "nearest": lambda x: ops.interpolate(
        x,
        ints(12, 12),
        "nearest",
        "sizes",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
        axes=ints(2, 3),
    ),
    "group convolution": lambda x: ops.group_convolution(
        x, ops.constant(RNG.standard_normal((2, 3, 2, 3, 3)).astype("f4")), [1, 1], [1, 0], [0, 1], [1, 1]
    ),
    "transposed group convolution": lambda x: ops.group_convolution_backprop_data(
        x, ops.constant(RNG.standard_normal((2, 2, 3, 3, 3)).astype("f4")), [2, 2]
    ),
    "convert": lambda x: ops.convert(x, "i32"),
}


MACS = {
    "matmul with a vector": 2 * 4 * 6 * 6,
    "matmul transposed": 2 * 4 * 6 * 6 * 5,
    "einsum": 2 * 4 * 6 * 6 * 6,
    "attention": 2 * 4 * 6 * 6 * (6 + 6),
    "causal attention": 2 * 4 * 6 * 6 * (6 + 6),
    "group convolution": 2 * 6 * 5 * 5 * (2 * 3 * 3),
    "transposed group convolution": 2 * 4 * 6 * 6 * (3 * 3 * 3),
}
"""Those of the operations below that have any, by hand."""


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_work_of_operations_is_known(name: str, tmp_path: Path) -> None:
    x = ops.parameter([2, 4, 6, 6], np.float32, name="x")
    found = written(openvino.Model([OPERATIONS[name](x)], [x], "one"), tmp_path)
    assert found.is_complete
    assert found.macs == MACS.get(name, 0)


@pytest.mark.parametrize(
    ("dtype", "sizes", "scales", "zero", "operator"),
    [
        ("u8", (8, 6), (8, 1), (8, 1), "DequantizeLinear"),
        ("u8", (8, 6), (8, 1), (), "DequantizeLinear"),
        ("i8", (8, 6), (), None, "DequantizeLinear"),
        ("u4", (8, 2, 4), (8, 2, 1), (8, 2, 1), "DequantizeLinear"),
        ("u4", (8, 2, 4), (8, 2, 1), (1, 1, 1), "DequantizeLinear"),
        ("i8", (8, 3, 2), (8, 3, 1), None, "DequantizeLinear"),
        ("i8", (8, 3, 2), (8, 3, 2), None, "DequantizeLinear"),
    ],
)
def test_quantized_weights(
    dtype: str, sizes: Sizes, scales: Sizes, zero: Sizes | None, operator: str, tmp_path: Path
) -> None:
    """Scales and zero points are no parameters, whether there is a zero point for each scale or one for all."""
    kind = getattr(openvino.Type, dtype)

    def integers(shape: Sizes) -> Any:
        values = RNG.integers(0, 7, shape).astype("int8" if dtype[0] == "i" else "uint8")
        if dtype.endswith("8"):
            return ops.constant(values)
        packed = openvino.Tensor(kind, openvino.Shape(list(shape)))
        flat = np.append(values, [0] * (values.size % 2)).astype("uint8")
        packed.data[:] = (flat[::2] | flat[1::2] << 4).view(packed.data.dtype)
        return openvino.op.Constant(packed)

    weight = ops.convert(integers(sizes), "f32")
    if zero is not None:
        weight = ops.subtract(weight, ops.convert(integers(zero), "f32"))
    weight = ops.multiply(weight, ops.constant(RNG.random(scales).astype("float32")))
    matrix = ops.reshape(weight, ints(8, 6) if sizes != (8, 2, 4) else ints(8, 8), False)
    x = ops.parameter([3, matrix.shape[1]], np.float32, name="x")
    found = written(openvino.Model([ops.matmul(x, matrix, False, True)], [x], "quantized"), tmp_path)
    assert operator in {each.op_type for each in found.nodes}
    assert found.num_params == np.prod(sizes)
    assert found.macs == 3 * 8 * matrix.shape[1]


def test_integer_weights_of_products_are_parameters(tmp_path: Path) -> None:
    x = ops.parameter([3, 6], np.int32, name="x")
    product = ops.matmul(x, ops.constant(np.ones((6, 4), "int32")), False, False)
    found = written(openvino.Model([product], [x], "integers"), tmp_path)
    assert (found.macs, found.num_params) == (3 * 6 * 4, 24)


def test_fake_quantization_is_counted_and_its_ranges_are_no_parameters(tmp_path: Path) -> None:
    x = ops.parameter([1, 4, 6], np.float32, name="x")
    low, high = (ops.constant(np.full((1, 4, 1), value, "float32")) for value in (-1, 1))
    quantized = ops.fake_quantize(x, low, high, low, high, 256)
    graph.write(openvino.Model([ops.relu(quantized)], [x], "quantized"), tmp_path / "graph.onnx")
    found = profile(tmp_path / "graph.onnx")
    assert (found.num_params, found.other_ops) == (0, 24 * 7 + 24)
    assert found.is_complete


def test_operations_whose_work_is_not_known_are_said_and_keep_their_shapes(tmp_path: Path) -> None:
    x = ops.parameter([2, 4, 6, 6], np.float32, name="x")
    sorted_in = ops.convert(ops.bucketize(x, one_d(0.5, 1.0)), "f32")
    flat = ops.reshape(ops.shuffle_channels(sorted_in, 1, 2), ints(0, -1), True)
    product = ops.matmul(flat, ops.constant(np.ones((144, 3), "float32")), False, False)
    graph.write(openvino.Model([product], [x], "own"), tmp_path / "graph.onnx")
    found = profile(tmp_path / "graph.onnx")
    assert found.macs == 2 * 144 * 3
    assert found.notes == ("the work of 1 nodes is unknown and not counted: org.openvinotoolkit.Bucketize",)
    shapes = {each.op_type: each.output_shapes[0] for each in found.nodes}
    assert (shapes["Bucketize"], shapes["ShuffleChannels"]) == ((2, 4, 6, 6), (2, 4, 6, 6))


def one_d(*values: float) -> Any:
    return ops.constant(np.array(values, "float32"))


def test_large_constants_lie_beside_the_file(tmp_path: Path) -> None:
    x = ops.parameter([1, 64], np.float32, name="x")
    table = np.arange(64 * 64, dtype="float32").reshape(64, 64)
    model = openvino.Model([ops.matmul(x, ops.constant(table), False, False)], [x], "large")
    graph.write(model, tmp_path / "graph.onnx")
    assert (tmp_path / graph.WEIGHTS).stat().st_size == table.nbytes
    (stored,) = onnx.load(tmp_path / "graph.onnx").graph.initializer
    np.testing.assert_array_equal(numpy_helper.to_array(stored), table)


def test_element_types_that_onnx_does_not_have_are_refused(tmp_path: Path) -> None:
    x = ops.parameter([2, 2], openvino.Type.nf4, name="x")
    with pytest.raises(InputError, match="it holds elements of type nf4, which ONNX does not have"):
        graph.write(openvino.Model([ops.reshape(x, ints(4), False)], [x], "nf4"), tmp_path / "graph.onnx")


def test_constants_of_strings_are_refused(tmp_path: Path) -> None:
    x = ops.parameter([2], np.int64, name="x")
    words = openvino.op.Constant(openvino.Tensor(np.array(["red", "blue"])))
    model = openvino.Model([ops.gather(words, x, ops.constant(np.array(0)))], [x], "words")
    with pytest.raises(InputError, match="holds strings; only constants of numbers can be read"):
        graph.write(model, tmp_path / "graph.onnx")


def test_archives_are_written_at_the_shapes_that_are_asked_for(tmp_path: Path) -> None:
    x = ops.parameter([-1, 4], np.float32, name="x")
    model = openvino.Model([ops.matmul(x, ops.constant(np.ones((4, 3), "f4")), False, False)], [x], "open")
    ir.save(model, tmp_path / "model.openvino")
    graph.of_archive(tmp_path / "model.openvino", tmp_path / "graph.onnx", {"x": (5, 4)})
    assert profile(tmp_path / "graph.onnx").macs == 5 * 4 * 3
    with pytest.raises(InputError, match=r"the shapes {'x': \(5, 7\)} do not fit the model"):
        graph.of_archive(tmp_path / "model.openvino", tmp_path / "graph.onnx", {"x": (5, 7)})


def test_a_product_with_a_mask_of_integers_is_no_scale(tmp_path: Path) -> None:
    x = ops.parameter([2, 8], np.float32, name="x")
    mask = ops.convert(ops.constant(np.ones((2, 8), "uint8")), "f32")
    found = written(openvino.Model([ops.multiply(mask, x)], [x], "masked"), tmp_path)
    assert [node.op_type for node in found.nodes if node.op_type != "Identity"] == ["Mul"]
    assert (found.macs, found.other_ops) == (0, 16)


def test_outputs_keep_their_names(tmp_path: Path) -> None:
    """Of an operation, of an input and of a constant, and one value as two outputs."""
    x = ops.parameter([2, 3], np.float32, name="x")
    y = ops.relu(x)
    y.output(0).set_names({"y"})
    graph.write(openvino.Model([y, x, ints(1, 2), y], [x], "named"), tmp_path / "graph.onnx")
    names = [value.name for value in onnx.load(tmp_path / "graph.onnx").graph.output]
    assert (names[0], names[3]) == ("y", "y_output")
    assert len({*names}) == 4
    assert profile(tmp_path / "graph.onnx").other_ops == 6


@pytest.mark.parametrize(("goes_on", "times"), [(True, 10), (False, 1)])
def test_the_body_of_a_loop_counts_as_often_as_it_runs(goes_on: bool, times: int, tmp_path: Path) -> None:
    state = ops.parameter([2, 4], np.float32)
    product = ops.matmul(state, ops.constant(np.ones((4, 4), "float32")), False, False)
    go = ops.constant(np.array(goes_on))
    body = openvino.Model([go, product], [state], "body")
    x = ops.parameter([2, 4], np.float32, name="x")
    loop = ops.loop(ops.constant(np.array(10)), ops.constant(np.array(True)))
    loop.set_function(body)
    loop.set_special_body_ports([-1, 0])
    loop.set_merged_input(state, x.output(0), product.output(0))
    found = written(openvino.Model([loop.get_iter_value(product.output(0), -1)], [x], "loop"), tmp_path)
    assert found.macs == times * 2 * 4 * 4
    assert found.num_params == 16


def test_empty_and_open_shapes_are_written(tmp_path: Path) -> None:
    x = ops.parameter([-1, 0, 3], np.float32, name="x")
    graph.write(openvino.Model([ops.relu(x)], [x], "open"), tmp_path / "graph.onnx")
    (value,) = onnx.load(tmp_path / "graph.onnx").graph.output
    assert [dim.dim_value for dim in value.type.tensor_type.shape.dim] == [0, 0, 3]
    assert profile(tmp_path / "graph.onnx").macs == 0
