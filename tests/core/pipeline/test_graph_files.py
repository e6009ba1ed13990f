"""The ONNX file that commands read of a model of any format: the file itself, or the first export that can be made."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from bench.api import loading
from bench.api.errors import InputError
from bench.measure.limits import Limits
from bench.onnxfile.costs.profile import profile
from bench.pipeline import graph_files
from bench.tasks.adopt import Options

LIMITS = Limits.of(step_s=60, memory_bytes=2**30)
EXPORTERS = """
import onnx
from onnx import helper
from bench.api import Exporter
from bench.api.errors import ArtifactError

class Made(Exporter):
    sources = ("null",)
    writes = "onnx"

    def export(self, task, source, target):
        if "{name}" == "broken":
            raise ArtifactError("it cannot")
        values = [
            [helper.make_tensor_value_info(spec.name, helper.np_dtype_to_tensor_dtype(spec_dtype(spec)), spec.shape)
             for spec in specs]
            for specs in (task.inputs, task.outputs)
        ]
        node = helper.make_node("Identity", [task.inputs[0].name], [task.outputs[0].name])
        onnx.save(helper.make_model(helper.make_graph([node], "g", *values), ir_version=8), target)
        return {{}}

def spec_dtype(spec):
    import numpy
    return numpy.dtype(spec.dtype)
"""


@pytest.fixture
def model(plugin_folder: Path) -> Path:
    """A folder with a task, for which there are two exporters to ONNX, the first of which fails."""
    folder = plugin_folder.parent / "mine"
    shutil.copytree(loading.PLUGINS / "models" / "toy", folder, ignore=shutil.ignore_patterns("__pycache__"))
    (plugin_folder / "exporters").mkdir()
    for name in ("broken", "sound"):
        (plugin_folder / "exporters" / f"{name}.py").write_text(EXPORTERS.format(name=name))
    return folder


def test_first_export_that_can_be_made_is_read_and_named(model: Path) -> None:
    file = graph_files.of_model(model, Options(), LIMITS)
    assert (file.exporter, file.model) == ("sound", model)
    assert file.notes == (f"{model} is read as its export by sound",)
    graph = onnx.load(file.path).graph
    (name,) = file.shapes
    assert graph.input[0].name == name
    assert file.shapes[name][0] == 1, "one sample"
    assert not file.dims


def test_without_an_export_each_reason_is_told(model: Path, plugin_folder: Path) -> None:
    (plugin_folder / "exporters" / "sound.py").unlink()
    with pytest.raises(InputError, match=r"no ONNX file can be made of .*mine: broken: it cannot$"):
        graph_files.of_model(model, Options(), LIMITS)


def test_onnx_file_is_read_as_it_is_with_the_sizes_that_were_given(tmp_path: Path) -> None:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", "m"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", values[:1], values[1:])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph), path)
    file = graph_files.of_model(path, Options(shapes=("x=2x0",), dims=("m=0",)), LIMITS)
    assert (file.path, file.exporter, file.notes) == (path, None, ())
    assert (file.shapes, file.dims) == ({"x": (2, 0)}, {"m": 0})


def test_openvino_file_is_read_as_its_operations_at_the_sizes_that_are_asked_for(
    plugin_folder: Path, tmp_path: Path
) -> None:
    pytest.importorskip("openvino")
    from bench.plugins.engines.openvino import ir

    openvino = ir.import_openvino()
    x = openvino.opset13.parameter([-1, 4, -1], np.float32, name="x")
    weight = openvino.opset13.constant(np.ones((3, 4), "float32"))
    product = openvino.opset13.matmul(weight, x, False, False)
    openvino.save_model(openvino.Model([product], [x], "product"), tmp_path / "product.xml")
    file = graph_files.of_model(tmp_path / "product.xml", Options(shapes=("x=1x4x7",)), LIMITS)
    assert (file.exporter, dict(file.shapes), file.dims) == ("openvino", {"x": (1, 4, 7)}, {})
    said = f"{tmp_path / 'product.xml'} is read as its own operations, with the shapes that its framework states"
    assert file.notes[-1] == said
    found = profile(file.path, shapes=file.shapes)
    assert (found.macs, found.num_params) == (3 * 4 * 7, 12)
    again = graph_files.of_model(tmp_path / "product.xml", Options(shapes=("x=1x4x9",)), LIMITS)
    assert profile(again.path).macs == 3 * 4 * 9


MODULE = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(6, 4)
        self.second = torch.nn.Linear(6, 4)
        self.second.weight = self.first.weight
        self.never = torch.nn.Linear(10, 3)

    def forward(self, x):
        return self.first(x) + self.second(x * 2)

def build():
    return Model()

def example_inputs():
    return {"x": torch.ones(2, 6)}
"""


@pytest.mark.thorough
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="it needs PyTorch")
def test_an_export_tells_which_parameters_of_pytorch_it_lacks(plugin_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODULE)
    limits = Limits.of(step_s=300, memory_bytes=None)
    file = graph_files.of_model(path, Options(), limits)
    told = f"{path} is read as its export by {file.exporter}"
    assert file.notes[-2:] == (
        told,
        "PyTorch counts 65 parameters, and the file has 32: 33 are not in the file (never.weight, never.bias)",
    )
    assert profile(file.path).num_params == 32
    path.write_text(MODULE.replace("self.never = torch.nn.Linear(10, 3)", ""))
    file = graph_files.of_model(path, Options(), limits)
    assert file.notes[-1] == told, "as many"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none.onnx", "no such file or folder: .*; --model takes "),
        ("empty.onnx", "empty.onnx is empty"),
        ("notes.md", "is of no kind that can be measured; --model takes "),
        (".", r"no task\.py, .* in .*; --model takes "),
        ("pickled.pt", "holds .*; add --trust to load it"),
    ],
)
def test_what_is_no_model_is_refused_in_the_words_of_bench_run(name: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "empty.onnx").touch()
    for text in ("notes.md", "pickled.pt"):
        (tmp_path / text).write_text("no model")
    with pytest.raises(InputError, match=says):
        graph_files.of_model(tmp_path / name, Options(), LIMITS)
