"""A user's ONNX model: the interface that is read from its file, the files that are refused, and its task."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api import UNKNOWN, Task, TensorSpec
from bench.api.errors import InputError
from bench.onnxfile.file import foreign
from bench.onnxfile.shapes.feeds import sample_feeds
from bench.pipeline import quality
from bench.plugins import catalog
from bench.tasks import adopt
from bench.tasks.formats import onnx as onnx_file
from bench.tasks.formats.onnx import OnnxTask
from bench.tasks.options import Asked, Found

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Value = tuple[str, int, Any]


def make_model(
    inputs: list[Value],
    outputs: list[Value],
    nodes: list[onnx.NodeProto],
    weights: list[onnx.TensorProto] | None = None,
) -> onnx.ModelProto:
    values = [[helper.make_tensor_value_info(*value) for value in side] for side in (inputs, outputs)]
    graph = helper.make_graph(nodes, "graph", *values, weights or [])
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)], ir_version=10
    )


def relu(shape: Any, output: Any = None, kind: int = FLOAT) -> onnx.ModelProto:
    node = helper.make_node("Relu", ["x"], ["y"])
    return make_model([("x", kind, shape)], [("y", kind, output or shape)], [node])


def save(model: onnx.ModelProto, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def examined(model: onnx.ModelProto, folder: Path, **asked: Any) -> Found:
    (folder / "task").mkdir()
    return onnx_file.examine(save(model, folder / "model.onnx"), folder / "task", Asked(**asked))


def task_of(inputs: list[tuple[str, str, tuple[int | str, ...]]], **fields: Any) -> Task:
    specs = tuple(TensorSpec(name=name, dtype=dtype, shape=shape) for name, dtype, shape in inputs)
    outputs = (TensorSpec(name="y", dtype="float32", shape=("batch", 2)),)
    kind = type("OwnModel", (OnnxTask,), {"inputs": specs, "outputs": outputs, **fields})
    task: Task = kind(name="mine", path=Path("models/mine/task.py"))
    return task


@pytest.mark.parametrize(
    ("shape", "output", "batched", "sizes"),
    [
        (["batch", 8], ["batch", 8], True, {}),
        ([1, 3, 8, 8], [1, 3, 8, 8], True, {}),
        ([4, 8], [4, 8], False, {}),
        ([], [], False, {}),
        (["N", "seq", 8], ["N", "seq", 8], True, {"seq": 16}),
        (["seq", "batch", 8], ["seq", "batch", 8], False, {"seq": 16, "batch": 1}),
        (["n", 3, "height", "width"], ["n", 3, "height", "width"], True, {"height": 224, "width": 224}),
        ([None, None], [None, None], True, {"x_1": 16}),
        ([None, 3, None, None], ["unk__1", 3, "unk__2", "unk__3"], True, {"x_2": 224, "x_3": 224}),
        (["?", 3, "?"], ["?", 3, "?"], True, {"x_2": 16}),
    ],
)
def test_batch_and_guessed_sizes(shape: Any, output: Any, batched: bool, sizes: dict[str, int], tmp_path: Path) -> None:
    found = examined(relu(shape, output), tmp_path)
    assert (found.batched, found.sizes, set(found.guessed)) == (batched, sizes, set(sizes))
    assert found.outputs[0].shape == found.inputs[0].shape, "inference tells that they are the same"


def test_outputs_are_one_request_when_their_first_axis_is_not_the_batch(tmp_path: Path) -> None:
    node = helper.make_node("NonZero", ["x"], ["y"])
    model = make_model([("x", FLOAT, ["batch", 8])], [("y", INT64, [2, "found"])], [node])
    found = examined(model, tmp_path)
    assert found.outputs == (TensorSpec(name="y", dtype="int64", shape=(2, UNKNOWN)),)
    assert not found.batched
    assert found.sizes == {"batch": 1}


def test_weights_that_are_listed_as_inputs_are_no_inputs(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.ones(8, dtype=np.float32), "w")
    node = helper.make_node("Mul", ["x", "w"], ["y"])
    model = make_model([("x", FLOAT, ["b", 8]), ("w", FLOAT, [8])], [("y", FLOAT, ["b", 8])], [node], [weight])
    found = foreign.inspect(save(model, tmp_path / "model.onnx"))
    assert [spec["name"] for spec in found["inputs"]] == ["x"]


def without_outputs() -> onnx.ModelProto:
    model = relu(["batch", 8])
    del model.graph.output[:]
    return model


def without_rank() -> onnx.ModelProto:
    model = relu(["batch", 8])
    model.graph.input[0].type.tensor_type.ClearField("shape")
    return model


def with_sequence() -> onnx.ModelProto:
    model = relu(["batch", 8])
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    model.graph.output[0].type.CopyFrom(kind)
    return model


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (
            relu(["batch", 8], kind=TensorProto.COMPLEX64),
            "input 'x' holds complex64; only real numbers, bools and strings",
        ),
        (with_sequence(), r"output 'y' is not a tensor \(sequence\)"),
        (without_outputs(), "it has no outputs"),
        (make_model([], [("y", FLOAT, [1])], [helper.make_node("RandomNormal", [], ["y"], shape=[1])]), "no inputs"),
        (without_rank(), "an input has no shape"),
        (
            make_model([("a\nb", FLOAT, [1])], [("y", FLOAT, [1])], [helper.make_node("Relu", ["a\nb"], ["y"])]),
            r"input 'a\\nb' has no name that can be printed",
        ),
        (onnx.ModelProto(), "no graph or no opset"),
    ],
)
def test_models_that_cannot_be_fed_or_compared(model: onnx.ModelProto, says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=says) as caught:
        foreign.inspect(save(model, tmp_path / "model.onnx"))
    assert "\n" not in str(caught.value)


def with_external(location: str, *, in_constant: bool = False) -> onnx.ModelProto:
    """y = x * w + x * w, with w = 0..7 in another file at offset 4."""
    weight = numpy_helper.from_array(np.arange(8, dtype=np.float32), "w")
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": "4", "length": "32"}.items():
        weight.external_data.add(key=key, value=value)
    nodes = [helper.make_node("Mul", ["x", "w"], ["y"])]
    if in_constant:
        nodes.insert(0, helper.make_node("Constant", [], ["w"], value=weight))
    return make_model(
        [("x", FLOAT, ["batch", 8])], [("y", FLOAT, ["batch", 8])], nodes, [] if in_constant else [weight]
    )


def data_file(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"skip" + np.arange(8, dtype=np.float32).tobytes())
    return path


@pytest.mark.parametrize("in_constant", [False, True])
def test_external_data_become_part_of_the_file(in_constant: bool, tmp_path: Path) -> None:
    data = data_file(tmp_path / "parts" / "w.bin")
    path = save(with_external("parts/w.bin", in_constant=in_constant), tmp_path / "model.onnx")
    assert foreign.inspect(path)["data"] == [str(data)]
    foreign.write(path, tmp_path / "whole.onnx")
    model = onnx.load(tmp_path / "whole.onnx", load_external_data=False)
    weight = model.graph.node[0].attribute[0].t if in_constant else model.graph.initializer[0]
    assert weight.data_location == TensorProto.DEFAULT
    assert numpy_helper.to_array(weight).tolist() == list(range(8))


@pytest.mark.parametrize(
    ("location", "says"),
    [
        ("../outside.bin", "lie outside its folder"),
        ("/etc/hostname", "lie outside its folder"),
        ("link.bin", "lie outside its folder"),
        ("linked/outside.bin", "lie outside its folder"),
        ("missing.bin", "'missing.bin' are not in its folder"),
        ("", "'' are not in its folder"),
        ("*/_ORT_MEM_ADDR_/*", "are not in its folder"),  # ONNX Runtime takes it for an address in its memory
    ],
)
@pytest.mark.parametrize("in_constant", [False, True])
def test_external_data_elsewhere_are_refused(location: str, says: str, in_constant: bool, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    data_file(tmp_path / "outside.bin")
    (home / "link.bin").symlink_to(tmp_path / "outside.bin")
    (home / "linked").symlink_to(tmp_path)
    path = save(with_external(location, in_constant=in_constant), home / "model.onnx")
    for refusal in (lambda: foreign.inspect(path), lambda: foreign.write(path, tmp_path / "whole.onnx")):
        with pytest.raises(InputError, match=says):
            refusal()
    assert not (tmp_path / "whole.onnx").exists()


def test_little_of_a_large_data_file_fits_into_one_file(tmp_path: Path) -> None:
    with data_file(tmp_path / "w.bin").open("r+b") as file:
        file.truncate(2**31)  # a hole, not bytes
    foreign.write(save(with_external("w.bin"), tmp_path / "model.onnx"), tmp_path / "whole.onnx")
    assert (tmp_path / "whole.onnx").stat().st_size < 1000


def test_a_file_becomes_a_task(plugin_folder: Path, tmp_path: Path) -> None:
    hostile = 'x\'"""{0}\\'  # to leave the text of the task, if it could
    node = helper.make_node("Mul", [hostile, "w"], ["file"])
    model = with_external("w.bin")
    model.graph.node[0].CopyFrom(node)
    model.graph.input[0].name, model.graph.output[0].name = hostile, "file"
    data_file(tmp_path / "w.bin")
    path = save(model, tmp_path / "my model (1).onnx")
    before = os.environ["BENCH_PATH"]
    name = adopt.adopt(path).name
    assert name == "my_model_1"
    task = catalog.task(name)
    assert task.inputs == (TensorSpec(name=hostile, dtype="float32", shape=("batch", 8)),)
    assert task.outputs == (TensorSpec(name="file", dtype="float32", shape=("batch", 8)),)
    whole = onnx.load(task.weights_path, load_external_data=False)
    assert numpy_helper.to_array(whole.graph.initializer[0]).tolist() == list(range(8))
    assert os.environ["BENCH_PATH"].endswith(os.pathsep + before), "children look there, too"
    assert (adopt.adopt(path).name, catalog.task(name).path) == (name, task.path)
    data_file(tmp_path / "w.bin").write_bytes(b"skip" + bytes(32))
    adopt.adopt(path)
    assert catalog.task(name).path != task.path, "other external data are another model"


