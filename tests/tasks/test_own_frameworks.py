"""Users' models in PyTorch and TensorFlow: each format becomes a task that gives the model's own outputs."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.api import Task, TensorSpec
from bench.api.errors import InputError
from bench.plugins import catalog
from bench.tasks import formats
from bench.tasks.examine import examine

pytestmark = pytest.mark.framework
Examined = Callable[..., tuple[Task, dict[str, Any]]]
MODULE = """
import torch
from part import Body

def build():
    return Body()

def example_inputs():
    return {"tokens": torch.randint(0, 50, (3, 7)), "scale": torch.full((3, 7, 1), 2.0)}
"""
PART = """
import torch

class Body(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(50, 8)
        self.lstm = torch.nn.LSTM(8, 4, batch_first=True)

    def forward(self, tokens, scale):
        out, (h, _) = self.lstm(self.table(tokens) * scale)
        return {"all": out, "last": (h.transpose(0, 1), out.argmax(-1))}
"""
KERAS = """
import keras

def build():
    a, b = keras.Input((6,), name="a"), keras.Input((2,), name="b")
    both = keras.layers.Concatenate()([b, a])
    return keras.Model({"b": b, "a": a}, {"scores": keras.layers.Dense(3)(both), "both": both})

def example_inputs():
    import numpy as np

    return {"a": np.ones((2, 6), "float32"), "b": np.zeros((2, 2), "float32")}
"""


@pytest.fixture
def examined(plugin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Examined:
    """Examines a model in this process and gives its task."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "part", raising=False)

    def run(module: str, path: Path, *, trust: bool = False, **asked: Any) -> tuple[Task, dict[str, Any]]:
        folder = plugin_folder / "models" / "mine"
        folder.mkdir(parents=True)
        request = {"data": None, "dims": (), "shapes": (), **asked}
        found = examine(module=module, path=str(path), folder=str(folder), trust=trust, **request)
        catalog.forget()
        return catalog.task("mine"), found

    return run


def torch_outputs(task: Task, model: Any = None) -> tuple[np.ndarray, ...]:
    """Outputs of a task's model, or of another, for the first two test samples."""
    import torch

    tensors = [torch.from_numpy(task.samples("test").inputs[spec.name][:2]) for spec in task.inputs]
    with torch.inference_mode():
        outputs = (model or task.build("torch", task.weights_path))(*tensors)
    return tuple(output.numpy() for output in (outputs if isinstance(outputs, tuple) else (outputs,)))


def test_a_python_file_that_builds_a_module(examined: Examined, tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODULE)
    (tmp_path / "part.py").write_text(PART)
    task, _ = examined("python", path)
    assert task.sources == ("torch",)
    assert task.inputs == (
        TensorSpec(name="tokens", dtype="int64", shape=("batch", 7)),
        TensorSpec(name="scale", dtype="float32", shape=("batch", 7, 1)),
    )
    assert task.outputs == (
        TensorSpec(name="all", dtype="float32", shape=("batch", 7, 4)),
        TensorSpec(name="last_0", dtype="float32", shape=("batch", 1, 4)),
        TensorSpec(name="last_1", dtype="int64", shape=("batch", 7)),
    )
    assert {Path(file).name for file in task.made_from} == {"model.py", "part.py"}  # type: ignore[attr-defined]
    tokens = task.samples("test").inputs["tokens"]
    assert tokens.shape == (8, 7)
    assert tokens.max() > 1, "drawn from the example, which a table of 50 rows takes"
    first = torch_outputs(task)
    assert [output.shape for output in first] == [(2, 7, 4), (2, 1, 4), (2, 7)]
    again = torch_outputs(task)
    assert all(np.array_equal(*pair) for pair in zip(first, again, strict=True)), "random weights are kept"


def test_torch_script(examined: Examined, tmp_path: Path) -> None:
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Softmax(-1)).eval()
    path = tmp_path / "model.pt"
    torch.jit.save(torch.jit.script(model), str(path))
    with pytest.raises(InputError, match=r"give each, such as --shape input=1x3x224x224"):
        examined("torch_script", path, trust=True)
    (tmp_path / "plugins" / "models" / "mine").rmdir()
    task, _ = examined("torch_script", path, trust=True, shapes=("input=1x4",))
    assert task.inputs == (TensorSpec(name="input", dtype="float32", shape=("batch", 4)),)
    np.testing.assert_array_equal(torch_outputs(task)[0], torch_outputs(task, model)[0])
    assert formats.format_of(path.rename(tmp_path / "model.jit")) == "torch_script"
    assert "takes no TorchScript" in str(catalog.exporter("torch_onnx").refusal(task))
    assert catalog.exporter("torch_onnx_legacy").refusal(task) is None


