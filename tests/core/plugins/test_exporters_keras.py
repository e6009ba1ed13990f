"""Keras's own exporters: what they cannot take is refused, and a file that does not open is no artifact.

Each export runs in a process of its own, because Keras has one backend in a process.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bench.api.errors import ArtifactError
from bench.plugins import catalog
from support import engine_child

TASK = '''"""A task of one layer or two."""

from bench.api import Task, TensorSpec
from bench.api.errors import InputError


class Small(Task):
    """Vectors."""

    sources = ("tf",)
    inputs = (TensorSpec(name="x", dtype="float32", shape=("batch", 2)),)
    outputs = (TensorSpec(name="y", dtype="float32", shape=("batch", 2)),)
    weights = "weights.txt"
    metric_name = "accuracy"
    max_metric_loss = 0.1

    def build(self, source, weights):
        return self.module("tf_model").build()

    def samples(self, split):
        raise InputError("there are none")

    def loss(self, outputs, targets):
        return 0.0

    def metrics(self, outputs, targets):
        return {"accuracy": 1.0}
'''
NORMALIZED = """
import keras
import numpy as np


class Normalized(keras.Model):
    def __init__(self):
        super().__init__()
        self.layer = keras.layers.LayerNormalization(epsilon=1e-3, gamma_initializer=keras.initializers.Constant(2.0))
        self.root = keras.layers.RMSNormalization(epsilon=1e-3)

    def call(self, x):
        return self.layer(x) + self.root(x)


def build():
    model = Normalized()
    model(np.ones((1, 2), np.float32))
    return model
"""
DOTTED = """
import keras
import numpy as np


def dense(name, factor):
    return keras.layers.Dense(2, name=name, kernel_initializer=keras.initializers.Constant(factor))


class Dotted(keras.Model):
    def __init__(self):
        super().__init__(name="dotted")
        self.first = dense("encoder.layer.0", 2.0)
        self.second = dense("encoder_layer.0", 3.0)

    def call(self, x):
        return self.second(self.first(x)) + self.first(x)


def build():
    model = Dotted()
    model(np.ones((1, 2), np.float32))
    return model
"""
OWN = """
import keras
import numpy as np
import tensorflow as tf


class Own(keras.layers.Layer):
    def call(self, x):
        return {expression}


class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)
        self.own = Own()

    def call(self, x):
        return self.own(self.dense(x))


def build():
    model = Model()
    model(np.ones((1, 2), np.float32))
    return model
