"""Texts name no home folder, user, host or absolute path of a person's, and keep what tells why something failed."""

from __future__ import annotations

import sys
import sysconfig
import time
from pathlib import Path

import pytest

import bench
from bench.api.places import without_places


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user, a host and a project of known names."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "zoe77")
    monkeypatch.setenv("HOME", "/home/zoe van dam")
    monkeypatch.setenv("BENCH_CACHE", "/srv/caches/b")
    monkeypatch.setattr("socket.gethostname", lambda: "lab-12.example.org")
    project = tmp_path / "zoe77" / "project"
    project.mkdir(parents=True)
    monkeypatch.chdir(project)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('File "/home/zoe van dam/proj/task.py", line 3', 'File ".../task.py", line 3'),
        ("cannot use /home/bob/models/m.onnx: No such file", "cannot use .../m.onnx: No such file"),
        ("C:\\Users\\bob\\models\\m.onnx", ".../m.onnx"),
        ("/root/.cache/torch/hub", ".../hub"),
        ("~/models/m.onnx", ".../m.onnx"),
        ("'/data/some one/m.onnx' is empty", "'.../m.onnx' is empty"),
        ("--model=/mnt/nfs/zoe77/z.pt", "--model=.../z.pt"),
        ("error:/data/q/z.pt", "error:.../z.pt"),
        ("file:///home/bob/x.onnx", "file:.../x.onnx"),
        ("/a-disk-of-another-machine/q/z.py:12", ".../z.py:12"),
        ("/opt/conda/lib/python3.11/site-packages/torch/nn/x.py:12", "site-packages/torch/nn/x.py:12"),
        ("/home/bob/.venv/lib/python3.11/site-packages/a/b.so", "site-packages/a/b.so"),
        ("/home/bob/.pyenv/versions/3.11/lib/python3.11/json/decoder.py", "python3.11/json/decoder.py"),
        ("/tmp/tmpa1/pytest-of-zoe77/m.onnx", "<temporary>/m.onnx"),
        ("/dev/shm/zoe77/m.onnx", "<temporary>/m.onnx"),
        ("/srv/caches/b/12ab/model.onnx", "<cache>/12ab/model.onnx"),
        ("zoe77@lab-12: no quota for zoe77", "<name>@<name>: no quota for <name>"),
        ("connect to lab-12.example.org", "connect to <name>"),
    ],
)
def test_places_of_a_person_are_left_out(text: str, expected: str) -> None:
    assert without_places(text) == expected
    assert without_places(expected) == expected, "twice is as good as once"


@pytest.mark.parametrize(
    "text",
    [
        "node '/encoder/layer.0/MatMul' of /encoder/layer.0/Add failed",
        "toy/null/native/raw/null/cpu/b1t1 / 2",
        "https://github.com/onnx/onnx/blob/main/setup.py says so",
        "/usr/lib/libm.so.6: undefined symbol",
        "/proc/self/status",
        "and/or; a // b; 1/2; /",
        "zoe771 and lab-123",
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert without_places(text) == text


def test_paths_are_relative_to_the_project_and_the_packages() -> None:
    package, packages = Path(bench.__file__).parent, sysconfig.get_path("purelib")
    for folder, stand_in in ((Path.cwd(), ""), (package, "bench/"), (packages, "site-packages/")):
        assert without_places(f'File "{folder}/a b/c.py", line 1') == f'File "{stand_in}a b/c.py", line 1'
    assert without_places(f"{Path.cwd()} is empty") == ". is empty"
    standard = sysconfig.get_path("stdlib")
    assert without_places(f"{standard}/json/x.py") == f"python3.{sys.version_info.minor}/json/x.py"


def test_places_of_the_system_are_left_out_of_what_is_sent() -> None:
    assert without_places("/usr/lib/libm.so.6 and /proc/self/x", system=False) == ".../libm.so.6 and .../x"


def test_a_short_name_of_a_host_stays_in_the_paths_of_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "vm")
    text = "tvm on vm: site-packages/tvm/vm/x.py, vm.py, my_vm, a-vm. It is vm."
    assert without_places(text) == "tvm on <name>: site-packages/tvm/vm/x.py, vm.py, my_vm, a-vm. It is <name>."


def test_texts_within_other_values() -> None:
    value = {"a": ["/home/bob/x.py", 1, None], "b": {"c": ("zoe77", 0.5)}}
    assert without_places(value) == {"a": [".../x.py", 1, None], "b": {"c": ["<name>", 0.5]}}


def test_a_long_text_takes_no_long_time() -> None:
    start = time.perf_counter()
    for text in ("/a" * 20_000, "/" * 40_000, "/a b" * 10_000, "'/" * 20_000, "\\x/" * 10_000, "C:/x" * 10_000):
        without_places(text)
    assert time.perf_counter() - start < 10


def test_no_login_of_an_address_stays() -> None:
    told = "cannot fetch https://bob:tok3n@packages.example/simple/, nor git+ssh://git@host.example/x"
    left = without_places(told)
    assert "tok3n" not in left
    assert "bob" not in left
    assert left == "cannot fetch https://packages.example/simple/, nor git+ssh://host.example/x"
