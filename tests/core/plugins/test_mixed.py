"""A precision for each node with weights of an ONNX model, and the split that judges such proposals."""

from __future__ import annotations

import collections
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from bench.api.errors import InputError, RefusedError
from bench.api.loss_units import SHARE
from bench.plugins import catalog, steps
from bench.plugins.engines.calibration import num_calibration, tuning_feeds
from bench.plugins.engines.onnxruntime import mixing
from bench.plugins.engines.onnxruntime.grams import grams
from bench.plugins.tuning import LOST, tuning
from support import small_models as small

PARTS = ("Gather", "LSTM", "MatMul", "MatMul", "MatMul", "MatMul", "Conv", "ConvTranspose")
"""The nodes with weights of the small model; the fourth product is its Gemm."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "source.onnx"
    onnx.save(small.make_model(), path)
    return path


def made(option: str, source: Path, folder: Path) -> onnx.ModelProto:
    target = folder / "target.onnx"
    steps.transform(catalog.variant(f"mixed-{option}"), small.make_task(), source, target)
    return onnx.load(target)


def count(model: onnx.ModelProto) -> collections.Counter[str]:
    return collections.Counter(node.op_type for node in model.graph.node)


def test_parts_are_the_nodes_with_weights_in_their_order(source: Path) -> None:
    found = catalog.variant_file("mixed").parts(source, task=small.make_task())
    assert tuple(part.operator for part in found) == PARTS
    assert [part.letters for part in found] == ["fdsqkv", "fd", *4 * ["fdsqkvt"], "fs", "fs"]
    tied = [part for part in found if part.alike == "MatMul 36x36"]
    assert len(tied) == 2
    assert tied[0].num_weights == 36 * 36
    assert tied[0].weights == tied[1].weights
    assert len({part.weights for part in found}) == len(found) - 1


@pytest.mark.parametrize(
    ("option", "operators"),
    [
        ("2f1d5f", {"MatMulInteger": 1}),
        ("2f4d2f", {"MatMulInteger": 4}),
        ("1f1d6f", {"DynamicQuantizeLSTM": 1}),
        ("2f1q5f", {"MatMulNBits": 1}),
        ("2f1q1k4f", {"MatMulNBits": 2}),
        ("2f1v5f", {"MatMulNBits": 1}),
        ("2f1t5f", {"MatMulNBits": 1}),
        ("1q7f", {"GatherBlockQuantized": 1}),
        ("6f2s", {"QuantizeLinear": 3, "Relu": 0, "Conv": 1, "ConvTranspose": 1}),
        ("1f1d1q1d2f1s1f", {"DynamicQuantizeLSTM": 1, "MatMulNBits": 1, "MatMulInteger": 1, "Conv": 1}),
    ],
)
def test_each_node_gets_its_precision(option: str, operators: dict[str, int], source: Path, tmp_path: Path) -> None:
    model = made(option, source, tmp_path)
    found = count(model)
    assert {name: found[name] for name in operators} == operators
    expected, outputs = small.run(source), small.run(model)
    assert 0 < small.drift(outputs, expected) < 0.2


def scales_of(model: onnx.ModelProto) -> list[tuple[np.dtype[Any], np.ndarray]]:
    """The scales of each product in blocks: in which type they are stored, and the float32 numbers that it reads."""
    tensors = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    makers = {node.output[0]: node for node in model.graph.node if node.op_type in ("Cast", "Mul")}

    def read(name: str) -> tuple[np.dtype[Any], np.ndarray]:
        maker = makers.get(name)
        if maker is None:
            return tensors[name].dtype, tensors[name]
        stored, numbers = read(maker.input[0])
        return stored, numbers.astype(np.float32) * (tensors[maker.input[1]] if maker.op_type == "Mul" else 1)

    return [read(node.input[2]) for node in model.graph.node if node.op_type == "MatMulNBits"]


def test_scales_of_blocks_are_stored_in_8_bits(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[type(catalog.variant_file("mixed")).__module__]
    found = scales_of(made("2f3q3f", source, tmp_path))
    # The first product has 36 scales, which nodes of their own would not make smaller.
    assert [stored for stored, _ in found] == [np.float32, np.int8, np.int8]
    monkeypatch.setattr(module, "MANY", 10**6)
    exact = scales_of(made("2f3q3f", source, tmp_path))
    for (_, numbers), (_, expected) in zip(found, exact, strict=True):
        np.testing.assert_allclose(numbers, expected, atol=np.abs(expected).max() / 127 / 2 * (1 + 1e-5))
    assert np.abs(found[1][1] - exact[1][1]).max() > 0


@pytest.mark.parametrize(("smallest", "expected"), [(0.1, np.int8), (0.01, np.float16), (1e-7, np.float32)])
def test_scales_that_differ_too_much_for_8_bits_are_stored_in_more(
    smallest: float, expected: type, tmp_path: Path
) -> None:
    weights = np.ones((64, 36), np.float32) * np.linspace(smallest, 1, 36, dtype=np.float32)
    tokens = onnx.helper.make_tensor_value_info("tokens", onnx.TensorProto.FLOAT, [1, 64])
    product = onnx.helper.make_tensor_value_info("product", onnx.TensorProto.FLOAT, [1, 36])
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["tokens", "weights"], ["product"], name="product")],
        "product",
        [tokens],
        [product],
        [onnx.numpy_helper.from_array(weights, "weights")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    module: Any = sys.modules[type(catalog.variant_file("mixed")).__module__]
    blocked = module._in_blocks(model, ["product"], 4, 32, is_symmetric=True)
    module._store_smaller(blocked, set())
    ((stored, numbers),) = scales_of(blocked)
    assert stored == expected
    largest = np.abs(numbers).max()
    np.testing.assert_allclose(np.abs(numbers).min(), smallest / 8, atol=largest / 127 / 2, rtol=1e-3)


@pytest.mark.parametrize(("option", "kind"), [("2f3v3f", np.float16), ("2f3d3f", np.float32)])
def test_vectors_are_stored_in_float16_beside_weights_in_blocks(
    option: str, kind: type, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[type(catalog.variant_file("mixed")).__module__], "MANY", 8)
    bias = small.OTHERS["bias"]
    vectors = [onnx.numpy_helper.to_array(tensor) for tensor in made(option, source, tmp_path).graph.initializer]
    (stored,) = (array for array in vectors if array.shape == bias.shape and array.dtype.kind == "f")
    assert stored.dtype == kind
    np.testing.assert_array_equal(stored, bias.astype(kind))


@pytest.mark.parametrize("largest", [1e5, 1e-6])
def test_a_vector_beyond_the_range_of_float16_stays(
    largest: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[type(catalog.variant_file("mixed")).__module__], "MANY", 8)
    bias = np.linspace(0, largest, len(small.OTHERS["bias"]), dtype=np.float32)
    onnx.save(small.make_model(initializers={"bias": bias}), tmp_path / "source.onnx")
    model = made("2f3v3f", tmp_path / "source.onnx", tmp_path)
    vectors = [onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer]
    assert any(array.shape == bias.shape and np.array_equal(array, bias) for array in vectors)


@pytest.mark.parametrize(
    ("letter", "sizes"), [("q", [16, 32, 32, 32]), ("k", [16, 64, 64, 64]), ("v", [16, 64, 64, 64])]
)
def test_no_block_is_longer_than_the_weights_need(letter: str, sizes: list[int], source: Path, tmp_path: Path) -> None:
    """The products sum over 12, 36, 36 and 36 weights."""
    nodes = made(f"2f4{letter}2f", source, tmp_path).graph.node
    attributes = [{entry.name: entry.i for entry in node.attribute} for node in nodes if node.op_type == "MatMulNBits"]
    assert [each["block_size"] for each in attributes] == sizes
    assert [each["K"] for each in attributes] == [12, 36, 36, 36]


def test_a_vector_that_something_is_divided_by_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[type(catalog.variant_file("mixed")).__module__], "MANY", 8)
    model = small.make_model()
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32([1e-9, *[1.0] * 9]), "divisor"))
    (gemm,) = (node for node in model.graph.node if node.op_type == "Gemm")
    gemm.output[0] = "undivided"
    model.graph.node.insert(11, onnx.helper.make_node("Div", ["undivided", "divisor"], ["text"]))
    onnx.save(model, tmp_path / "source.onnx")
    kinds = {
        onnx.numpy_helper.to_array(tensor).dtype
        for tensor in made("2f3v3f", tmp_path / "source.onnx", tmp_path).graph.initializer
        if [*tensor.dims] == [10] and tensor.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)
    }
    assert kinds == {np.dtype(np.float16), np.dtype(np.float32)}, "the bias does not"


def test_weights_are_not_limited_for_a_node_that_reads_them_as_floats(source: Path, tmp_path: Path) -> None:
    def products(option: str) -> list[np.ndarray]:
        tensors = [onnx.numpy_helper.to_array(tensor) for tensor in made(option, source, tmp_path).graph.initializer]
        return [array for array in tensors if array.shape == (36, 36)]

    (alone,) = products("3f1t4f")
    np.testing.assert_array_equal(alone, small.WEIGHTS["tied"])
    assert not products("3f2t3f")


def test_inputs_of_products_are_summed_over_the_samples_and_over_the_nodes_that_share_weights(source: Path) -> None:
    task = small.make_task()
    model, ports = mixing.prepared(source, task)
    products = [node for node in model.graph.node if node.op_type == "MatMul"]
    found = grams(model, {node.name for node in products}, ports, task)
    shared = {name for name in found if sum(name in node.input for node in products) == 2}
    assert [found[name].shape for name in shared] == [(36, 36)]
    assert sorted(len(square) for square in found.values()) == [12, 36, 36]
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    reading = [node.input[0] for node in products if node.input[1] in shared]
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in reading]
    watched.graph.output.extend(values)
    session = onnxruntime.InferenceSession(watched.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = np.zeros((36, 36))
    for sample in tuning_feeds(task):
        for array in session.run(reading, {value.name: sample[ports[value.name]] for value in model.graph.input}):
            rows = array.reshape(-1, 36).astype(np.float64)
            expected += rows.T @ rows
    (name,) = shared
    np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-5)
    assert grams(model, {"of no product"}, ports, task) == {}


def test_weights_in_blocks_make_up_for_the_errors_of_each_other(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = small.run(source)
    fed = small.drift(small.run(made("2f4t2f", source, tmp_path)), expected)
    monkeypatch.setattr(sys.modules[type(catalog.variant_file("mixed")).__module__], "grams", lambda *_: {})
    nearest = small.drift(small.run(made("2f4t2f", source, tmp_path)), expected)
    assert fed != nearest


def test_what_stays_float_is_as_it_was(source: Path, tmp_path: Path) -> None:
    text, picture = small.run(made("6f2s", source, tmp_path))
    expected_text, expected_picture = small.run(source)
    np.testing.assert_allclose(text, expected_text, rtol=1e-5, atol=1e-6)
    assert small.drift([picture], [expected_picture]) > 1e-4


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("8f", "every node stays float32"),
        ("7f", "7f is for 7 parts, and the model has 8"),
        ("1t7f", "part 1, a Gather, can be f, d, s, q, k, v, not t"),
    ],
)
def test_refusals(option: str, reason: str, source: Path, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=reason):
        made(option, source, tmp_path)


def test_only_spellings_name_the_variant() -> None:
    assert catalog.variant("mixed-2f3d").option == "2f3d"
    assert not any(name.startswith("mixed") for name in catalog.variants())
    for name in ("mixed", "mixed-", "mixed-2x", "mixed-0f", "onnxsim-2f"):
        with pytest.raises(InputError, match="no variant named"):
            catalog.variant(name)
    assert [variant.name for variant in catalog.mixing()] == ["mixed", "nncf_mixed", "tflite_mixed"]


def test_nodes_of_an_older_operator_set_are_counted_alike(tmp_path: Path) -> None:
    old = tmp_path / "old.onnx"
    onnx.save(small.make_model(opset=13), old)
    model, _ = mixing.prepared(old, small.make_task())
    assert tuple(part.operator for part in mixing.parts(model)) == PARTS


class Split(small.SmallTask):
    """A task with a test split, too."""


def test_calibration_tuning_and_test_share_no_sample() -> None:
    own = small.make_task(Split)
    judging = tuning(own)
    whole = own.samples("train").inputs["tokens"]
    calibrating, judged = (judging.samples(split).inputs["tokens"] for split in ("train", "test"))
    np.testing.assert_array_equal(np.concatenate([calibrating, judged]), whole)
    assert len(calibrating) == num_calibration(len(whole)) == 3
    assert judging.name == "small~tuning"
    assert judging.metric_name == "snr_db"
    assert judging.samples("test").targets is None


def test_what_the_own_metric_loses_on_the_tuning_samples_is_told_beside_the_fidelity() -> None:
    judging = tuning(catalog.task("toy"))
    samples = judging.samples("test")
    right = 2 * samples.inputs["x"]
    targets = [{"y": row} for row in right]
    off = right.copy()
    off[:2] += 1e-3  # two of the eight that do not calibrate are wrong, and all sound alike
    lost = LOST[SHARE]
    assert judging.metrics({"y": right}, targets) == {"snr_db": 120.0, lost: 0.0}
    metrics = judging.metrics({"y": off}, targets)
    assert metrics[lost] == pytest.approx(2 / len(right))
    assert 50 < metrics["snr_db"] < 70
    assert judging.metrics({"y": off[:1]}, targets[:1]).keys() == {"snr_db"}, "labels are of the whole split"
    unlabelled = tuning(small.make_task(Split))
    tokens = unlabelled.samples("test").num_samples
    names = [spec.name for spec in unlabelled.outputs]
    outputs = {name: np.ones((tokens, 2), np.float32) for name in names}
    without = unlabelled.metrics(outputs, [{name: np.ones(2, np.float32) for name in names}] * tokens)
    assert not set(LOST.values()) & set(without)


def test_one_sample_has_to_do_for_both() -> None:
    assert [num_calibration(number) for number in (1, 2, 3, 64, 1000)] == [1, 1, 1, 32, 32]
