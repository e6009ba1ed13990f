"""Users' models that were exported in training mode: notes and rows name the node, whatever the format."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.api import Task
from bench.plugins import catalog
from bench.tasks.examine import examine
from bench.tasks.formats.python import built
from bench.tasks.user_task import OwnTask

pytestmark = pytest.mark.framework
Examined = Callable[..., tuple[OwnTask, list[str]]]


@pytest.fixture
def examined(plugin_folder: Path) -> Examined:
    """Examines a model in this process and gives its task and the notes."""

    def run(module: str, path: Path, **asked: Any) -> tuple[OwnTask, list[str]]:
        folder = plugin_folder / "models" / "mine"
        folder.mkdir(parents=True)
        request = {"data": None, "dims": (), "shapes": (), "trust": True, **asked}
        found = examine(module=module, path=str(path), folder=str(folder), **request)
        catalog.forget()
        task: Task = catalog.task("mine")
        assert isinstance(task, OwnTask)
        return task, found["notes"]

    return run


def net(*layers: str) -> Any:
    """A convolution and what comes after it, pooled; in training mode."""
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)
            for layer in layers:
                made = {
                    "norm": lambda: nn.BatchNorm2d(8),
                    "drop": lambda: nn.Dropout(0.5),
                    "none": lambda: nn.Dropout(0.0),
                    "free": lambda: nn.BatchNorm2d(8, track_running_stats=False),
                    "instance": lambda: nn.InstanceNorm2d(8),
                }
                setattr(self, layer, made[layer]())

        def forward(self, x: Any) -> Any:
            x = self.conv(x)
            for layer in layers:
                x = getattr(self, layer)(x)
            return x.mean((2, 3))

    return Net().train()


NORM = (
    "BatchNorm2d 'norm' is in training mode: its outputs depend on the other samples of a batch; export after "
    "model.eval()"
)
DROP = "Dropout 'drop' is in training mode: it drops values at random, others at each run; export after model.eval()"


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize(
    ("layers", "training", "expected"),
    [
        (("norm",), True, [NORM]),
        (("norm", "drop"), True, [NORM, DROP]),
        (("drop",), True, [DROP]),
        (("norm", "drop", "instance"), False, []),
        (("none", "instance"), True, []),
    ],
)
def test_an_exported_program(
    layers: tuple[str, ...], training: bool, expected: list[str], decomposed: bool, examined: Examined, tmp_path: Path
) -> None:
    import torch

    program = torch.export.export(net(*layers).train(training), (torch.randn(2, 3, 8, 8),))
    program = program.run_decompositions() if decomposed else program
    torch.export.save(program, tmp_path / "net.pt2")
    task, notes = examined("torch_export", tmp_path / "net.pt2")
    assert list(task.unsettled) == expected
    assert [note for note in notes if "is in training mode" in note] == expected
    assert notes[: len(expected)] == expected, "what matters most comes first"


def test_a_norm_without_statistics_is_none_of_training(examined: Examined, tmp_path: Path) -> None:
    import torch

    torch.export.save(torch.export.export(net("free").eval(), (torch.randn(2, 3, 8, 8),)), tmp_path / "net.pt2")
    task, _ = examined("torch_export", tmp_path / "net.pt2")
    (line,) = task.unsettled
    assert line.startswith("BatchNorm2d 'free' has no running statistics: its outputs depend on the other samples")


def test_a_program_that_draws_and_one_that_counts(examined: Examined, tmp_path: Path) -> None:
    import torch

    class Counts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: Any) -> Any:
            self.count.add_(1)
            return x * self.count + torch.rand_like(x)

    torch.export.save(torch.export.export(Counts().eval(), (torch.randn(2, 3),)), tmp_path / "net.pt2")
    task, _ = examined("torch_export", tmp_path / "net.pt2")
    assert [line.partition(",")[0] for line in task.unsettled] == [
        "rand_like 'rand_like' draws random numbers at each run",
        "buffer 'count' is written at each run",
    ]


@pytest.mark.parametrize(
    ("how", "layers", "training", "expected"),
    [
        ("trace", ("norm", "drop"), True, ["batch_norm 'norm'", "dropout"]),
        ("trace", ("norm", "drop"), False, []),
        ("script", ("norm", "drop"), True, []),  # its mode is set when it is loaded
        ("freeze", ("norm", "drop"), False, []),
        ("trace", ("none", "instance"), True, []),
    ],
)
def test_torch_script(
    how: str, layers: tuple[str, ...], training: bool, expected: list[str], examined: Examined, tmp_path: Path
) -> None:
    import torch

    model, example = net(*layers).train(training), torch.randn(2, 3, 8, 8)
    if how == "script":
        model = torch.nn.Sequential(*model.children())  # the loop of `Net` is Python's
    script = torch.jit.script(model) if how == "script" else torch.jit.trace(model, example, check_trace=False)
    script = torch.jit.freeze(script) if how == "freeze" else script
    torch.jit.save(script, str(tmp_path / "net.pt"))
    (name,) = (argument.name for argument in script.forward.schema.arguments[1:])
    task, _ = examined("torch_script", tmp_path / "net.pt", shapes=(f"{name}=2x3x8x8",))
    assert [line.partition(" is in training")[0] for line in task.unsettled] == expected


PYTHON = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x):
        return {after}

def build():
    return Net().train()

def example_inputs():
    return {{"x": torch.randn(3, 4)}}
"""