def test_a_file_is_copied_byte_for_byte_and_never_read_by_the_parent(plugin_folder: Path, tmp_path: Path) -> None:
    path = save(relu(["batch", 8]), tmp_path / "model.onnx")
    code = f"""
import sys
from pathlib import Path
from bench.plugins import catalog
from bench.tasks import adopt
print(catalog.task(adopt.adopt(Path({str(path)!r})).name).weights_path, "onnx" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    copy, parsed = done.stdout.split()
    assert Path(copy).read_bytes() == path.read_bytes()
    assert parsed == "False"


def test_samples_are_the_same_every_time_and_safe_as_indices() -> None:
    task = task_of(
        [
            ("tokens", "int64", ("batch", "seq")),
            ("image", "uint8", ("batch", 3)),
            ("mask", "bool", ("batch", "seq")),
            ("half", "float16", ("batch", 2)),
        ],
        sizes={"seq": 5},
    )
    test, train = task.samples("test"), task.samples("train")
    assert {name: (array.dtype.name, array.shape) for name, array in test.inputs.items()} == {
        "tokens": ("int64", (8, 5)),
        "image": ("uint8", (8, 3)),
        "mask": ("bool", (8, 5)),
        "half": ("float16", (8, 2)),
    }
    assert set(test.inputs["tokens"].ravel()) == {0, 1}
    assert test.inputs["image"].max() > 1
    assert test.num_samples == 8
    again = task.samples("test").inputs
    assert all(np.array_equal(again[name], array) for name, array in test.inputs.items())
    assert not np.array_equal(train.inputs["half"], test.inputs["half"])


def test_samples_of_a_whole_request_have_one_axis_more() -> None:
    task = task_of([("x", "float32", (4, "seq")), ("rate", "int64", ())], batched=False, sizes={"seq": 3})
    inputs = task.samples("test").inputs
    assert {name: array.shape for name, array in inputs.items()} == {"x": (8, 4, 3), "rate": (8,)}
    feeds = sample_feeds(task, inputs, 1)
    np.testing.assert_array_equal(feeds["x"], inputs["x"][1])
    assert (type(feeds["rate"]), feeds["rate"].shape) == (np.ndarray, ())


def test_train_samples_of_a_model_for_one_fit_it() -> None:
    task = task_of([("x", "float32", (1, 3))])
    assert task.samples("train").inputs["x"][:2].shape == (1, 3)


@pytest.mark.parametrize(
    ("noise", "snr_db", "fidelity"),
    [(0.0, 120.0, "exact"), (1e-6, 120.0, "close"), (0.01, 40.0, "drifted"), (0.5, 6.0206, "broken")],
)
def test_verdicts_by_signal_to_noise(noise: float, snr_db: float, fidelity: str) -> None:
    task = task_of([("x", "float32", ("batch", 2))])
    expected = {"y": np.ones((8, 2))}
    judged = quality.judge(task, task.samples("test"), {"y": expected["y"] + noise}, expected)
    assert judged.fidelity == fidelity
    assert judged.metrics["snr_db"] == pytest.approx(snr_db, abs=1e-3)
    assert judged.loss == pytest.approx(noise**2)


@pytest.mark.parametrize(
    ("output", "expected", "snr_db"),
    [
        (np.array([[7, 1, 2, 3, 4, 5, 6, 8, 9, 900]]), np.array([[7, 1, 2, 3, 4, 5, 6, 8, 9, 0]]), 10.0),
        (np.array([[True, False]]), np.array([[True, True]]), 3.0103),
        (np.array([[1.0]]), np.array([[0.0]]), -120.0),
        (np.array([[1e300, 0.0]]), np.array([[1e300, 1e299]]), 20.0432),
        (np.zeros((1, 0)), np.zeros((1, 0)), 120.0),
    ],
    ids=["integers", "bools", "no signal", "no overflow", "empty"],
)
def test_signal_to_noise(output: np.ndarray, expected: np.ndarray, snr_db: float) -> None:
    same = np.ones((1, 2))
    metrics = task_of([]).metrics({"y": output, "z": same}, [{"y": expected[0], "z": same[0]}])
    assert metrics == {"snr_db": pytest.approx(snr_db, abs=1e-3)}


def test_a_figure_that_is_not_finite_is_none() -> None:
    task = task_of([("x", "float32", ("batch", 2))])
    expected = {"y": np.full((8, 2), 1e300)}
    judged = quality.judge(task, task.samples("test"), {"y": -expected["y"]}, expected)
    assert judged.loss is None, "JSON has no infinity"
    assert judged.fidelity == "broken"


def test_file_that_contradicts_itself_is_mended_and_kept(tmp_path: Path) -> None:
    nodes = [helper.make_node("ReduceMax", ["x"], ["h"]), helper.make_node("Mul", ["x", "h"], ["y"])]
    model = make_model([("x", FLOAT, ["batch", 8])], [("y", FLOAT, ["batch", 8])], nodes)
    model.graph.value_info.append(helper.make_tensor_value_info("h", INT64, [1, 1]))
    found = examined(model, tmp_path)
    assert found.outputs == (TensorSpec(name="y", dtype="float32", shape=("batch", 8)),)
    assert found.attributes == {"sources": ("onnx", "as_is")}
    (note,) = found.notes
    assert note.startswith("ONNX Runtime refuses the file as it is (")
    assert note.endswith("and were dropped: 'h' is int64 of 1x1, not float of 1x1")
    assert (tmp_path / "task" / OnnxTask.original).read_bytes() == model.SerializeToString()
    task: Any = OnnxTask(name="mine", path=tmp_path / "task" / "task.py")
    assert task.native_path("onnx") == tmp_path / "task" / "model.onnx"
    assert task.native_path("as_is") == tmp_path / "task" / "original.onnx"


def test_an_output_without_a_shape_gets_open_sizes(tmp_path: Path) -> None:
    """onnxsim takes no output whose shape is not stated; that of one number has no sizes."""
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
        helper.make_node("ReduceSum", ["x"], ["z"], keepdims=0),
    ]
    shape = numpy_helper.from_array(np.array([-1, 4], dtype=np.int64), "shape")
    found = examined(
        make_model([("x", FLOAT, [8])], [("y", FLOAT, None), ("z", FLOAT, None)], nodes, [shape]), tmp_path
    )
    assert {spec.name: spec.shape for spec in found.outputs} == {"y": (2, 4), "z": ()}
    copy = onnx.load(tmp_path / "task" / "model.onnx")
    shapes = {value.name: value.type.tensor_type.shape for value in copy.graph.output}
    assert all(value.type.tensor_type.HasField("shape") for value in copy.graph.output)
    assert {name: len(shape.dim) for name, shape in shapes.items()} == {"y": 2, "z": 0}


def test_a_model_whose_outputs_lose_an_axis_with_one_sample_is_fed_one(tmp_path: Path) -> None:
    nodes = [helper.make_node("ReduceSum", ["x", "axes"], ["sum"]), helper.make_node("Squeeze", ["sum"], ["y"])]
    axes = numpy_helper.from_array(np.array([1], dtype=np.int64), "axes")
    found = examined(make_model([("x", FLOAT, ["batch", 4])], [("y", FLOAT, [])], nodes, [axes]), tmp_path)
    assert found.sizes == {"batch": 1}
    assert found.outputs[0].shape == ()
    assert not found.batched


def test_size_that_the_nodes_require_is_found_and_told(tmp_path: Path) -> None:
    """Rows of 48, where the name of the dimension would let 16 be guessed."""
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="mix")
    weight = numpy_helper.from_array(np.ones((48, 4), dtype=np.float32), "w")
    found = examined(make_model([("x", FLOAT, ["n", "k"])], [("y", FLOAT, ["n", 4])], [node], [weight]), tmp_path)
    assert (found.sizes, found.guessed) == ({"k": 48}, {"k": 48})
    (note,) = (note for note in found.notes if "k is" in note)
    assert note.startswith("k is 48 and not 16: node 'mix' (MatMul) ")


def test_stated_rank_and_sizes_give_way_to_those_of_a_run(tmp_path: Path) -> None:
    """ONNX Runtime only warns of an output whose rank is not the stated one."""
    shape = numpy_helper.from_array(np.array([1, -1, 4], dtype=np.int64), "shape")
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    made = make_model([("x", FLOAT, ["batch", 8])], [("y", FLOAT, ["length", "found"])], [node], [shape])
    found = examined(made, tmp_path)
    assert found.outputs[0].shape == (1, UNKNOWN, 4)
    (note,) = (note for note in found.notes if "states" in note)
    assert note == (
        "output 'y' is 1x?x4 when the file runs, and the file states ?x?; measured is a copy that leaves its sizes open"
    )
    copy = onnx.load(tmp_path / "task" / "model.onnx")
    (output,) = copy.graph.output
    assert [dim.WhichOneof("value") for dim in output.type.tensor_type.shape.dim] == [None, None, None]
