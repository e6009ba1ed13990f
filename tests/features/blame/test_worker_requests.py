"""What a worker does with the files of models: graphs, tensors and parts, of files that make it hard."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api.arrays import load_arrays, save_arrays
from bench.api.errors import ArtifactError, InputError
from bench.features.blame import worker_requests

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def floats(name: str, *shape: int | str | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def write(path: Path, nodes: list[Any], weights: dict[str, Any] | None = None, outputs: tuple[Any, ...] = ()) -> Path:
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", [floats("x", 2, 3)], list(outputs) or [floats("y", 2, 3)], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.fixture
def feeds(tmp_path: Path) -> Path:
    save_arrays(tmp_path / "feeds.npz", {"x": X})
    return tmp_path / "feeds.npz"


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """Two products with one weight, which has a transposed copy made of it alone, and nodes of one name."""
    nodes = [
        helper.make_node("Transpose", ["w"], ["turned"], name="same"),
        helper.make_node("MatMul", ["x", "w"], ["t"], name="same"),
        helper.make_node("Relu", ["t"], ["u"], name="same"),
        helper.make_node("MatMul", ["u", "turned"], ["y"], name="same"),
    ]
    return write(tmp_path / "chain.onnx", nodes, {"w": np.eye(3, dtype=np.float32) * 2})


def cut(tmp_path: Path, path: Path, feeds: Path, inputs: list[str], outputs: list[str]) -> dict[str, Any]:
    files = {"target": str(tmp_path / "part.onnx"), "target_feeds": str(tmp_path / "part.npz")}
    (answer,) = worker_requests.write_cuts(
        path=str(path), feeds=str(feeds), cuts=[{"inputs": inputs, "outputs": outputs, **files}]
    )["cuts"]
    return dict(answer)


def test_nodes_of_constants_are_no_nodes_and_names_become_different(chain: Path) -> None:
    answer = worker_requests.describe(path=str(chain))

    assert [node["operator"] for node in answer["nodes"]] == ["MatMul", "Relu", "MatMul"]
    assert len({node["name"] for node in answer["nodes"]}) == 3
    assert [node["reads"] for node in answer["nodes"]] == [["x"], ["t"], ["u"]]
    assert (answer["inputs"], answer["outputs"]) == (["x"], ["y"])


def test_a_part_has_its_real_inputs_and_the_constants_it_reads(tmp_path: Path, chain: Path, feeds: Path) -> None:
    answer = cut(tmp_path, chain, feeds, ["u"], ["y"])

    assert answer == {"outputs": [{"name": "y", "dtype": "float32", "shape": [2, 3]}]}
    part = onnx.load(tmp_path / "part.onnx")
    assert [node.op_type for node in part.graph.node] == ["Transpose", "MatMul"]
    np.testing.assert_array_equal(load_arrays(tmp_path / "part.npz")["u"], 2 * X)


def test_a_shared_weight_is_in_each_part_that_reads_it(tmp_path: Path, chain: Path, feeds: Path) -> None:
    for inputs, outputs in ((["x"], ["t"]), (["u"], ["y"])):
        cut(tmp_path, chain, feeds, inputs, outputs)
        assert [tensor.name for tensor in onnx.load(tmp_path / "part.onnx").graph.initializer] == ["w"]


def test_a_branch_is_whole_with_what_it_reads_from_around(tmp_path: Path, feeds: Path) -> None:
    branches = [
        helper.make_graph([helper.make_node(operator, ["t"], ["out"])], operator, [], [floats("out", 2, 3)])
        for operator in ("Relu", "Neg")
    ]
    nodes = [
        helper.make_node("Neg", ["x"], ["t"]),
        helper.make_node("ReduceMax", ["t"], ["most"], keepdims=0),
        helper.make_node("Greater", ["most", "zero"], ["condition"]),
        helper.make_node("If", ["condition"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    path = write(tmp_path / "branch.onnx", nodes, {"zero": np.float32(0)})

    (last,) = [n for n in worker_requests.describe(path=str(path))["nodes"] if n["operator"] == "If"]
    answer = cut(tmp_path, path, feeds, ["condition", "t"], ["y"])

    assert last["reads"] == ["condition", "t"]
    assert answer["outputs"][0]["shape"] == [2, 3]
    assert [node.op_type for node in onnx.load(tmp_path / "part.onnx").graph.node] == ["If"]


def test_weights_beside_the_file_come_along(tmp_path: Path, chain: Path, feeds: Path) -> None:
    model = onnx.load(chain)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.eye(3, dtype=np.float32) * 3, "w"))
    folder = tmp_path / "apart"
    folder.mkdir()
    onnx.save(model, folder / "chain.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)

    cut(tmp_path, folder / "chain.onnx", feeds, ["u"], ["y"])

    np.testing.assert_array_equal(load_arrays(tmp_path / "part.npz")["u"], 3 * X)
    session = __import__("onnxruntime").InferenceSession(tmp_path / "part.onnx")
    np.testing.assert_array_equal(session.run(None, {"u": X})[0], 3 * X)


def test_a_sequence_is_no_boundary(tmp_path: Path, feeds: Path) -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["parts"], axis=0),
        helper.make_node("ConcatFromSequence", ["parts"], ["y"], axis=0),
    ]
    path = write(tmp_path / "sequence.onnx", nodes)

    assert "no tensor but a sequence" in cut(tmp_path, path, feeds, ["parts"], ["y"])["error"]
    assert "outputs" in cut(tmp_path, path, feeds, ["x"], ["y"])


def test_a_model_without_nodes_has_none(tmp_path: Path) -> None:
    path = write(tmp_path / "nothing.onnx", [], outputs=(floats("x", 2, 3),))

    assert worker_requests.describe(path=str(path)) == {"nodes": [], "inputs": ["x"], "outputs": ["x"]}


def test_a_tensor_that_no_node_makes_is_refused(tmp_path: Path, chain: Path, feeds: Path) -> None:
    with pytest.raises(InputError, match="no node makes the tensor 'z'"):
        cut(tmp_path, chain, feeds, ["z"], ["y"])


def test_renamed_tensors_are_known_by_their_values(tmp_path: Path, chain: Path, feeds: Path) -> None:
    """A costlier equal of the Relu, and every tensor has another name."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["1"]),
        helper.make_node("Abs", ["1"], ["2"]),
        helper.make_node("Add", ["1", "2"], ["3"]),
        helper.make_node("Mul", ["3", "half"], ["4"]),
        helper.make_node("MatMul", ["4", "turned"], ["y"]),
    ]
    weights = {name: np.eye(3, dtype=np.float32) * 2 for name in ("w", "turned")} | {"half": np.float32(0.5)}
    other = write(tmp_path / "other.onnx", nodes, weights)
    save_arrays(feeds, {"x": X - 2.5})

    names = worker_requests.common_tensors(path=str(chain), other=str(other), feeds=str(feeds))["names"]

    assert names == {"1": "t", "4": "u", "y": "y"}