@pytest.mark.parametrize(
    ("after", "is_told"),
    [("self.norm(x)", False), ("torch.nn.functional.dropout(x, 0.5)", True), ("x * torch.rand(1)", True)],
)
def test_a_python_file_is_switched_to_inference_but_for_what_does_not_switch(
    after: str, is_told: bool, examined: Examined, tmp_path: Path
) -> None:
    (tmp_path / "model.py").write_text(PYTHON.format(after=after))
    task, notes = examined("python", tmp_path / "model.py")
    assert bool(task.unsettled) == is_told
    assert list(task.unsettled) == notes
    if is_told:
        assert notes[0].startswith("output 'output' differs between two runs with the same inputs")
        assert "training mode" in notes[0]


KERAS = """
import keras
import numpy as np

class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = keras.layers.{layer}

    def call(self, x):
        return self.inner(x, training=True)

def build():
    {build}

def example_inputs():
    return {{"x": 3 + np.arange(12, dtype=np.float32).reshape(3, 4) ** 2}}
"""
ASSEMBLED = "x = keras.Input((4,)); return keras.Model(x, keras.layers.{layer}(x, training=True))"


@pytest.mark.parametrize("layer", ["Dropout(0.5, name='first')", "BatchNormalization(name='first')"])
@pytest.mark.parametrize("how", ["code", "assembled", "file"])
def test_keras(how: str, layer: str, examined: Examined, tmp_path: Path) -> None:
    """An assembled model is called with `training=False`, which overrides that of its layers; see the other tests."""
    build = "return Net()" if how == "code" else ASSEMBLED.format(layer=layer)
    path = tmp_path / "model.py"
    path.write_text(KERAS.format(layer=layer, build=build))
    if how == "file":
        built(path).save(path := tmp_path / "net.keras")
    task, notes = examined("keras" if how == "file" else "python", path)
    assert len(task.unsettled) == (how == "code")
    told = [note for note in notes if "training mode" in note and "is in" in note]
    assert told == list(task.unsettled)
    for line in told:
        assert line.startswith(f"{layer.partition('(')[0]} 'first' is in training mode: ")
        assert line.endswith("; call the layer with training=False")


@pytest.mark.parametrize("kind", ["norm", "random", "settled"])
def test_saved_models(kind: str, examined: Examined, tmp_path: Path) -> None:
    import tensorflow as tf

    ones = np.ones(3, np.float32)

    @tf.function(input_signature=[tf.TensorSpec([None, 4, 4, 3], tf.float32, name="x")])
    def call(x: Any) -> Any:
        if kind == "random":
            return {"y": x + tf.random.normal(tf.shape(x))}
        found, *_ = tf.compat.v1.nn.fused_batch_norm(
            x,
            ones,
            ones,
            mean=None if kind == "norm" else ones,
            variance=None if kind == "norm" else ones,
            is_training=kind == "norm",
        )
        return {"y": found}

    module = tf.Module()
    module.call = call
    tf.saved_model.save(module, str(tmp_path / "net"), signatures={"serving_default": call})
    task, _ = examined("saved_model", tmp_path / "net")
    expected = {"norm": "is in training mode: its outputs depend", "random": "draws random numbers", "settled": ""}[
        kind
    ]
    assert len(task.unsettled) == (kind != "settled")
    assert all(expected in line for line in task.unsettled)


def test_open_vino(examined: Examined, tmp_path: Path) -> None:
    if importlib.util.find_spec("openvino") is None:
        pytest.skip("OpenVINO is not installed")
    from bench.plugins.engines.openvino import ir

    openvino = ir.import_openvino()
    ops = sys.modules["openvino"].opset13
    x = ops.parameter([1, 4], np.float32, name="x")
    drawn = ops.random_uniform([1, 4], np.float32(0), np.float32(1), "f32")
    openvino.save_model(openvino.Model([ops.add(x, drawn)], [x]), tmp_path / "net.xml", compress_to_fp16=False)
    task, _ = examined("openvino", tmp_path / "net.xml")
    (line,) = task.unsettled
    assert line.startswith("RandomUniform '")
    assert "draws random numbers at each run" in line
