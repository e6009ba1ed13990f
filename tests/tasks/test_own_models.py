"""Options about a user's model: sizes, a data set, trust; and the one-line message of each refusal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api import UNKNOWN, Task, TensorSpec
from bench.api.arrays import save_arrays
from bench.api.errors import InputError
from bench.onnxfile.shapes import size_options
from bench.pipeline import quality, sweeps
from bench.plugins import catalog
from bench.records.lines import Quality
from bench.tasks import adopt, formats, metrics, probe
from bench.tasks.examine import examine

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
WEIGHT = np.array([[1.0, 0.0, -1.0], [0.0, 2.0, 0.0]], np.float32)
Examined = Callable[..., tuple[Task, dict[str, Any]]]


def linear() -> onnx.ModelProto:
    """scores (batch, steps, 3) = x (batch, steps, 2) @ WEIGHT, and the class of each step."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["classes"], axis=-1, keepdims=0),
    ]
    return model_of(
        nodes,
        [("x", FLOAT, ["batch", "steps", 2])],
        [("scores", FLOAT, ["batch", "steps", 3]), ("classes", INT64, ["batch", "steps"])],
        {"w": WEIGHT},
    )


def model_of(nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: dict[str, Any]) -> onnx.ModelProto:
    sides = [[helper.make_tensor_value_info(*value) for value in side] for side in (inputs, outputs)]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(helper.make_graph(nodes, "graph", *sides, tensors), opset_imports=opsets, ir_version=10)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "linear.onnx"
    found.write_bytes(linear().SerializeToString())
    return found


