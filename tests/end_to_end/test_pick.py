"""`bench pick`: from results to a folder that runs in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.api.errors import InputError
from bench.decisions import deployment

if TYPE_CHECKING:
    from conftest import Harness

TOY = "toy/null/native/raw/null/cpu/b1t1"
OWN = "onnx/native/raw/onnxruntime/cpu/b1t1"
DATA = """
import numpy as np

metric_name = "accuracy"

def samples(split):
    return {"x": np.eye(4, dtype=np.float32)}, [0, 1, 2, 0]

def metrics(outputs, targets):
    return {"accuracy": float(np.mean(outputs["y"].argmax(axis=1) == targets)), "spread": float("nan")}
"""


@pytest.fixture
def command(harness: Harness) -> Callable[..., str]:
    """Runs the command in the folder of a test, and gives all that it says."""
    harness.environment["COLUMNS"] = "160"

    def run(*arguments: str, code: int = 0) -> str:
        return harness.here(*arguments, code=code) + harness.stderr()

    return run


def program(folder: Path, path: Path, *more: str) -> str:
    environment = {**os.environ, "BENCH_CACHE": str(folder / "cache"), "BENCH_PATH": ""}
    done = subprocess.run(
        [sys.executable, path, *more],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, new_harness: type[Harness]) -> Path:
    """A folder with the results of a short sweep over the toy, to copy."""
    harness = new_harness(tmp_path_factory.mktemp("measured"))
    harness.here("run", TOY, "--launches", "1")
    return harness.folder


@pytest.fixture
def toy(measured: Path, tmp_path: Path) -> Path:
    """The same for one test to change."""
    shutil.copytree(measured, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.mark.usefixtures("toy")
def test_picked_toy_gives_the_measured_metric(command: Callable[..., str], tmp_path: Path) -> None:
    said = command("pick", TOY, "--max-metric-drop", "50%")
    assert f"keep: {TOY}" in said, "of one launch there is no winner"
    folder = tmp_path / "results" / "picks" / "toy"
    recipe = json.loads((folder / "deployment.json").read_text())
    assert recipe["cell"] == TOY
    assert [step["step"] for step in recipe["steps"]] == ["native"]
    assert recipe["chosen_for"]["--max-metric-drop"] == 0.5
    assert (recipe["outcome"]["outcome"], recipe["outcome"]["cell"]) == ("keep", TOY)
    assert recipe["measured"]["cell"] == TOY
    shown = program(tmp_path, folder / "run.py")
    name, metric = recipe["measured"]["metric_name"], recipe["measured"]["metric"]
    assert f"{name} {metric:.6g} (measured: {metric:.6g})" in shown
    before = folder / recipe["artifact"]["file"]  # an earlier pick had another format
    before.rename(folder / "model.before")
    recipe["artifact"]["file"] = "model.before"
    (folder / "deployment.json").write_text(json.dumps(recipe))
    command("pick", TOY, "--max-metric-drop", "50%")
    assert sorted(path.name for path in folder.iterdir()) == sorted([before.name, "deployment.json", "run.py"])


def linear(folder: Path) -> tuple[np.ndarray, onnx.ModelProto]:
    """y = x @ weight, as `mine.onnx`."""
    weight = np.random.default_rng(1).standard_normal((4, 3), dtype=np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "mine.onnx").write_bytes(model.SerializeToString())
    return weight, model


def test_own_onnx_model_runs_without_the_harness(command: Callable[..., str], tmp_path: Path) -> None:
    """The program's `predict` needs ONNX Runtime alone, and gives what the formula says."""
    weight, model = linear(tmp_path)
    command("run", "--model", "mine.onnx", OWN, "--launches", "1")
    command("pick", "mine", "--output", "chosen")
    assert onnx.load(tmp_path / "chosen" / "model.onnx") == model
    test = (
        "import sys, numpy; sys.modules['bench'] = None; sys.path.insert(0, 'chosen'); from run import predict;"
        "x = numpy.arange(8, dtype=numpy.float32).reshape(2, 4); numpy.save('y.npy', predict({'x': x})['y'])"
    )
    (tmp_path / "use.py").write_text(test)
    program(tmp_path, tmp_path / "use.py")
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), x @ weight, rtol=1e-5)
    assert "(measured: " in program(tmp_path, tmp_path / "chosen" / "run.py")


@pytest.mark.thorough
def test_samples_without_a_loss(command: Callable[..., str], tmp_path: Path) -> None:
    weight, _ = linear(tmp_path)
    (tmp_path / "data.py").write_text(DATA)
    command("run", "--model", "mine.onnx", "--dataset", "data.py", OWN, "--launches", "1")
    command("pick", "mine")
    accuracy = f"{np.mean(weight.argmax(axis=1) == [0, 1, 2, 0]):.6g}"
    assert program(tmp_path, tmp_path / "results" / "picks" / "mine" / "run.py").splitlines() == [
        "loss unknown (measured: unknown)",
        f"accuracy {accuracy} (measured: {accuracy})",
        "spread unknown",
    ]


@pytest.mark.usefixtures("toy")
def test_what_cannot_be_picked_is_said(harness: Harness) -> None:
    lacking = harness.here("pick", TOY, "--max-latency", "1us", "--max-size", "1kB", code=1)
    assert "none: no cell of toy, batch 1, 1 thread meets all of it" in lacking
    assert "--max-latency 0 of 1; the least is" in lacking
    for arguments, said in (
        (("toy", "--threads", "7"), "there are: --batch 1 --threads 1"),
        (("nothing",), "no result matches 'nothing'"),
        (("toy", "--max-size", "10"), "not a size: '10'"),
    ):
        printed = harness.here("pick", *arguments, code=2)
        assert said in printed + harness.stderr()


def saved(folder: Path, **changes: object) -> None:
    """A folder with what `bench pick` might have written, or somebody else."""
    recipe = {
        "cell": TOY,
        "artifact": {"file": "model.null", "format": "null", "sha256": "00"},
        "task_folder": None,
        "measured": {"loss": 0.5, "metric": 1.0},
        **changes,
    }
    (folder / "deployment.json").write_text(json.dumps(recipe))


@pytest.mark.parametrize(
    "changes",
    [
        {"cell": 5},
        {"cell": "nonsense"},
        {"artifact": None},
        {"artifact": {"file": "../plain.onnx", "format": "onnx", "sha256": "00"}},
        {"artifact": {"file": "/etc/passwd", "format": "onnx", "sha256": "00"}},
        {"measured": {}},
        {"measured": {"loss": "low", "metric": 1.0}},
    ],
)
def test_folder_that_is_no_pick(changes: dict[str, object], tmp_path: Path) -> None:
    saved(tmp_path, **changes)
    with pytest.raises(InputError, match="not what `bench pick` wrote"):
        deployment.read(tmp_path)


def test_folder_with_another_file_than_was_picked(command: Callable[..., str], tmp_path: Path) -> None:
    saved(tmp_path)
    (tmp_path / "model.null").write_text('{"rounds": 1, "scale": 2.0}')
    said = command("check", ".", code=2)
    assert "model.null is not the file that was picked" in said


def test_code_that_a_folder_names_is_not_run(command: Callable[..., str], tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "task.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    saved(tmp_path, cell=TOY.replace("toy", "mine"), task_folder="mine")
    said = command("check", ".", code=2)
    assert "the model of mine is neither in" in said
    assert not (tmp_path / "ran").exists()
