"""Profiles of small models: parameters, bytes, shapes that depend on data, and models that cannot be profiled."""

from __future__ import annotations

import dataclasses
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench import onnxfile
from bench.api.errors import InputError
from bench.onnxfile.costs.profile import Profile, profile

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def graph_model(
    nodes: list[onnx.NodeProto], inputs: dict[str, Any], outputs: list[str], *stored: Any
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in stored],
    )
    domains = {node.domain for node in nodes} | {""}
    imports = [helper.make_opsetid(domain, 1 if domain else 18) for domain in domains]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def save(model: onnx.ModelProto, folder: Path) -> Path:
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


def untied(tmp_path: Path, arrays: list[np.ndarray]) -> Profile:
    """A chain of products with these matrices, each stored by itself."""
    nodes = [helper.make_node("MatMul", [f"x{at}", f"w{at}"], [f"x{at + 1}"]) for at in range(len(arrays))]
    stored = [(f"w{at}", array) for at, array in enumerate(arrays)]
    return profile(save(graph_model(nodes, {"x0": [1, 64]}, [f"x{len(arrays)}"], *stored), tmp_path))


def test_equal_weights_are_unique_once(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    one, other = (generator.standard_normal((64, 64), np.float32) for _ in range(2))
    late = one.copy()
    late[-1, -1] += 1
    found = untied(tmp_path, [one, other, one, late, one])

    assert found.num_params == 5 * 64 * 64
    assert found.num_unique_params == 3 * 64 * 64


def test_fresh_biases_are_not_taken_for_shared(tmp_path: Path) -> None:
    found = untied(tmp_path, [np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)])

    assert found.num_unique_params == found.num_params == 2 * 64 * 64


def test_a_weight_that_is_read_twice_is_stored_once(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])]
    weights = np.random.default_rng(0).standard_normal((8, 8), np.float32)
    found = profile(save(graph_model(nodes, {"x": [1, 8]}, ["y"], ("w", weights)), tmp_path))

    assert [node.params for node in found.nodes] == [64, 64]
    assert (found.num_params, found.weight_bytes, found.activation_bytes) == (64, 256, 3 * 32)


def test_external_weights_are_not_loaded(tmp_path: Path) -> None:
    """A file of 16 GiB that is nothing but a hole."""
    model = graph_model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": ["N", 65536]}, ["y"])
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[65536, 65536], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "w.bin"), ("length", str(4 * 65536**2))):
        tensor.external_data.add(key=key, value=value)
    model.graph.initializer.append(tensor)
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(4 * 65536**2)
    found = profile(save(model, tmp_path), dims={"N": 3})

    assert found.macs == 3 * 65536**2
    assert found.weight_bytes == 4 * 65536**2


def test_small_external_values_that_shapes_depend_on_are_read(tmp_path: Path) -> None:
    model = graph_model(
        [helper.make_node("Reshape", ["x", "wanted"], ["y"])], {"x": [6, 4]}, ["y"], ("wanted", np.array([3, -1]))
    )
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    found = profile(tmp_path / "model.onnx")

    assert found.tensors["y"].shape == (3, 8)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("gone.bin", "its external data 'gone.bin' are not in its folder"),
        ("../w.bin", "its external data '../w.bin' lie outside its folder"),
        ("/etc/passwd", "its external data '/etc/passwd' lie outside its folder"),
        ("w.bin\0x", r"its external data 'w.bin.x00x' name no file"),
    ],
)
def test_external_data_that_cannot_be_had_are_refused(tmp_path: Path, location: str, message: str) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(64))
    model = graph_model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [1, 4]}, ["y"])
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[4, 4], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    model.graph.initializer.append(tensor)

    with pytest.raises(InputError, match=message):
        profile(save(model, tmp_path / "inner"))