def test_values_of_one_magnitude_are_not_the_same(tmp_path: Path) -> None:
    """Of many values, the sum of all magnitudes is far larger than a sum of them with random weights."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["t"]),
        helper.make_node("Neg", ["t"], ["turned"]),
        helper.make_node("Gather", ["t", "back"], ["moved"], axis=1),
        helper.make_node("Identity", ["t"], ["y"]),
    ]
    weights = {"w": np.random.default_rng(0).standard_normal((3, 90_000)).astype(np.float32)}
    outputs = tuple(floats(name, 2, 90_000) for name in ("turned", "moved", "y"))
    path = write(tmp_path / "wide.onnx", nodes, {**weights, "back": np.arange(90_000)[::-1].copy()}, outputs)

    sums = worker_requests._sums(path, {"x": X})

    equal = {name: worker_requests._are_equal(sums["t"], sums[name]) for name in ("t", "y", "turned", "moved")}
    assert equal == {"t": True, "y": True, "turned": False, "moved": False}


def test_outputs_are_compared_by_their_magnitude(tmp_path: Path) -> None:
    before, after = tmp_path / "before.npz", tmp_path / "after.npz"
    save_arrays(before, {"a": np.array([0.0, 4.0]), "b": np.array([1.0]), "c": np.array([1.0, 2.0])})
    save_arrays(after, {"p": np.array([1.0, 4.0]), "q": np.array([np.nan]), "r": np.array([1.0])})

    assert worker_requests.compare_outputs(before=str(before), after=str(after)) == {"errors": [0.25, -1.0, None]}


def test_what_is_not_to_be_timed_is_not_timed_in_parts(
    chain: Path, feeds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = SimpleNamespace(untimed="software imitates the adapter")
    monkeypatch.setattr(worker_requests, "_open", lambda *arguments: session)
    monkeypatch.setattr(worker_requests.operations, "import_packages", lambda **arguments: {})
    cell = "crnn/torch/torch_onnx/raw/onnxruntime/cpu/b1t1"

    with pytest.raises(ArtifactError, match="not timed: software"):
        worker_requests.open_cut(cell=cell, model=str(chain), feeds=str(feeds), outputs=None)


def test_texts_are_the_same_or_not(tmp_path: Path) -> None:
    before, after = tmp_path / "before.npz", tmp_path / "after.npz"
    save_arrays(before, {"a": np.array(["cat", "dog"]), "b": np.array(["cat"]), "c": np.array(["cat"])})
    save_arrays(after, {"a": np.array(["cat", "dog"]), "b": np.array(["sheep"]), "c": np.array([1.0])})

    assert worker_requests.compare_outputs(before=str(before), after=str(after)) == {"errors": [0.0, -1.0, None]}


def test_inputs_of_the_first_side_have_the_names_and_types_of_the_second(tmp_path: Path) -> None:
    save_arrays(tmp_path / "a.npz", {"t": np.array([1.5, 2.5], np.float32)})
    save_arrays(tmp_path / "b.npz", {"half": np.array([9, 9], np.float16), "own": np.array([7])})
    files = {"feeds": str(tmp_path / "a.npz"), "own": str(tmp_path / "b.npz"), "target": str(tmp_path / "c.npz")}

    worker_requests.same_feeds(names={"half": "t"}, **files)

    arrays = load_arrays(tmp_path / "c.npz")
    assert arrays["half"].dtype == np.float16
    assert arrays["half"].tolist() == [1.5, 2.5]
    assert arrays["own"].tolist() == [7]


def test_random_numbers_keep_shape_density_and_integers(tmp_path: Path, feeds: Path) -> None:
    weight = np.where(np.arange(3000).reshape(3, 1000) % 4 == 0, 0, 5.0).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["t"]),
        helper.make_node("Gather", ["t", "i"], ["y"], axis=1),
    ]
    path = write(tmp_path / "secret.onnx", nodes, {"w": weight, "i": np.array([2, 0, 1])})
    files = {"model": str(path), "feeds": str(feeds)}
    targets = {"target": str(tmp_path / "public.onnx"), "target_feeds": str(tmp_path / "public.npz")}

    assert worker_requests.randomize(**files, **targets) == {"num_kept": 0}

    arrays = {each.name: numpy_helper.to_array(each) for each in onnx.load(tmp_path / "public.onnx").graph.initializer}
    assert arrays["w"].shape == (3, 1000)
    assert (arrays["w"] == 0).sum() == (weight == 0).sum() == 750
    assert not np.isin(5.0, arrays["w"])
    assert (arrays["w"] >= 0).all()
    assert arrays["i"].tolist() == [2, 0, 1]
    public = load_arrays(tmp_path / "public.npz")["x"]
    assert public.shape == X.shape
    assert not np.array_equal(public, X)


def test_what_stays_the_models_own_is_counted_and_lines_of_source_do_not(tmp_path: Path, feeds: Path) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["quantized", "scale"], ["w"]),
        helper.make_node("MatMul", ["x", "w"], ["y"], doc_string="File secret.py, line 7"),
    ]
    nodes[1].metadata_props.add(key="stack_trace", value="File secret.py")
    weights = {"quantized": np.full((3, 20), 3, np.int8), "scale": np.float32(0.1)}
    path = write(tmp_path / "quantized.onnx", nodes, weights, (floats("y", 2, 20),))
    files = {"model": str(path), "feeds": str(feeds)}
    targets = {"target": str(tmp_path / "public.onnx"), "target_feeds": str(tmp_path / "public.npz")}

    answer = worker_requests.randomize(**files, **targets)

    assert answer == {"num_kept": 1}
    assert b"secret" not in (tmp_path / "public.onnx").read_bytes()


def test_scales_of_a_resize_stay_and_lists_in_attributes_are_counted(tmp_path: Path, feeds: Path) -> None:
    nodes = [
        helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="nearest"),
        helper.make_node("Constant", [], ["listed"], value_floats=[0.5] * 20),
    ]
    path = write(tmp_path / "scaled.onnx", nodes, {"scales": np.array([1.0, 2.0], np.float32)}, (floats("y", 2, 6),))
    targets = {"target": str(tmp_path / "public.onnx"), "target_feeds": str(tmp_path / "public.npz")}

    answer = worker_requests.randomize(model=str(path), feeds=str(feeds), **targets)

    assert answer == {"num_kept": 1}
    (scales,) = onnx.load(tmp_path / "public.onnx").graph.initializer
    assert numpy_helper.to_array(scales).tolist() == [1.0, 2.0]


def test_infinities_of_a_mask_stay() -> None:
    mask = np.array([0.0, -np.inf, 2.0, 3.0], np.float32)

    public = worker_requests._random_like("mask", mask)

    assert np.isneginf(public).tolist() == [False, True, False, False]
    assert np.isfinite(public[[0, 2, 3]]).all()
