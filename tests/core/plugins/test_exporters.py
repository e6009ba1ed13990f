"""Every exporter on a model with traps: two inputs and two outputs, not in alphabetical order, of equal shapes.

The outputs' shapes are equal, so only their values tell them apart. In PyTorch there is an LSTM, into which exporters
bake the batch that they traced with, and a layer that is used twice.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.api import Samples, Task, TensorSpec
from bench.api.errors import ArtifactError
from bench.plugins import catalog, steps
from bench.plugins.engines.openvino import ir
from support import engine_child
from support import small_models as small

TASK = '''"""A task of traps."""

from bench.api import Task, TensorSpec
from bench.api.errors import InputError


class Traps(Task):
    """Two inputs, two outputs."""

    sources = ("torch", "tf")
    inputs = (
        TensorSpec(name="line", dtype="float32", shape=("batch", 6, 4)),
        TensorSpec(name="ids", dtype="int64", shape=("batch", "tokens")),
    )
    outputs = (
        TensorSpec(name="score", dtype="float32", shape=("batch", 6, 4)),
        TensorSpec(name="mood", dtype="float32", shape=("batch", 6, 4)),
    )
    weights = "weights.txt"
    metric_name = "accuracy"
    max_metric_loss = 0.1

    def build(self, source, weights):
        return self.module(f"{source}_model").build()

    def samples(self, split):
        raise InputError("there are none")

    def loss(self, outputs, targets):
        return 0.0

    def metrics(self, outputs, targets):
        return {"accuracy": 1.0}
'''
TORCH_MODEL = """
import torch
from torch import nn


class Traps(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 4, batch_first=True)
        self.twice = nn.Linear(4, 4)
        self.table = nn.Embedding(9, 4)

    def forward(self, line, ids):
        states, _ = self.lstm(line)
        total = self.table(ids).sum(dim=1, keepdim=True)
        return self.twice(torch.tanh(self.twice(states))), states + total


def build():
    torch.manual_seed(0)
    return Traps().eval()
"""
WITHOUT_LSTM = TORCH_MODEL.replace("nn.LSTM(4, 4, batch_first=True)", "nn.Linear(4, 4)").replace("states, _", "states")
TF_MODEL = """
import keras


class Traps(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(4)
        self.table = keras.layers.Embedding(9, 4)

    def call(self, line, ids):
        total = keras.ops.sum(self.table(ids), axis=1, keepdims=True)
        return keras.ops.tanh(self.dense(line)), line + total


def build():
    keras.utils.set_random_seed(0)
    return Traps()
"""
CASES = [
    ("torch_onnx", "onnxruntime"),
    ("torch_onnx_legacy", "onnxruntime"),
    ("torch_onnx", "openvino"),
    ("torch_openvino", "openvino"),
    ("tf2onnx", "onnxruntime"),
    ("tf_openvino", "openvino"),
    ("tflite", "litert"),
]
ENGINES = [
    ("torch_mnn", "mnn", "traps"),
    ("torch_ncnn", "ncnn", "traps"),
    ("torch_executorch", "executorch", "traps"),
    ("torch_iree", "iree", "traps"),
    ("torch_tvm", "tvm", "traps_without_lstm"),  # of which TVM reads none
]
"""These run in processes of their own: MNN's converter aborts one that has TensorFlow."""
REQUESTS = ((1, 3), (2, 7), (5, 1), (1, 3))  # batch and tokens

pytestmark = pytest.mark.framework


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Task]:
    folder = tmp_path_factory.mktemp("plugins")
    for name, torch_model in {"traps": TORCH_MODEL, "traps_without_lstm": WITHOUT_LSTM}.items():
        model = folder / "models" / name
        model.mkdir(parents=True)
        for file, text in {
            "task.py": TASK,
            "torch_model.py": torch_model,
            "tf_model.py": TF_MODEL,
            "weights.txt": "none",
        }.items():
            (model / file).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_PATH", str(folder))
        catalog.forget()
        yield catalog.task("traps")
    catalog.forget()


Export = Callable[[str], tuple[Path, dict[str, Any]]]