@pytest.fixture
def examined(plugin_folder: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> Examined:
    """Examines a model in this process and gives its task."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "names", raising=False)

    def run(model: onnx.ModelProto | None = None, data: Path | None = None, **said: Any) -> tuple[Task, dict[str, Any]]:
        if model is not None:
            path.write_bytes(model.SerializeToString())
        folder = plugin_folder / "models" / "mine"
        folder.mkdir(parents=True)
        request = {"dims": (), "shapes": (), "trust": False, **said}
        place = None if data is None else str(data)
        found = examine(module="onnx", path=str(path), folder=str(folder), data=place, **request)
        catalog.forget()
        return catalog.task("mine"), found

    return run


@pytest.mark.parametrize(
    ("said", "guessed", "steps"),
    [
        ({}, {"steps": 16}, 16),
        ({"dims": ("steps=5",)}, {}, 5),
        ({"shapes": ("x=1x7x2",)}, {}, 7),
    ],
)
def test_sizes_are_asked_for_or_guessed(said: Any, guessed: Any, steps: int, examined: Examined) -> None:
    task, found = examined(**said)
    assert found["guessed"] == guessed
    assert task.samples("test").inputs["x"].shape == (8, steps, 2)
    assert [spec.shape for spec in task.outputs] == [("batch", "steps", 3), ("batch", "steps")]


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"dims": ("height=5",)}, "no dynamic dimension 'height'; its dynamic dimensions: batch, steps"),
        ({"shapes": ("y=1x2",)}, "no input 'y'; its inputs: x"),
        ({"shapes": ("x=1x7x3",)}, "input 'x' is batchxstepsx2, not 1x7x3"),
        ({"shapes": ("x=1x7",)}, "input 'x' is batchxstepsx2, not 1x7"),
        ({"dims": ("steps=-1",)}, "not a size of a dimension: 'steps=-1'; write --dim height=224"),
        ({"shapes": ("x=1xbig",)}, "not a shape of an input: 'x=1xbig'"),
        ({"shapes": ("x=1x2:text",)}, "not a shape of an input: 'x=1x2:text'"),
    ],
)
def test_sizes_that_are_not_the_models(said: Any, says: str, examined: Examined) -> None:
    with pytest.raises(InputError, match=says):
        examined(**said)


def test_a_size_that_runs_is_looked_for(examined: Examined) -> None:
    """At least 100 steps in a row, as a window of audio: the first guess is too short."""
    nodes = [helper.make_node("Slice", ["x", "start", "end"], ["y"]), helper.make_node("Reshape", ["y", "s"], ["z"])]
    constants = {"start": np.array([0, 0]), "end": np.array([9999, 100]), "s": np.array([-1, 4, 25])}
    shapes = [("x", FLOAT, ["batch", "samples"])], [("z", FLOAT, ["batch", 4, 25])]
    task, found = examined(model_of(nodes, *shapes, constants))
    assert found["guessed"] == {"samples": 112}
    assert task.batched


def test_scores_take_the_place_of_a_classifiers_dicts(examined: Examined) -> None:
    zip_map = helper.make_node("ZipMap", ["scores"], ["dicts"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2])
    model = linear()
    model.graph.node.append(zip_map)
    model.graph.output[0].CopyFrom(helper.make_value_info("dicts", onnx.TypeProto()))
    model.graph.output[0].type.sequence_type.elem_type.map_type.key_type = INT64
    task, found = examined(model)
    assert found["notes"] == ["output 'dicts' is a dict for each sample; 'scores', its scores, is in its place"]
    assert task.outputs[0] == TensorSpec(name="scores", dtype="float32", shape=("batch", "steps", 3))
    whole = onnx.load(task.weights_path)
    assert [value.name for value in whole.graph.output] == ["scores", "classes"]
    assert "ZipMap" not in {node.op_type for node in whole.graph.node}


def data(samples: int = 10) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(0).standard_normal((samples, 6, 2), dtype=np.float32)}


def judged(task: Task) -> Quality:
    """What is said of the model's own outputs for the test samples, one of them wrong."""
    samples = task.samples("test")
    scores = samples.inputs["x"] @ WEIGHT
    outputs = {"scores": scores.copy(), "classes": scores.argmax(-1)}
    outputs["scores"][0, 0] = np.roll(scores[0, 0], 1)
    outputs["classes"][0, 0] = outputs["scores"][0, 0].argmax()
    return quality.judge(task, samples, outputs, {"scores": scores, "classes": scores.argmax(-1)})


def test_a_data_set_of_inputs_alone(examined: Examined, tmp_path: Path) -> None:
    save_arrays(tmp_path / "data.npz", data())
    task, found = examined(data=tmp_path / "data.npz")
    assert not found["guessed"], "the data set has the sizes"
    test, train = task.samples("test"), task.samples("train")
    np.testing.assert_array_equal(test.inputs["x"], data()["x"][[1, 2, 3, 4, 6, 7, 8, 9]])
    np.testing.assert_array_equal(train.inputs["x"], data()["x"][[0, 5]])
    assert (test.targets, judged(task).metric_name) == (None, "snr_db")


def test_classes_are_judged_by_accuracy(examined: Examined, tmp_path: Path) -> None:
    right = (data()["x"] @ WEIGHT).argmax(-1)
    save_arrays(tmp_path / "data.npz", {**data(), "targets": right})
    task, _ = examined(data=tmp_path / "data.npz")
    found = judged(task)
    assert (found.metric_name, found.higher_is_better) == ("accuracy", True)
    assert found.metrics["accuracy"] == pytest.approx(47 / 48)
    assert found.loss == pytest.approx(1 / 48)
    assert found.metric_loss == pytest.approx(1 / 48)


def test_values_are_judged_by_their_error(examined: Examined, tmp_path: Path) -> None:
    right = data()["x"] @ WEIGHT + 0.5
    save_arrays(tmp_path / "data.npz", {**data(), "targets": right})
    task, _ = examined(data=tmp_path / "data.npz")
    samples = task.samples("test")
    assert (task.metric_name, task.higher_is_better) == ("rmse", False)
    assert samples.targets is not None
    assert task.metrics({"scores": samples.inputs["x"] @ WEIGHT}, samples.targets) == {"rmse": pytest.approx(0.5)}


def test_a_folder_of_samples(examined: Examined, tmp_path: Path) -> None:
    folder = tmp_path / "samples"
    folder.mkdir()
    for place, sample in enumerate(data(7)["x"]):
        np.save(folder / f"{place}.npy", sample)
    task, _ = examined(data=folder)
    np.testing.assert_array_equal(task.samples("test").inputs["x"], data(7)["x"][[1, 2, 3, 4, 6]])


PYTHON = """
import numpy as np
from names import METRIC as metric_name

higher_is_better = False

def samples(split):
    count = {"test": 3, "train": 2}[split]
    return {"x": np.ones((count, 4, 2))}, ["right"] * count

def metrics(outputs, targets):
    return {metric_name: float(len(targets)), "mean": outputs["scores"].mean()}
"""


def test_a_python_file_of_samples_and_metrics(examined: Examined, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PYTHON.replace("np.ones((count, 4, 2))", "np.ones((count, 4, 2), 'float32')"))
    (tmp_path / "names.py").write_text("METRIC = 'mistakes'\n")
    task, _ = examined(data=tmp_path / "mine.py")
    assert isinstance(task, metrics.OwnMetrics)
    assert (task.metric_name, task.higher_is_better) == ("mistakes", False)
    assert {Path(file).name for file in task.made_from} == {"mine.py", "names.py"}
    assert task.samples("train").inputs["x"].shape == (2, 4, 2)
    samples = task.samples("test")
    scores = samples.inputs["x"] @ WEIGHT
    found = quality.judge(task, samples, {"scores": scores}, {"scores": scores})
    assert found.metrics == {"mistakes": 3.0, "mean": pytest.approx(2 / 3)}
    assert found.loss is None


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        (
            {"y": np.ones((4, 6, 2), np.float32)},
            r"has the inputs y; the model has x \(give the arrays the model's names, as numpy\.savez\(FILE, x=\.\.\.\)",
        ),
        ({"x": np.ones((4, 6, 3), np.float32)}, r"x has shape \(4, 6, 3\); the model takes \(samples, steps, 2\)"),
        ({"x": np.ones((4, 6, 2), np.int64)}, "x holds int64; the model takes float32"),
        ({**data(4), "targets": np.zeros((3, 6), np.int64)}, r"targets has shape \(3, 6\); there are 4 samples"),
        ({**data(4), "targets": np.zeros((4, 5), np.int64)}, r"targets of shape \(4, 5\) and int64 fit no output"),
        ({"targets": np.zeros(4)}, "has no inputs; the model has x"),
    ],
)
def test_data_sets_that_do_not_fit(arrays: Any, says: str, examined: Examined, tmp_path: Path) -> None:
    save_arrays(tmp_path / "data.npz", arrays)
    with pytest.raises(InputError, match=says):
        examined(data=tmp_path / "data.npz")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1", "does not define samples, metrics, metric_name; --dataset takes"),
        (
            PYTHON.replace("from names import METRIC as metric_name", "metric_name = 3"),
            "x holds float64|must be a text",
        ),
        (PYTHON.replace('["right"] * count', "1, 2"), "must return two things: a dict"),
        (PYTHON.replace("count\n\ndef", "0\n\ndef"), "has 3 samples and 0 targets"),
    ],
    ids=["nothing", "metric", "no dict", "targets"],
)
def test_python_files_that_are_no_data_set(text: str, says: str, examined: Examined, tmp_path: Path) -> None:
    (tmp_path / "names.py").write_text("METRIC = 'mistakes'\n")
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(InputError, match=says):
        examined(data=tmp_path / "mine.py")