"""
MODELS = {
    "normalized": NORMALIZED,
    "dotted": DOTTED,
    "numpy": OWN.format(expression="x + keras.ops.arange(2, dtype='float32') * np.array([3, 4], np.float32)"),
    "list": OWN.format(expression="tf.transpose(tf.map_fn(tf.math.tanh, tf.transpose(x)))"),
    "erfc": OWN.format(expression="tf.math.erfc(x)"),
    "lgamma": OWN.format(expression="tf.math.lgamma(x)"),
    "erfinv": OWN.format(expression="keras.ops.erfinv(x)"),
}
RUNTIMES = {
    "tf_onnx_keras": "onnxruntime",
    "tf_openvino_keras": "openvino",
    "tflite_keras": "litert",
}
IR = """<net name="model" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="1,2" element_type="f32"/>
<output><port id="0" precision="FP32"><dim>1</dim><dim>2</dim></port></output></layer>
<layer id="1" name="y" type="Erfc" version="opset1">
<input><port id="0" precision="FP32"><dim>1</dim><dim>2</dim></port></input>
<output><port id="1" precision="FP32"><dim>1</dim><dim>2</dim></port></output></layer>
<layer id="2" name="result" type="Result" version="opset1">
<input><port id="0" precision="FP32"><dim>1</dim><dim>2</dim></port></input></layer>
</layers><edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
<edge from-layer="1" from-port="1" to-layer="2" to-port="0"/></edges></net>"""
pytestmark = pytest.mark.framework


@pytest.fixture(autouse=True, scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("plugins")
    for name, text in MODELS.items():
        model = folder / "models" / name
        model.mkdir(parents=True)
        (model / "task.py").write_text(TASK)
        (model / "tf_model.py").write_text(text)
        (model / "weights.txt").write_text("none")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_PATH", str(folder))
        catalog.forget()
        yield
    catalog.forget()


FED = np.array([[1, 2], [3, 4], [0.5, -1]], np.float32)


def ran(exporter: str, task: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """An export and an inference of `FED` in a process of their own."""
    for plugin in (catalog.exporter(exporter), catalog.runtime(RUNTIMES[exporter])):
        if (reason := plugin.skip()) is not None:
            pytest.skip(reason)
    np.savez(folder / "feeds.npz", **{"0/x": FED})
    request = {
        "task": task,
        "exporter": exporter,
        "runtime": RUNTIMES[exporter],
        "artifact": str(folder / f"artifact.{catalog.exporter(exporter).writes}"),
        "feeds": str(folder / "feeds.npz"),
        "target": str(folder / "outputs.npz"),
    }
    command = [sys.executable, "-P", str(Path(engine_child.__file__)), json.dumps(request)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("exporter", ["tf_onnx_keras", "tf_openvino_keras", "tflite_keras"])
def test_layers_may_have_dots_in_their_names(exporter: str, tmp_path: Path) -> None:
    """Two of them have the same name but for what stands for the dot."""
    done = ran(exporter, "dotted", tmp_path)
    assert done.returncode == 0, done.stderr
    first = 2 * FED.sum(axis=1, keepdims=True).repeat(2, axis=1)
    with np.load(tmp_path / "outputs.npz") as outputs:
        np.testing.assert_allclose(outputs["0/y"], 3 * 2 * first + first, rtol=1e-6)


def test_normalizations_keep_the_batch_dynamic_on_pytorch(tmp_path: Path) -> None:
    done = ran("tf_onnx_keras", "normalized", tmp_path)
    assert done.returncode == 0, done.stderr
    centred = FED - FED.mean(axis=1, keepdims=True)
    layer = 2 * centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-3)
    root = FED / np.sqrt((FED**2).mean(axis=1, keepdims=True) + 1e-3)
    with np.load(tmp_path / "outputs.npz") as outputs:
        np.testing.assert_allclose(outputs["0/y"], layer + root, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("exporter", "task", "reason"),
    [
        (
            "tf_onnx_keras",
            "lgamma",
            "RefusedError: the layer Own computes in TensorFlow or NumPy, where Keras's PyTorch cannot follow it",
        ),
        (
            "tf_onnx_keras",
            "numpy",
            "RefusedError: the layer Own computes in TensorFlow or NumPy, where Keras's PyTorch cannot follow it",
        ),
        ("tf_onnx_keras", "erfinv", "UnsupportedOperatorError: Exporting the operator 'aten::erfinv'"),
        ("tf_openvino_keras", "lgamma", "OpConversionFailure: .*Lgamma"),
        ("tflite_keras", "erfc", "ConverterError: .*'tf.Erfc' op is neither a custom op nor a flex op"),
        (
            "tflite_keras",
            "list",
            "ArtifactError: LiteRT does not open what Keras wrote: Select TensorFlow op.*FlexTensorList",
        ),
    ],
)
def test_an_operator_that_the_format_lacks_is_named(exporter: str, task: str, reason: str, tmp_path: Path) -> None:
    done = ran(exporter, task, tmp_path)
    assert done.returncode == 1, done.stderr
    assert not (tmp_path / "outputs.npz").exists()
    assert re.search(reason, done.stderr.rpartition("Traceback")[2], re.DOTALL), done.stderr


def finished(exporter: str, written: Path) -> None:
    plugin = catalog.exporter(exporter)
    if (reason := plugin.skip()) is not None:
        pytest.skip(reason)
    plugin.finish(written, catalog.task("dotted"), written.with_name("artifact"))


def test_onnx_with_an_operator_that_no_runtime_has_is_no_artifact(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", 2]) for name in ("x", "y"))
    graph = onnx.helper.make_graph([onnx.helper.make_node("Erfc", ["x"], ["y"])], "graph", [x], [y])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(ArtifactError, match=r"^ONNX Runtime does not open what Keras wrote: .*Erfc"):
        finished("tf_onnx_keras", tmp_path / "model.onnx")
    del graph.input[:]
    onnx.save(onnx.helper.make_model(graph), tmp_path / "model.onnx")
    with pytest.raises(ArtifactError, match=r"^Keras wrote 0 inputs; the task has 1$"):
        finished("tf_onnx_keras", tmp_path / "model.onnx")


def test_openvino_ir_with_an_operator_that_openvino_lacks_is_no_artifact(tmp_path: Path) -> None:
    (tmp_path / "model.xml").write_text(IR)
    (tmp_path / "model.bin").write_bytes(b"")
    with pytest.raises(RuntimeError, match="Erfc"):
        finished("tf_openvino_keras", tmp_path / "model.xml")
    assert not (tmp_path / "artifact").exists()


@pytest.mark.parametrize("content", [b"", b"no model"])
def test_tflite_files_that_are_none_are_no_artifact(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(content)
    with pytest.raises(Exception, match="buffer"):
        finished("tflite_keras", tmp_path / "model.tflite")
    assert not (tmp_path / "artifact").exists()


def test_a_saved_model_that_cannot_be_read_is_no_artifact(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").write_bytes(b"no model")
    with pytest.raises(OSError, match="Cannot parse file"):
        finished("tf_saved_model", tmp_path / "model")
    assert not (tmp_path / "artifact").exists()
