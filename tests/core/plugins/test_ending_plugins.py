"""Files of plugins, tasks and models whose code would end the command: each is refused in a sentence that names it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import pytest

from bench.api import containment, loading
from bench.api.cell import Cell
from bench.api.errors import PluginError
from bench.cli import main
from bench.cli.stopping import Stopped
from bench.decisions import listing
from bench.pipeline import sweeps
from bench.plugins import catalog

ENDS = {
    "sys.exit(3)": "raised SystemExit: 3",
    "sys.exit()": "raised SystemExit",
    "raise KeyboardInterrupt": "raised KeyboardInterrupt",
    "raise GeneratorExit('over')": "raised GeneratorExit: over",
    "os._exit(4)": r"called os\._exit\(4\)",
    "raise type('Mine', (BaseException,), {})('so')": "raised Mine: so",
}
RUNTIME = """
import os, sys
from bench.api import Runtime
{top}
class Mine(Runtime):
    formats = ("null",)
    {body}
    def skip(self):
        {skip}

    def refusal(self, task):
        {refusal}

    def open(self, artifact, *, task, source, provider, threads):
        raise NotImplementedError
"""
USUAL = {"top": "", "body": "", "skip": "return None", "refusal": "return ''"}
OWN = """
import os, sys, numpy as np, torch

{top}
def build():
    {model}
    return torch.nn.Linear(3, 2)

def example_inputs():
    return {{"x": torch.ones(1, 3)}}
"""
DATA = """
import os, sys, numpy as np
{top}
metric_name = "right"

def samples(split):
    {samples}
    return {{"x": np.eye(3, dtype=np.float32)}}, [0, 1, 0]

def metrics(outputs, targets):
    {metrics}
    return {{"right": 1.0}}
"""
BENCH = [sys.executable, "-P", "-c", "from bench.cli.main import main; main()"]


@pytest.fixture(autouse=True)
def _heeds_signals_as_a_command() -> None:
    """Python's own handler raises `KeyboardInterrupt`, which nobody can tell from a file's; it is put back."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def put(folder: Path, **parts: str) -> Path:
    path = folder / "runtimes" / "mine.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(RUNTIME.format(**{**USUAL, **parts}))
    return path


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("where", ["top", "body", "skip", "refusal"])
def test_a_plugin_that_would_end_the_command_is_refused(plugin_folder: Path, where: str, ends: str) -> None:
    path = put(plugin_folder, **{where: ends})
    doing = {"top": "its code", "body": "its code"}.get(where, rf"{where}\(\)")

    with pytest.raises(PluginError, match=rf"{path}: {doing} {ENDS[ends]}, which would end the command$"):
        catalog.skip_reason(Cell.from_path("toy/null/native/raw/mine/cpu/b1t1"))


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("where", ["top", "skip"])
def test_the_list_tells_the_reason_and_goes_on(only_folder: Path, where: str, ends: str) -> None:
    path = put(only_folder, **{where: ends})
    shutil.copy(loading.PLUGINS / "runtimes" / "null.py", path.parent)

    listed = {one.name: one for one in listing.listed()["runtimes"]}

    assert str(path) in str(listed["mine"].reason)
    assert listed["null"].reason is None


@pytest.mark.parametrize(
    "states",
    ["providers = property(lambda self: sys.exit(3))", "requires = property(lambda self: os._exit(4))"],
)
def test_a_property_that_would_end_the_list(only_folder: Path, states: str) -> None:
    text = RUNTIME.format(**{**USUAL, "body": states, "skip": "return super().skip()"})
    put(only_folder).write_text(text)

    (mine,) = (one for one in listing.listed()["runtimes"] if one.name == "mine")

    assert str(mine.reason).endswith("which would end the command")


def test_an_error_of_a_plugin_is_a_reason_of_the_list(only_folder: Path) -> None:
    put(only_folder, skip="raise RuntimeError('no device')")

    (mine,) = (one for one in listing.listed()["runtimes"] if one.name == "mine")

    assert str(mine.reason).endswith("skip() raised RuntimeError: no device (mine.py, line 9)")


def test_signals_pass(tmp_path: Path) -> None:
    with pytest.raises(Stopped), containment.contained(tmp_path, "it"):
        raise Stopped
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt), containment.contained(tmp_path, "it"):
        signal.raise_signal(signal.SIGINT)


def forked() -> int:
    """The exit code of a process that leaves by `os._exit`."""
    pid = os.fork()
    if not pid:
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_process_that_was_forked_may_exit(tmp_path: Path) -> None:
    """As those of `multiprocessing` do."""
    with containment.contained(tmp_path, "it"):
        assert forked() == 7