def test_arrays_with_pickles_are_refused(examined: Examined, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.array([{}], dtype=object))
    with pytest.raises(InputError, match=r"data\.npz: its array 'x' holds Python objects; save numbers"):
        examined(data=tmp_path / "data.npz")


@pytest.mark.parametrize("name", ["model.pt", "model.pth", "model.pt2", "saved"])
def test_what_holds_code_is_not_opened_without_trust(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if "." in name:
        path.write_bytes(b"x")
    else:
        path.mkdir()
        (path / "saved_model.pb").write_bytes(b"x")
    with pytest.raises(InputError, match=r"holds .*; add --trust to load it"):
        adopt.adopt(path)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (
            [],
            r"no task\.py, saved_model\.pb, modules\.json or config\.json in .*; --model takes a .*, an \.onnx file",
        ),
        (
            ["config.json", "tf_model.h5"],
            r"no \.safetensors and no pytorch_model\.bin in .*; save the model there by save_pre",
        ),
    ],
)
def test_folders_that_are_no_model(files: list[str], says: str, tmp_path: Path) -> None:
    for name in files:
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(InputError, match=says):
        formats.format_of(tmp_path)


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (["config.json", "model.safetensors"], "transformers"),
        (["config.json", "pytorch_model.bin"], "transformers"),
        (["config.json", "model.safetensors", "modules.json"], "sentence_transformers"),
    ],
)
def test_folders_of_transformers(files: list[str], name: str, tmp_path: Path) -> None:
    for file in files:
        (tmp_path / file).write_bytes(b"x")
    assert formats.format_of(tmp_path) == name