@pytest.fixture(scope="module")
def export(task: Task, tmp_path_factory: pytest.TempPathFactory) -> Export:
    """Each artifact of the task, made once, with what its exporter told of it."""
    made: dict[str, tuple[Path, dict[str, Any]]] = {}

    def make(name: str) -> tuple[Path, dict[str, Any]]:
        exporter = catalog.exporter(name)
        if (reason := exporter.skip()) is not None:
            pytest.skip(reason)
        if name not in made:
            (source,) = exporter.sources
            path = tmp_path_factory.mktemp(name) / f"artifact.{exporter.format(source)}"
            made[name] = path, steps.export(exporter, task, source, path)
        return made[name]

    return make


@pytest.fixture(scope="module")
def models(task: Task) -> Callable[[str], Callable[..., list[np.ndarray]]]:
    """The model of a task in a framework, from arrays to arrays."""

    def of(source: str, name: str = task.name) -> Callable[..., list[np.ndarray]]:
        model = catalog.task(name).build(source, task.weights_path)
        if source == "tf":
            return lambda *arrays: [output.numpy() for output in model(*arrays)]
        import torch

        return lambda *arrays: [output.detach().numpy() for output in model(*map(torch.from_numpy, arrays))]

    return of


def feeds(batch: int, tokens: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(batch)
    return {
        "line": generator.standard_normal((batch, 6, 4), dtype=np.float32),
        "ids": generator.integers(0, 9, (batch, tokens)),
    }


@pytest.mark.parametrize(("exporter", "runtime"), CASES)
def test_names_orders_and_sizes_survive(exporter: str, runtime: str, task: Task, export: Export, models: Any) -> None:
    opener = catalog.runtime(runtime)
    if (reason := opener.skip()) is not None:
        pytest.skip(reason)
    path, _ = export(exporter)
    (source,) = catalog.exporter(exporter).sources
    model = models(source)
    with opener.open(path, task=task, source=source, provider="cpu", threads=1) as session:
        for batch, tokens in REQUESTS:
            fed = feeds(batch, tokens)
            # Fed in another order than the task's: a runtime goes by names.
            outputs = session.run({"ids": fed["ids"], "line": fed["line"]})
            for spec, output, expected in zip(task.outputs, outputs, model(fed["line"], fed["ids"]), strict=True):
                np.testing.assert_allclose(output, expected, rtol=0, atol=1e-5, err_msg=spec.name)


@pytest.mark.parametrize(("exporter", "runtime", "name"), ENGINES)
def test_engines_keep_names_orders_and_sizes(
    exporter: str, runtime: str, name: str, task: Task, models: Any, tmp_path: Path
) -> None:
    for plugin in (catalog.exporter(exporter), catalog.runtime(runtime)):
        if (reason := plugin.skip()) is not None:
            pytest.skip(reason)
    fed = [feeds(batch, tokens) for batch, tokens in REQUESTS]
    np.savez(
        tmp_path / "feeds.npz", **{f"{number}/{port}": one[port] for number, one in enumerate(fed) for port in one}
    )
    request = {
        "task": name,
        "exporter": exporter,
        "runtime": runtime,
        "artifact": str(tmp_path / f"artifact.{catalog.exporter(exporter).format('torch')}"),
        "feeds": str(tmp_path / "feeds.npz"),
        "target": str(tmp_path / "outputs.npz"),
    }
    child = Path(engine_child.__file__)
    command = [sys.executable, "-P", str(child), json.dumps(request)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    model = models("torch", name)
    with np.load(tmp_path / "outputs.npz") as outputs:
        for number, one in enumerate(fed):
            for spec, expected in zip(task.outputs, model(one["line"], one["ids"]), strict=True):
                np.testing.assert_allclose(outputs[f"{number}/{spec.name}"], expected, rtol=0, atol=1e-5)


def test_onnx_exporters_tell_their_opset(export: Export) -> None:
    onnx = pytest.importorskip("onnx")
    for name in ("torch_onnx", "torch_onnx_legacy", "tf2onnx"):
        path, info = export(name)
        assert info == {"opset": onnx.load(path).opset_import[0].version}
        assert info["opset"] >= 15


class AttentionTask(small.SmallTask):
    inputs = (TensorSpec(name="x", dtype="float32", shape=("batch", 5, 16)),)
    outputs = (TensorSpec(name="y", dtype="float32", shape=("batch", 5, 16)),)

    def build(self, source: str, weights: Path) -> Any:
        import torch

        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)).eval()

    def samples(self, split: str) -> Samples:
        array = np.random.default_rng(0).standard_normal((4, 5, 16), dtype=np.float32)
        return Samples(inputs={"x": array}, targets=None)


