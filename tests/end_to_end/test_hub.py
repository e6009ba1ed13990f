"""`bench run --model hf:org/name`: the commit in the results, kills in a download, two processes at once."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.onnxfile.deferred import np
from support import hub_server
from support.features import needs
from support.hub_fixtures import VARIABLES
from support.hub_server import Handler, StandIn

if TYPE_CHECKING:
    from conftest import Harness

NAME = "hf:org/net@v1"
PART = 12_000
"""Bytes that a host sends at once."""
DRIP = 400
"""Bytes that it sends afterwards, five times a second."""


def model() -> bytes:
    """An ONNX file of 262 kB: a product with a matrix."""
    weights = np.arange(65_536, dtype=np.float32).reshape(256, 256) / 65_536
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 256])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 256])],
        [numpy_helper.from_array(weights, "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    return onnx.ModelProto.SerializeToString(made)


@pytest.fixture
def hub(harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with hub_server.running() as found:
        found.add("org/net", {"onnx/model.onnx": model(), "README.md": b"# net"}, ref="v1")
        harness.environment |= {"HF_ENDPOINT": found.url, "HF_HOME": str(tmp_path / "home"), "HF_TOKEN": "hf_secret"}
        yield found


class Paused:
    """A hook that sends a part of a large file, then very little, and the rest once it may.

    Attributes:
        released: is set when it may.
    """

    def __init__(self) -> None:
        self.released = threading.Event()

    def __call__(self, handler: Handler, path: str) -> bool:
        if handler.host != "cdn":
            return False
        content = model()
        asked = handler.headers.get("Range")
        begin = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        handler.send_response(206 if asked else 200)
        handler.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        handler.send_header("Content-Length", str(len(content) - begin))
        handler.end_headers()
        with contextlib.suppress(OSError):
            handler.wfile.write(content[begin : begin + PART])
            begin += PART
            while not self.released.wait(0.2):  # enough for a client to stay
                handler.wfile.write(content[begin : begin + DRIP])
                begin += DRIP
            handler.wfile.write(content[begin:])
        return True


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


def partial(harness: Harness) -> int:
    """Bytes of files that are not whole."""
    return sum(path.stat().st_size for path in harness.folder.glob("cache/hub-*/*/*/*/partial/*"))


def whole(harness: Harness) -> list[Path]:
    return list(harness.folder.glob("cache/hub-*/**/*.onnx"))


def test_a_run_stores_the_commit_and_no_token(hub: StandIn, harness: Harness) -> None:
    cell = "onnx/native/raw/onnxruntime/cpu/b1t1"
    harness.here("run", "--model", NAME, cell, "--launches", "1", "--budget", "1s")
    sha = hub_server.commit(1)
    assert f"bench: {NAME} is onnx/model.onnx of org/net at commit {sha}" in harness.stderr()
    assert "1 file of 262.3 kB to fetch from 127.0.0.1" in harness.stderr()
    (header,) = harness.lines("cell")
    assert (header["cell"], header["origin"]) == (f"net/{cell}", f"hf:org/net@{sha}:onnx/model.onnx")
    for path in harness.folder.rglob("*"):
        assert not path.is_file() or b"hf_secret" not in path.read_bytes(), path
    launches = harness.launch_ids()
    hub.add("org/net", {"onnx/model.onnx": model(), "README.md": b"# the net"}, number=2, ref="v1")
    harness.here("run", "--model", NAME, cell, "--launches", "1", "--budget", "1s")
    assert f"at commit {hub_server.commit(2)}" in harness.stderr()
    assert harness.launch_ids() == launches, "the model is the same: nothing is measured again"
    hub.close()
    assert harness.here("run", "--model", NAME, "--offline", "--dry-run", cell).split() == [f"net/{cell}"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "--model", "hf:org/none"], "bench: hf:org/none@main: it is not there, or not for everyone"),
        (["run", "--model", "hf:net"], "bench: not a model of the hub: 'hf:net'; write hf:org/name"),
        (["run", "--model", f"{NAME}:other.onnx", "--offline"], "was not fetched before, and without the network"),
        pytest.param(
            ["compare", "v1", "v2", "--model", NAME],
            "revisions of git are compared in a work tree; `bench check hf:",
            marks=needs("compare"),
        ),
        *(
            pytest.param(arguments, "it is not there, or not for everyone", marks=needs(arguments[0]))
            for arguments in (
                ["graph", "text", "hf:org/none"],
                ["profile", "hf:org/none"],
                ["search", "--model", "hf:org/none"],
                ["load", "--model", "hf:org/none"],
                ["compare", "--model", "hf:org/none", "--with", "onnxruntime==1.22.0"],
            )
        ),
        (["check", NAME.replace("v1", "v9"), NAME], "it has no such branch, tag or commit"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_refusals_are_one_line(arguments: list[str], says: str, hub: StandIn, harness: Harness) -> None:
    harness.here(*arguments, code=2)
    (line,) = harness.stderr().splitlines()
    assert says in line


@needs("profile")
def test_the_commands_that_read_graphs_take_it(hub: StandIn, harness: Harness) -> None:
    assert "MatMul" in harness.here("profile", NAME)
    assert len(whole(harness)) == 1


def test_killed_in_the_middle_of_a_download(hub: StandIn, harness: Harness) -> None:
    """No file looks whole, and the next command goes on from where the last one was."""
    hub.hooks.append(Paused())
    for number, signal_ in enumerate((signal.SIGKILL, signal.SIGINT, signal.SIGTERM), start=1):
        before = partial(harness)
        process = harness.start("run", "--model", NAME, "--dry-run", process_group=0)
        wait_for(lambda before=before: partial(harness) > before, process)  # type: ignore[misc]
        process.send_signal(signal_)
        code = process.wait(timeout=30)
        assert code == {signal.SIGKILL: -9, signal.SIGINT: 130, signal.SIGTERM: 143}[signal_]
        assert whole(harness) == []
        assert len(hub.asked("cdn")) == number
    hub.hooks.clear()
    kept = partial(harness)
    assert 0 < kept < len(model())
    harness.here("run", "--model", NAME, "--dry-run")
    assert hub.requests[-1].headers["range"] == f"bytes={kept}-"
    assert [path.read_bytes() for path in whole(harness)] == [model()]
    assert partial(harness) == 0


def test_two_processes_at_once(hub: StandIn, harness: Harness, new_harness: type[Harness], tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = new_harness(tmp_path / "other")
    other.environment = harness.environment
    hub.hooks.append(paused := Paused())
    with harness.start("run", "--model", NAME, "--dry-run") as first:
        wait_for(lambda: partial(harness) > 0, first)
        with other.start("run", "--model", NAME, "--dry-run") as second:
            wait_for(lambda: "waiting for it" in other.stderr(), second)
            paused.released.set()
    assert (first.returncode, second.returncode) == (0, 0)
    assert "another `bench` is fetching files of this commit; waiting for it" in other.stderr()
    assert "net/onnx/native/raw/onnxruntime/cpu/b1t1" in (other.folder / "stdout").read_text()
    assert [path.read_bytes() for path in whole(harness)] == [model()]
    assert len(hub.asked("cdn")) == 1
