"""Bad input at the real command line: exit code 2, one clear line on stderr, and nothing lost."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
import pytest
from onnx import TensorProto, helper

from bench.api.errors import StoreError
from bench.measure import machine
from bench.records.lines import Header
from bench.records.store import Store, read_file
from support import records as made

if TYPE_CHECKING:
    from conftest import Harness

COMMAND = Path(sys.executable).with_name("bench")
TOY = "toy/null/native/raw/null/cpu/b1t1"
SHORT = ("--budget", "1s", "--launches", "1")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, new_harness: type[Harness]) -> Path:
    """The results of a run, to copy."""
    harness = new_harness(tmp_path_factory.mktemp("measured"))
    harness.here("run", TOY, *SHORT)
    return harness.folder / "results"


def refused(harness: Harness, *arguments: str, after_progress: bool = False) -> str:
    """The one line that says why, after the lines that tell how far it was."""
    harness.here(*arguments, code=2)
    return only_line(harness.stderr(), after_progress=after_progress)


def only_line(stderr: str, *, after_progress: bool = False) -> str:
    assert "Traceback" not in stderr
    lines = stderr.splitlines()
    assert after_progress or len(lines) == 1, lines
    assert [line.startswith("bench: ") for line in lines] == [False] * (len(lines) - 1) + [True]
    return lines[-1]


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def save_model(path: Path) -> bytes:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8]) for name in ("x", "y"))
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "graph", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path.write_bytes(model.SerializeToString())
    return path.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["runn"], "did you mean 'run'"),
        (["run", "--marginn", "2%"], "no such option.*--margin"),
        (["run", "--launches", "0"], "--launches.*1"),
        (["show", "--format", "xml"], "'xml'.*'table', 'md', 'csv', 'json', 'latex'"),
        (["run", "toyy/*"], "no cell matches 'toyy/.*did you mean 'toy'"),
        (["run", "toy/null/native/raw/null/cpu/b0t1"], "not a cell.*b1t1"),
        (["run", "super_resolution/torch/torch_onnx/onnxsimm/onnxruntime/cpu/b1t1"], "did you mean 'onnxsim'"),
        (["run", "super_resolution/*/onnxsimm/*"], "did you mean 'onnxsim'"),
        (["run", "super_resolution/torch/torch_onnx/raw/onnxruntim/cpu/b1t1"], "did you mean 'onnxruntime'"),
        (["run", "--sweep", "quik"], "no sweep named 'quik'; did you mean 'quick'"),
        (["run", "toy", "--budget", "soon"], "not a duration: 'soon'; write 5ms, 90s, 10m"),
        (["run", "toy", "--budget", "0s"], "not a duration: '0s'"),
        (["run", "toy", "--timeout", "-5s"], "not a duration: '-5s'"),
        (["run", "toy", "--margin", "small"], "not a share: 'small'; write 2%"),
        (["run", "toy", "--margin", "200%"], "not a share between 0 and 100 %: '200%'"),
        (["run", "toy", "--memory", "4"], "not a size: '4'; write 500kB, 10MB or 4GiB"),
        (["run", "--model", "missing.onnx"], "no such file or folder: missing.onnx"),
        (
            ["run", "--model", "."],
            r"no task\.py, saved_model\.pb, modules\.json or config\.json in .*--model takes a \.keras file",
        ),
        (["run", "--dim", "N=4"], "has no dimension 'N' of any size; its dimensions of any size"),
        (["run", "--shape", "x=1x4"], "--dim, --shape and --trust are about a model of your own; name it with --model"),
        (["run", "mine.onnx"], r"no cell matches 'mine.onnx'; to measure .*mine.onnx: `bench run --model mine.onnx`"),
        (["show"], "no such folder: results; `bench run --model FILE` makes it, or `bench run` with cells"),
        (["plot"], "no such folder: results; `bench run --model FILE` makes it, or `bench run` with cells"),
        ([], "no command"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage(arguments: list[str], says: str, harness: Harness, tmp_path: Path) -> None:
    save_model(tmp_path / "mine.onnx")
    harness.here(*arguments, code=2)
    assert re.search(says, only_line(harness.stderr()), re.IGNORECASE)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("name", "damage", "says"),
    [
        ("empty.onnx", lambda whole: b"", "empty.onnx is empty"),
        ("cut.onnx", lambda whole: whole[: len(whole) // 2], "cut.onnx: it is not an ONNX file, or only a part of one"),
        ("text.onnx", lambda whole: b"Dear reader,\nthis is no model.\n", "text.onnx: it is not an ONNX file"),
        ("unknown_field.onnx", lambda whole: b"h\x00", "unknown_field.onnx: it is not an ONNX file"),
        ("model.pb", lambda whole: whole, "model.pb is of no kind that can be measured; --model takes a .keras file"),
    ],
    ids=lambda value: value.removesuffix(".onnx") if isinstance(value, str) and " " not in value else "",
)
def test_a_file_that_is_no_model(
    name: str, damage: Callable[[bytes], bytes], says: str, harness: Harness, tmp_path: Path
) -> None:
    path = tmp_path / name
    data = damage(save_model(path))
    path.write_bytes(data)
    harness.here("run", "--model", name, code=2)
    assert says in only_line(harness.stderr())
    assert path.read_bytes() == data
    assert not (tmp_path / "results").exists()


def test_a_task_that_does_not_load(harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "task.py").write_text("import no_such_package\n")
    assert "no_such_package" in refused(harness, "run", "--model", "mine")


def test_results_that_are_a_file(tmp_path: Path) -> None:
    """By the command that is installed."""
    (tmp_path / "results").write_text("mine\n")
    environment = {**os.environ, "BENCH_CACHE": str(tmp_path / "cache"), "BENCH_PATH": ""}
    done = subprocess.run(
        [COMMAND, "run", TOY], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert "cannot write to results" in only_line(done.stderr)
    assert (tmp_path / "results").read_text() == "mine\n"


def test_a_cache_that_is_a_file(harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine\n")
    save_model(tmp_path / "model.onnx")
    harness.environment["BENCH_CACHE"] = str(tmp_path / "taken")
    line = refused(harness, "run", TOY, after_progress=True)
    assert f"cannot use {tmp_path / 'taken'}" in line
    assert "BENCH_CACHE" in line
    line = refused(harness, "run", "--model", "model.onnx")
    assert f"cannot use {tmp_path / 'taken'}" in line
    assert (tmp_path / "taken").read_text() == "mine\n"


@pytest.mark.parametrize("damage", [b"{not json}", b"\x00\xff\xfe", b"[]"], ids=["text", "bytes", "json"])
def test_results_damaged_in_the_middle(damage: bytes, harness: Harness, tmp_path: Path) -> None:
    folder = tmp_path / "results" / machine.name()
    store = Store(tmp_path / "results", machine.name())
    folder.mkdir(parents=True)
    for line in (Header(key="0" * 24, cell=TOY), made.QUALITY, made.launch("a", "cell", 1000)):
        store.append("0" * 24, line)
    (path,) = folder.glob("*.jsonl")
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([lines[0], damage, lines[2], b""]))
    before = content(folder)
    assert [row["num_launches"] for row in harness.shown().values()] == [1]
    (line,) = harness.stderr().splitlines()
    assert line.startswith("bench: 1 part of the stored results cannot be read")
    assert f"{path.name}, line 2: " in line
    assert content(folder) == before


def test_a_run_goes_on_over_damaged_lines_and_loses_no_launch(harness: Harness, measured: Path, tmp_path: Path) -> None:
    shutil.copytree(measured, tmp_path / "results")
    (path,) = (tmp_path / "results").glob("*/*.jsonl")
    lines = path.read_bytes().splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    num_launches = kinds.count("launch")
    assert kinds[:2] == ["cell", "quality"]
    damaged = b"\n".join([b'{"kind":"cell","key":3}', b"\xff\xfe", *lines[2:], b"NaN", b""])
    path.write_bytes(damaged)
    (path.parent / "current.json").write_text("[[[")
    harness.here("run", TOY, *SHORT)
    assert f"{path.name}, line 1, key: " in harness.stderr()
    assert path.read_bytes().startswith(damaged)
    assert path.read_bytes().count(b'"kind":"launch"') >= num_launches
    row = harness.shown()[TOY]
    assert row["status"] == "ok"
    assert row["num_launches"] >= kinds.count("launch") // 2  # half are of the control
    assert set(json.loads((path.parent / "current.json").read_text())) == {TOY}


def test_a_second_run_beside_the_first(harness: Harness, tmp_path: Path) -> None:
    folder = tmp_path / "results" / machine.name()
    folder.mkdir(parents=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another `bench` is writing" in refused(harness, "run", TOY)
    assert list(folder.iterdir()) == [folder / ".lock"]


def mount(*arguments: str | Path) -> None:
    """Mount something; skip where that is not allowed."""
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot mount: {done.stderr.strip()}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own, as the results folder."""
    folder = tmp_path / "results"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    mount("-t", "tmpfs", "-o", "size=512k", "tmpfs", folder)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def fill(path: Path) -> None:
    """Write a file until the disk is full."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1024))


def test_a_read_only_disk(harness: Harness, measured: Path, disk: Path) -> None:
    shutil.copytree(measured, disk, dirs_exist_ok=True)
    before = content(disk)
    mount("-o", "remount,ro", disk)
    assert "choose another folder with --results" in refused(harness, "run", TOY, "--force")
    assert content(disk) == before
    assert set(harness.shown()) == {TOY}


def test_a_full_disk(harness: Harness, measured: Path, disk: Path) -> None:
    shutil.copytree(measured, disk, dirs_exist_ok=True)
    before = content(disk)
    fill(disk / "filler")
    line = refused(harness, "run", "toy", *SHORT, "--force", after_progress=True)
    assert "free some space and run again; everything finished so far is kept" in line
    for name, data in before.items():
        assert (disk / name).read_bytes().startswith(data)
        if name.endswith(".jsonl"):
            assert len(read_file(disk / name).lines) >= data.count(b"\n")
    (disk / "filler").unlink()
    harness.here("run", "toy", *SHORT)


@pytest.mark.parametrize("left_bytes", [0, 4096], ids=["folder", "model"])
def test_a_full_cache(left_bytes: int, harness: Harness, disk: Path, tmp_path: Path) -> None:
    """The disk of the cache is full: for the folder of the model's task, or for the files in it."""
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[N,4] x) => (float[N,5000] y) { y = MatMul (x, w) }'
    model = onnx.parser.parse_model(text)
    model.graph.initializer.add(name="w", data_type=1, dims=[4, 5000], raw_data=bytes(80_000))
    onnx.save(model, tmp_path / "model.onnx")
    fill(disk / "filler")
    if left_bytes:
        os.truncate(disk / "filler", (disk / "filler").stat().st_size - left_bytes)
    harness.environment["BENCH_CACHE"] = str(disk / "cache")
    line = refused(harness, "run", "--model", "model.onnx", "--dry-run")
    assert "the disk of the cache or of temporary files is full; free some space and run again, or name folders" in line
    (disk / "filler").unlink()
    harness.here("run", "--model", "model.onnx", "--dry-run")


def test_no_space_in_the_middle_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path, "here")
    store.folder.mkdir()
    store.append("key", Header(key="key", cell=TOY))
    before = content(store.folder)
    write = os.pwrite
    written = []

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        if written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(write(descriptor, data[:10], offset))
        return written[-1]

    monkeypatch.setattr("bench.records.store.os.pwrite", pwrite)
    with pytest.raises(StoreError, match=r"No space left on device \(free some space and run again") as caught:
        store.append("key", made.launch("a", "cell", 1, steady_ns=(tuple(range(1000)),)))
    assert written == [10], "the line was begun"
    assert "\n" not in str(caught.value)
    assert content(store.folder) == before