def test_a_pickle_is_no_torch_script(examined: Examined, tmp_path: Path) -> None:
    import torch

    path, proof = tmp_path / "model.pt", tmp_path / "executed"
    torch.save(Evil(str(proof)), path)
    with pytest.raises(InputError, match="not TorchScript, but weights alone or a pickled module"):
        examined("torch_script", path, trust=True)
    assert not proof.exists()


class Evil:
    """Pickles as a call that makes a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


def test_torch_export(examined: Examined, tmp_path: Path) -> None:
    import torch
    from torch.export import Dim

    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3).eval()
    path = tmp_path / "model.pt2"
    dims = ({0: Dim("n"), 1: Dim("length")},)
    torch.export.save(torch.export.export(model, (torch.ones(2, 5, 4),), dynamic_shapes=dims), path)
    task, found = examined("torch_export", path, trust=True)
    (given,), (output,) = task.inputs, task.outputs
    batch, length, channels = given.shape
    assert (batch, channels, found["guessed"]) == ("batch", 4, {length: 16})
    assert output.shape == ("batch", length, 3)
    np.testing.assert_allclose(torch_outputs(task)[0], torch_outputs(task, model)[0], atol=1e-6)
    assert task.build("torch", task.weights_path).eval().train(False) is not None, "exporters call these"


def test_a_folder_of_transformers(examined: Examined, tmp_path: Path) -> None:
    import torch
    from transformers import AlbertConfig, AlbertForSequenceClassification

    config = AlbertConfig(
        vocab_size=60, embedding_size=8, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=32, num_labels=3,
    )  # fmt: skip
    model = AlbertForSequenceClassification(config).eval()
    model.save_pretrained(tmp_path / "albert")
    task, _ = examined("transformers", tmp_path / "albert", dims=("sequence=9",))
    assert [spec.name for spec in task.inputs] == ["input_ids", "attention_mask"]
    assert task.outputs == (TensorSpec(name="logits", dtype="float32", shape=("batch", 3)),)
    inputs = task.samples("test").inputs
    assert inputs["input_ids"].shape == (8, 9)
    assert 1 < inputs["input_ids"].max() < 60
    with torch.inference_mode():
        expected = model(**{name: torch.from_numpy(array[:2]) for name, array in inputs.items()}).logits.numpy()
    np.testing.assert_allclose(torch_outputs(task)[0], expected, atol=1e-6)


def tf_outputs(task: Task) -> list[np.ndarray]:
    """The same of a TensorFlow model."""
    import tensorflow as tf

    tensors = [tf.constant(task.samples("test").inputs[spec.name][:2]) for spec in task.inputs]
    return [output.numpy() for output in task.build("tf", task.weights_path)(*tensors)]


def test_a_python_file_that_builds_a_keras_model(examined: Examined, tmp_path: Path) -> None:
    path = tmp_path / "keras_model.py"
    path.write_text(KERAS)
    task, _ = examined("python", path)
    assert task.sources == ("tf",)
    assert {spec.name: spec.shape for spec in task.outputs} == {"scores": ("batch", 3), "both": ("batch", 8)}
    inputs = task.samples("test").inputs
    both = dict(zip([spec.name for spec in task.outputs], tf_outputs(task), strict=True))["both"]
    np.testing.assert_array_equal(both, np.concatenate([inputs["b"], inputs["a"]], -1)[:2])
    assert np.array_equal(tf_outputs(task)[0], tf_outputs(task)[0]), "random weights are kept"


def test_keras_files_saved_models_and_tflite(examined: Examined, plugin_folder: Path, tmp_path: Path) -> None:
    """One model in three forms: the same names, the same outputs."""
    import keras
    import tensorflow as tf

    steps, state = keras.Input((None, 4), name="steps"), keras.layers.GlobalAveragePooling1D()
    model = keras.Model(steps, keras.layers.Dense(3, name="head")(state(steps)))
    model.save(tmp_path / "model.keras")
    model.export(tmp_path / "saved", verbose=False)
    converter = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "saved"))
    (tmp_path / "model.tflite").write_bytes(converter.convert())
    for module, name in (("keras", "model.keras"), ("saved_model", "saved"), ("tflite", "model.tflite")):
        task, found = examined(module, tmp_path / name, trust=module == "saved_model")
        assert [(spec.name, spec.dtype, spec.shape[0], spec.shape[2]) for spec in task.inputs] == [
            ("steps", "float32", "batch", 4)
        ]
        assert found["guessed"] == {"steps_1": 16}
        assert [spec.shape for spec in task.outputs] == [("batch", 3)]
        inputs = task.samples("test").inputs["steps"]
        expected = model(inputs[:2]).numpy()
        if task.sources == ("tf",):
            (output,) = tf_outputs(task)
        else:
            assert task.sources == ("tflite",)
            opener = catalog.runtime("litert")
            session = opener.open(task.weights_path, task=task, source="tflite", provider="cpu", threads=1)
            (output,) = session.run({"steps": inputs[:2]})
        np.testing.assert_allclose(output, expected, atol=1e-5)
        if task.sources == ("tflite",):
            for exporter, runtime in (("tflite_onnx", "onnxruntime"), ("tflite_openvino", "openvino")):
                exported = outputs_of(task, exporter, runtime, tmp_path, {"steps": inputs[:1]})
                np.testing.assert_allclose(exported, expected[:1], atol=1e-5)
        (plugin_folder / "models").rename(plugin_folder / f"done_{module}")


def test_tflite_with_sparse_weights(examined: Examined, tmp_path: Path) -> None:
    """tf2onnx reads no sparse weights, so they are stored in full before it converts the file."""
    import keras
    import tensorflow as tf

    random = np.random.default_rng(0)
    image, layer = keras.Input((4, 4, 64), name="image"), keras.layers.Conv2D(64, 1)
    model = keras.Model(image, layer(image))
    kernel = random.normal(size=(1, 1, 64, 64)).astype(np.float32)
    layer.set_weights([np.where(random.random(kernel.shape) < 0.9, 0, kernel), np.zeros(64, np.float32)])
    model.export(tmp_path / "saved", verbose=False)
    converter = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "saved"))
    converter.optimizations = [tf.lite.Optimize.EXPERIMENTAL_SPARSITY]
    (tmp_path / "sparse.tflite").write_bytes(converter.convert())
    assert (tmp_path / "sparse.tflite").stat().st_size < kernel.nbytes / 2
    task, _ = examined("tflite", tmp_path / "sparse.tflite")
    feeds = {"image": random.normal(size=(1, 4, 4, 64)).astype(np.float32)}
    exported = outputs_of(task, "tflite_onnx", "onnxruntime", tmp_path, feeds)
    np.testing.assert_allclose(exported, model(feeds["image"]).numpy(), atol=1e-5)


def outputs_of(task: Task, exporter: str, runtime: str, folder: Path, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """The only output of a task's export on a runtime."""
    (source,) = task.sources
    artifact = folder / f"{exporter}.{catalog.exporter(exporter).format(source)}"
    catalog.exporter(exporter).export(task, source, artifact)
    opener = catalog.runtime(runtime)
    with opener.open(artifact, task=task, source=source, provider="cpu", threads=1) as session:
        (output,) = session.run(feeds)
    return output