@pytest.mark.parametrize(
    ("name", "says"), [("missing.npz", "no such file or folder"), ("data.csv", "of no kind that can be read")]
)
def test_data_sets_of_no_kind(name: str, says: str, path: Path, tmp_path: Path, plugin_folder: Path) -> None:
    (tmp_path / "data.csv").write_text("1,2\n")
    with pytest.raises(InputError, match=says):
        adopt.adopt(path, adopt.Options(dataset=tmp_path / name))


def test_a_data_set_goes_with_the_task(path: Path, tmp_path: Path, plugin_folder: Path) -> None:
    """The whole way, by a worker: another data set is another task, the same one is the same."""
    places = []
    for seed in (1, 2, 2):
        arrays = {"x": np.random.default_rng(seed).standard_normal((4, 6, 2), dtype=np.float32)}
        save_arrays(tmp_path / "data.npz", arrays)
        adopted = adopt.adopt(path, adopt.Options(dataset=tmp_path / "data.npz"))
        assert adopted == adopt.Adopted(name="linear")
        places.append(catalog.task("linear").path)
        np.testing.assert_array_equal(catalog.task("linear").samples("test").inputs["x"], arrays["x"][1:])
    assert places[0] != places[1] == places[2]


def test_outputs_that_follow_the_batch_make_it_one() -> None:
    def run(feeds: Any) -> dict[str, np.ndarray]:
        return {"y": feeds["x"].sum(1), "all": feeds["x"].T}

    example = {"x": np.ones((1, 3), np.float32)}
    assert not probe.from_example(run, example).batched, "an output has the samples along another axis"
    found = probe.from_example(lambda feeds: {"y": run(feeds)["y"]}, example)
    assert (found.batched, found.inputs[0].shape, found.outputs[0].shape) == (True, ("batch", 3), ("batch",))


def test_an_output_of_windows_that_move_by_several_elements_has_no_fixed_size() -> None:
    """One more sample makes no further window."""
    inputs = probe.specs_of([("wave", "float32", [None, None])])

    def run(feeds: Any) -> Any:
        return {"frames": feeds["wave"][:, ::4], "wave": feeds["wave"], "mean": feeds["wave"].mean(1, keepdims=True)}

    found = probe.from_specs(run, inputs, {"wave": np.ones((1, 10), np.float32)})
    shapes = {spec.name: spec.shape for spec in found.outputs}
    assert shapes == {"frames": ("batch", UNKNOWN), "wave": ("batch", "wave_1"), "mean": ("batch", 1)}


def test_dtypes_of_shapes_that_are_asked_for() -> None:
    found = size_options.shapes_from(["x=1x3", "tokens=2x16:int64", "rate="])
    assert found == {
        "x": size_options.GivenShape(sizes=(1, 3), dtype=None),
        "tokens": size_options.GivenShape(sizes=(2, 16), dtype="int64"),
        "rate": size_options.GivenShape(sizes=(), dtype=None),
    }


CLOSED = """
from bench.tasks.user_task import OwnTask


class Closed(OwnTask):
    sources = ("torch",)
    inputs = outputs = ()
    closed_to = {"torch.export": "it is closed"}
"""


def test_variants_follow_an_exporter_that_takes_the_model(plugin_folder: Path) -> None:
    (plugin_folder / "models" / "closed").mkdir(parents=True)
    (plugin_folder / "models" / "closed" / "task.py").write_text(CLOSED)
    catalog.forget()
    cells = [cell for cell in sweeps.full() if str(cell.task) == "closed"]
    assert {str(cell.exporter) for cell in cells if cell.variant == "onnxsim"} == {"torch_onnx_legacy"}
    (plain,) = [cell for cell in cells if (str(cell.exporter), cell.threads) == ("torch_onnx", 1)]
    assert plain.variant == "raw"
    if catalog.exporter("torch_onnx").skip() is None:
        assert catalog.skip_reason(plain) == "torch_onnx: it is closed"


def test_the_parent_can_load_every_task_without_its_framework() -> None:
    modules = [path.stem for path in Path(formats.__file__).parent.glob("[!_]*.py")]
    assert len(modules) > 7
    code = f"""
import importlib, sys
for name in {sorted(modules)!r}:
    importlib.import_module("bench.tasks.formats." + name)
frameworks = {{"torch", "tensorflow", "keras", "transformers", "onnx", "onnxruntime", "sklearn", "xgboost", "lightgbm"}}
print(sorted(frameworks & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