def test_plugins_in_several_threads_end_nothing_and_the_command_may_end(tmp_path: Path) -> None:
    """Whichever thread is first: another one ends its plugin meanwhile."""
    first, second = containment.contained(tmp_path, "one"), containment.contained(tmp_path, "two")
    with ThreadPoolExecutor(1) as other:
        first.__enter__()
        other.submit(second.__enter__).result()
        first.__exit__(None, None, None)
        other.submit(second.__exit__, None, None, None).result()
        assert forked() == 7

        with containment.contained(tmp_path, "it"):
            assert other.submit(forked).result() == 7, "the thread that ends a command that was stopped"
            with pytest.raises(SystemExit):
                os._exit(1)


def test_an_exception_that_cannot_say_what_it_is(tmp_path: Path) -> None:
    class Mute(BaseException):
        def __str__(self) -> str:
            raise SystemExit

    with pytest.raises(PluginError, match="it raised Mute, which would end"), containment.contained(tmp_path, "it"):
        raise Mute


class Said(NamedTuple):
    """How a command ended, and what it printed to both streams."""

    code: object
    output: str
    errors: str


Bench: TypeAlias = Callable[..., Said]


@pytest.fixture
def bench(plugin_folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Bench:
    """Runs a command in this process, and with it the processes that it starts, in an empty working folder."""

    def run(*arguments: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["bench", *arguments])
        catalog.forget()
        ended: object = "it returned"
        try:
            main.main()
        except BaseException as error:  # the file's own would end the tests
            ended = error
        assert isinstance(ended, SystemExit), ended
        return Said(ended.code, *capfd.readouterr())

    return run


@pytest.mark.slow(seconds=3)
def test_commands_go_on_or_end_with_one_line(plugin_folder: Path, bench: Bench) -> None:
    """The list in a process of its own, which it would end with the exit code of success."""
    put(plugin_folder, top="os._exit(0)")
    listed = subprocess.run([*BENCH, "list"], capture_output=True, text=True, timeout=100, check=False)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "mine" in listed.stdout
    assert "called os._exit(0), which would end the command" in " ".join(listed.stdout.split())

    run = bench("run", "toy/null/native/raw/mine/cpu/b1t1")
    assert run.code == 2
    assert "mine.py: its code called os._exit(0), which would end the command" in run.errors
    assert "Traceback" not in run.errors


def test_what_a_plugin_raises_anywhere_else_is_one_line(plugin_folder: Path, bench: Bench) -> None:
    """Here where its packages are looked up."""
    put(plugin_folder, body="requires = property(lambda self: sys.exit('no licence'))")

    done = bench("run", "toy/null/native/raw/mine/cpu/b1t1", "--budget", "5s")

    assert done.code == 2
    (line,) = (line for line in done.errors.splitlines() if line.startswith("bench: "))
    assert "mine.py" in line
    assert "raised SystemExit: no licence, which would end the command" in line
    assert "Traceback" not in done.errors


@pytest.mark.slow(seconds=5)
@pytest.mark.parametrize(
    "ends",
    [
        "sys.exit(3)",
        pytest.param("raise KeyboardInterrupt", marks=pytest.mark.thorough),
        pytest.param("raise type('Mine', (BaseException,), {})", marks=pytest.mark.thorough),
    ],
)
def test_a_data_set_that_would_end_the_worker(bench: Bench, ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "in_place_of", lambda _: ())  # every other runtime would end in the same way
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2])],
        [numpy_helper.from_array(np.ones((3, 2), np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    Path("m.onnx").write_bytes(model.SerializeToString())
    for where in ("top", "samples", "metrics"):
        parts = {"top": "", "samples": "", "metrics": "", where: ends}
        Path("data.py").write_text(DATA.format(**parts))
        cell = "onnx/native/raw/onnxruntime/cpu/b1t1"
        done = bench("run", "--model", "m.onnx", "--dataset", "data.py", cell, "--launches", "1")
        said = " ".join((done.output + done.errors).split())
        assert "Traceback" not in said
        assert "data.py" in said, where
        assert "which would end the command" in said, where


@pytest.mark.slow(seconds=5)
def test_a_model_in_python_that_would_end_the_worker(bench: Bench) -> None:
    for where in ("top", "model"):
        Path("net.py").write_text(OWN.format(**{"top": "", "model": "", where: "sys.exit(3)"}))
        done = bench("run", "--model", "net.py", "--launches", "1")
        said = " ".join((done.output + done.errors).split())
        assert done.code == 2
        assert "Traceback" not in said
        assert "net.py" in said
        assert "raised SystemExit: 3, which would end the command" in said


@pytest.mark.slow(seconds=3)
def test_ctrl_c_stops_a_command_that_loads_a_plugin(tmp_path: Path) -> None:
    put(tmp_path, top="import pathlib, time; pathlib.Path('begun').touch(); time.sleep(60)")
    environment = {**os.environ, "BENCH_CACHE": str(tmp_path / "cache"), "BENCH_PATH": str(tmp_path)}
    process = subprocess.Popen([*BENCH, "list"], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "begun").exists():
        time.sleep(0.05)

    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=20)[1]

    assert process.returncode == 130
    assert said == "bench: stopped\n"