def test_saved_model_whose_objects_cannot_be_restored(
    examined: Examined, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of an optimizer of an older Keras: the graph of the signature is enough."""
    import keras
    import tensorflow as tf

    model = keras.Sequential([keras.Input((6,), name="x"), keras.layers.Dense(4, activation="relu", name="head")])
    model.export(tmp_path / "saved", verbose=False)
    features = np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32)
    expected = model(features).numpy()

    def refuse(path: str) -> None:
        raise AttributeError("'_UserObject' object has no attribute 'add_slot'")

    monkeypatch.setattr(tf.saved_model, "load", refuse)
    task, _ = examined("saved_model", tmp_path / "saved", trust=True)
    assert [(spec.name, spec.shape) for spec in task.inputs] == [("x", ("batch", 6))]
    call = task.build("tf", task.weights_path)
    np.testing.assert_allclose(call(tf.constant(features))[0].numpy(), expected, atol=1e-6)
    assert sorted(tuple(weight.shape) for weight in call.trainable_weights) == [(4,), (6, 4)]
    for exporter, runtime in (("tf_openvino", "openvino"), ("tflite", "litert"), ("tf2onnx", "onnxruntime")):
        exported = outputs_of(task, exporter, runtime, tmp_path, {"x": features[:1]})
        np.testing.assert_allclose(exported, expected[:1], atol=1e-5)


def test_openvino_files(examined: Examined, plugin_folder: Path, tmp_path: Path) -> None:
    from bench.plugins.engines.openvino import ir

    openvino = ir.import_openvino()
    parameter = openvino.opset8.parameter([-1, 4], np.float32, name="x")
    doubled = openvino.opset8.multiply(parameter, openvino.opset8.constant(np.full((1, 4), 2, np.float32)))
    openvino.save_model(openvino.Model([doubled], [parameter], "double"), tmp_path / "double.xml")
    task, _ = examined("openvino", tmp_path / "double.xml")
    (spec,) = task.inputs
    assert (spec.dtype, spec.shape) == ("float32", ("batch", 4))
    features = np.arange(8, dtype=np.float32).reshape(2, 4)
    output = outputs_of(task, "native", "openvino", tmp_path, {spec.name: features})
    np.testing.assert_array_equal(output, 2 * features)
    (tmp_path / "double.bin").unlink()
    (plugin_folder / "models").rename(plugin_folder / "done")
    with pytest.raises(InputError, match=r"its weights, double\.bin, are not beside it"):
        examined("openvino", tmp_path / "double.xml")


def test_a_lambda_layer_takes_trust(examined: Examined, plugin_folder: Path, tmp_path: Path) -> None:
    import keras

    path = tmp_path / "model.keras"
    keras.Sequential([keras.Input((4,)), keras.layers.Lambda(lambda tensor: tensor * 2)]).save(path)
    with pytest.raises(InputError, match=r"pickled code \(a Lambda layer\); add --trust to load it"):
        examined("keras", path)
    (plugin_folder / "models").rename(plugin_folder / "refused")
    task, _ = examined("keras", path, trust=True)
    (output,) = tf_outputs(task)
    np.testing.assert_array_equal(output, 2 * task.samples("test").inputs[task.inputs[0].name][:2])


@pytest.mark.parametrize("of_functional", [True, False])
def test_a_class_that_is_not_keras_s_is_named_with_the_way_out(
    of_functional: bool, examined: Examined, tmp_path: Path
) -> None:
    import keras

    class LambdaScale(keras.layers.Layer):
        def call(self, values: Any) -> Any:
            return values * 2

    path, inputs = tmp_path / "model.keras", keras.Input((4,))
    layers = [keras.layers.Dense(3), LambdaScale()]
    if of_functional:
        keras.Model(inputs, layers[1](layers[0](inputs))).save(path)
    else:
        keras.Sequential([inputs, *layers]).save(path)
    with pytest.raises(
        InputError, match=r"it needs 'LambdaScale', which is not Keras's own .*; write a Python file that"
    ):
        examined("keras", path)


def test_a_function_that_is_not_keras_s_is_named_with_the_way_out(examined: Examined, tmp_path: Path) -> None:
    import keras

    @keras.saving.register_keras_serializable(package="test_frameworks")
    def steep(values: Any) -> Any:
        return values * 2

    path = tmp_path / "model.keras"
    keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation=steep)]).save(path)
    registered = keras.saving.get_custom_objects()
    kept = registered.pop("test_frameworks>steep")
    try:
        with pytest.raises(
            InputError, match=r"it needs '.*steep', which is not Keras's own .*; write a Python file that"
        ):
            examined("keras", path)
    finally:
        registered["test_frameworks>steep"] = kept


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (
            '"module": "keras.layers", "class_name": "Dense"',
            '"module": "keras_hub.layers", "class_name": "Mixer"',
            r"it needs 'Mixer' of keras_hub, not installed; pip install keras-hub",
        ),
        (
            '"module": "keras.layers", "class_name": "Dense"',
            '"module": "own", "class_name": "Could not deserialize class \'Mixer\' because its parent module evil_pkg '
            'cannot be imported"',
            r"it names 'Mixer' of a package evil_pkg, which is not installed$",
        ),
        (
            '"units": 3',
            '"units": 3, "gain_of_later_versions": 1.5',
            r"Keras cannot load it: .*'gain_of_later_versions'",
        ),
        ('"units": 3', '"units": -3', r"Keras cannot load it: .*positive integer.*-3"),
    ],
    ids=["a package", "a package that Keras does not know", "an argument", "a value"],
)
def test_what_keras_says_last_is_kept(before: str, after: str, says: str, examined: Examined, tmp_path: Path) -> None:
    """Its messages quote the whole configuration of the layer before they tell what is wrong with it."""
    import keras

    path, changed = tmp_path / "plain.keras", tmp_path / "model.keras"
    keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="head")]).save(path)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "config.json":
                assert before in content.decode()
                content = content.decode().replace(before, after).encode()
            new.writestr(name, content)
    with pytest.raises(InputError, match=says):
        examined("keras", changed)


def test_a_keras_file_that_was_cut_off_is_called_that(examined: Examined, tmp_path: Path) -> None:
    """Keras says of it that there is no such file."""
    import keras

    path = tmp_path / "model.keras"
    keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)]).save(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"it is no zip archive, .*: was it cut off"):
        examined("keras", path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1", r"does not define build\(\) and example_inputs\(\)"),
        ("def build(): return 3\ndef example_inputs(): return {'x': 1.0}", "returned int; it must return a torch"),
        (
            "import torch\ndef build(): return torch.nn.Linear(4, 2)\ndef example_inputs(): return torch.ones(1, 4)",
            r"example_inputs\(\) returned Tensor; it must return a dict",
        ),
        (
            "import torch\ndef build(): return torch.nn.Linear(4, 2)\n"
            "def example_inputs(): return {'x': torch.ones(1, 5)}",
            r"the model does not run on example_inputs\(\): RuntimeError: mat1 and mat2",
        ),
    ],
    ids=["nothing", "a number", "no dict", "wrong shape"],
)
def test_python_files_that_do_not_fit(text: str, says: str, examined: Examined, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(text)
    with pytest.raises(InputError, match=says):
        examined("python", tmp_path / "model.py")