def test_quantized_models_count_their_real_bits(tmp_path: Path) -> None:
    nodes = [helper.make_node("DequantizeLinear", ["q", "s"], ["w"]), helper.make_node("MatMul", ["x", "w"], ["y"])]
    model = graph_model(nodes, {"x": [2, 64]}, ["y"], ("s", np.array(0.1, np.float32)))
    model.graph.initializer.append(helper.make_tensor("q", TensorProto.INT4, [64, 32], np.zeros(64 * 32, np.int64)))
    model.opset_import[0].version = 21
    model.ir_version = 10
    found = profile(save(model, tmp_path))

    assert found.num_params == 64 * 32
    assert found.weight_bytes == 64 * 32 // 2 + 4
    assert found.macs == 2 * 64 * 32


def non_zero_model() -> onnx.ModelProto:
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"], name="find"),
        helper.make_node("Transpose", ["places"], ["rows"], name="turn"),
        helper.make_node("Cast", ["rows"], ["numbers"], to=FLOAT, name="cast"),
        helper.make_node("MatMul", ["numbers", "w"], ["y"], name="product"),
    ]
    return graph_model(nodes, {"x": ["N", 3]}, ["y"], ("w", np.ones((2, 5), np.float32)))


def test_what_depends_on_data_is_observed_on_given_inputs(tmp_path: Path) -> None:
    path = save(non_zero_model(), tmp_path)
    x = np.array([[0, 1, 0], [1, 1, 0]], np.float32)
    found = profile(path, inputs={"x": x})
    product = found.nodes[-1]

    assert product.output_shapes == ((3, 5),)
    assert product.macs == 3 * 2 * 5
    assert {name for name, info in found.tensors.items() if info.observed} == {"places", "rows", "numbers", "y"}
    assert found.tensors["places"].shape == (2, 3)
    assert found.inputs == {"x": (2, 3)}
    assert any("observed in one run on the given inputs" in note for note in found.notes)


def test_without_a_run_it_is_left_open(tmp_path: Path) -> None:
    found = profile(save(non_zero_model(), tmp_path), dims={"N": 2}, observe=False)

    assert [node.known for node in found.nodes] == [True, True, True, False]
    assert found.nodes[-1].output_shapes == (None,)
    assert not found.is_complete
    assert any("the work of 1 nodes is not counted" in note for note in found.notes)