@pytest.mark.parametrize("name", ["torch_onnx", "torch_onnx_legacy"])
def test_fused_attention_of_pytorch_is_no_obstacle(name: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    task = small.make_task(AttentionTask)
    fed = task.samples("test").inputs["x"][:3]
    steps.export(catalog.exporter(name), task, "torch", tmp_path / "artifact.onnx")
    (output,) = small.run(tmp_path / "artifact.onnx", x=fed)
    expected = task.build("torch", tmp_path)(torch.from_numpy(fed)).detach().numpy()
    np.testing.assert_allclose(output, expected, rtol=0, atol=1e-5)


def test_onnx_files_say_nothing_of_the_machine_they_were_made_on(export: Export) -> None:
    for name in ("torch_onnx", "torch_onnx_legacy"):
        path, _ = export(name)
        assert b"torch_model.py" not in path.read_bytes()
        assert b"/torch/nn/" not in path.read_bytes()


def test_openvino_archive_is_the_same_every_time_and_keeps_float32(task: Task, export: Export, tmp_path: Path) -> None:
    path, _ = export("torch_openvino")
    openvino = ir.import_openvino()
    model, weights = ir.read(openvino.Core(), path)
    ir.save(model, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    assert [file.name for file in tmp_path.iterdir()] == ["again"]
    with tarfile.open(path) as archive:
        assert archive.getnames() == ["model.xml", "model.bin"]
        assert archive.getmember("model.bin").offset_data % 64 == 0
    constants = {str(node.get_element_type()) for node in model.get_ops() if node.get_type_name() == "Constant"}
    assert "<Type: 'float32'>" in constants
    assert "<Type: 'float16'>" not in constants
    assert [port.get_partial_shape().to_string() for port in model.inputs] == ["[?,6,4]", "[?,?]"]
    del weights


def test_openvino_sends_no_telemetry() -> None:
    pytest.importorskip("openvino")
    code = """
import sys
from bench.plugins import catalog
catalog.runtime("openvino").import_packages()
from openvino.tools.ovc import telemetry_utils
print(sys.modules["openvino_telemetry"], telemetry_utils.tm.__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["None", "openvino.tools.ovc.telemetry_stub"]


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x00" * 10240])
def test_what_is_no_openvino_archive_is_told(content: bytes, tmp_path: Path, task: Task) -> None:
    pytest.importorskip("openvino")
    path = tmp_path / "artifact.openvino"
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match=r"artifact\.openvino is not a tar archive of model\.xml and model\.bin"):
        catalog.runtime("openvino").open(path, task=task, source="torch", provider="cpu", threads=1)


def test_litert_tells_names_that_do_not_fit(export: Export) -> None:
    path, _ = export("tflite")
    with pytest.raises(ArtifactError, match="the file's inputs are ids, line; the task's are x"):
        catalog.runtime("litert").open(path, task=catalog.task("toy"), source="tf", provider="cpu", threads=1)


def test_depth_to_space_is_spelt_out_for_iree() -> None:
    onnx = pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    spell_out = sys.modules[type(catalog.exporter("torch_iree")).__module__]._spell_out_depth_to_space
    float32 = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("DepthToSpace", ["x"], ["y"], blocksize=3, mode="CRD")],
        "graph",
        [onnx.helper.make_tensor_value_info("x", float32, ["batch", 18, "height", "width"])],
        [onnx.helper.make_tensor_value_info("y", float32, ["batch", 2, "high", "wide"])],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
    x = np.random.default_rng(0).standard_normal((2, 18, 4, 5)).astype(np.float32)
    outputs = []
    for _ in range(2):
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        outputs += session.run(None, {"x": x})
        spell_out(model.graph)
    assert "DepthToSpace" not in {node.op_type for node in model.graph.node}
    np.testing.assert_array_equal(*outputs)