def loop_model(*, while_small: bool) -> onnx.ModelProto:
    """Doubles the rows of x each time, at most 5 times, or until there are 8 of them."""
    inner = [
        helper.make_node("MatMul", ["v", "w"], ["h"], name="product"),
        helper.make_node("Concat", ["h", "h"], ["v2"], axis=0, name="double"),
        helper.make_node("Shape", ["v2"], ["size"], end=1, name="size"),
        helper.make_node("Less", ["size", "eight"], ["small"], name="less"),
        helper.make_node("Squeeze", ["small"], ["c2"], name="small")
        if while_small
        else helper.make_node("Identity", ["c"], ["c2"]),
    ]
    inputs = [("i", INT64, []), ("c", TensorProto.BOOL, []), ("v", FLOAT, ["rows", 4])]
    body = helper.make_graph(
        inner,
        "body",
        [helper.make_tensor_value_info(*one) for one in inputs],
        [
            helper.make_tensor_value_info("c2", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v2", FLOAT, ["rows2", 4]),
        ],
    )
    loop = helper.make_node("Loop", ["five", "go", "x"], ["y"], name="loop", body=body)
    stored = [
        ("w", np.ones((4, 4), np.float32)),
        ("five", np.array(5)),
        ("go", np.array(True)),
        ("eight", np.array([8])),
    ]
    return graph_model([loop], {"x": ["N", 4]}, ["y"], *stored)


@pytest.mark.parametrize(("while_small", "rows"), [(False, [1, 2, 4, 8, 16]), (True, [1, 2, 4])])
def test_loops_whose_shapes_change_are_counted_as_they_ran(tmp_path: Path, while_small: bool, rows: list[int]) -> None:
    found = profile(save(loop_model(while_small=while_small), tmp_path), dims={"N": 1})
    product = next(node for node in found.nodes if node.name == "product")

    assert product.runs == len(rows)
    assert product.macs == sum(rows) * 4 * 4
    assert product.path == "loop.body"
    assert found.tensors["y"].shape == (2 * rows[-1], 4)
    assert found.tensors["y"].observed
    assert found.tensors["loop.body:v2"].shape == (2 * rows[-1], 4)


def test_a_loop_of_unknown_length_counts_once_without_a_run(tmp_path: Path) -> None:
    found = profile(save(loop_model(while_small=True), tmp_path), dims={"N": 1}, observe=False)

    assert next(node for node in found.nodes if node.name == "product").runs is None
    assert any("the number of iterations is not known; its body is counted once" in note for note in found.notes)


def test_unknown_operators_are_named_and_the_rest_counted(tmp_path: Path) -> None:
    nodes = [helper.make_node("Magic", ["x"], ["m"], domain="my.own"), helper.make_node("MatMul", ["x", "w"], ["y"])]
    found = profile(save(graph_model(nodes, {"x": [2, 4]}, ["y", "m"], ("w", np.ones((4, 4), np.float32))), tmp_path))

    assert found.macs == 32
    assert not found.is_complete
    assert "the work of 1 nodes is unknown and not counted: my.own.Magic" in found.notes
    assert any("nothing here runs operators of my.own" in note for note in found.notes)


def test_a_run_that_fails_costs_only_what_it_would_have_shown(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Reshape", ["places", "seven"], ["bad"]),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    model = graph_model(
        nodes, {"x": [2, 4]}, ["y", "bad"], ("w", np.ones((4, 4), np.float32)), ("seven", np.array([1, 7, 1]))
    )
    found = profile(save(model, tmp_path))

    assert found.macs == 32
    assert any("the run to observe them failed" in note for note in found.notes)


def test_crnn_scales_with_its_steps(tmp_path: Path) -> None:
    """Two LSTMs in both directions over the columns of an image, as the model of this project has them."""
    nodes = [
        helper.make_node("Conv", ["image", "k"], ["c"], strides=[8, 4], name="conv"),
        helper.make_node("Squeeze", ["c", "two"], ["s"], name="squeeze"),
        helper.make_node("Transpose", ["s"], ["t"], perm=[2, 0, 1], name="turn"),
        helper.make_node("LSTM", ["t", "w", "r"], ["y"], hidden_size=24, direction="bidirectional", name="lstm"),
    ]
    stored = [
        ("k", np.ones((16, 1, 8, 4), np.float32)), ("two", np.array([2])),
        ("w", np.ones((2, 96, 16), np.float32)), ("r", np.ones((2, 96, 24), np.float32)),
    ]  # fmt: skip
    path = save(graph_model(nodes, {"image": ["N", 1, 8, "width"]}, ["y"], *stored), tmp_path)
    lstm = {
        width: next(node.macs for node in profile(path, dims={"N": 2, "width": width}).nodes if node.name == "lstm")
        for width in (4, 40, 400)
    }

    assert lstm == {width: width // 4 * 2 * 2 * 96 * (16 + 24) for width in (4, 40, 400)}


def test_a_profile_survives_json(tmp_path: Path) -> None:
    found = profile(save(non_zero_model(), tmp_path), dims={"N": 2}, observe=False)

    assert Profile.from_dict(json.loads(json.dumps(dataclasses.asdict(found)))) == found


def test_tensors_are_described_when_asked_for_and_without_the_file(tmp_path: Path) -> None:
    path = save(non_zero_model(), tmp_path)
    found = profile(path, dims={"N": 2}, observe=False)
    described_later, copied = profile(path, dims={"N": 2}, observe=False), pickle.loads(pickle.dumps(found))
    path.unlink()

    assert "_tensors" in vars(described_later)
    assert callable(vars(described_later)["_tensors"])
    assert described_later.tensors == copied.tensors == found.tensors
    assert sum(info.bytes or 0 for info in found.tensors.values() if not info.is_weight) == found.activation_bytes


def test_the_package_has_the_function(tmp_path: Path) -> None:
    path = save(loop_model(while_small=False), tmp_path)

    assert onnxfile.profile(path, dims={"N": 1}, observe=False) == profile(path, dims={"N": 1}, observe=False)
