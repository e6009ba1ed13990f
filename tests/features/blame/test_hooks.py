"""What other commands and the guard say of a slowdown that is planted in a model: all of it is measured."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.cli.commands import app
from bench.plugins import catalog
from support.features import needs
from support.planted import write

PLUGINS = Path(__file__).parents[3] / "benchmarks" / "plugins"
CELL = "onnx/native/{}/onnxruntime/cpu/b1t1"
GUARDED = """
from pathlib import Path
from bench.testing import guard

HERE = Path(__file__).parent

def test_slow(guard):
    guard(HERE / "slow.onnx", pinned=HERE / "plain.onnx", blame_s=60)
"""

pytestmark = [pytest.mark.thorough, pytest.mark.timing]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with both models and a cache of its own."""
    write(tmp_path / "plain.onnx")
    write(tmp_path / "slow.onnx", "slow")
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def check_blamed(text: str, node: str, *, least_share: float) -> None:
    """That a line names the node, most of the difference, and a folder that is there."""
    shown = re.search(r"slower by \S+ \[\S+, \S+\] %; (\S+) % of that is (\S+) \(MatMul\): reproducer in (\S+)", text)
    assert shown is not None, text
    assert shown[2] == node
    assert least_share < float(shown[1]) < 130
    assert (Path(shown[3]) / "reproduce.py").is_file()


def test_the_guards_message_names_the_part(folder: Path) -> None:
    (folder / "test_mine.py").write_text(GUARDED)
    (folder / "pytest.ini").write_text("[pytest]\n")  # or settings of a folder above hold
    # The guard measures nothing in one of several processes of pytest, of which this is none.
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    environment = {**outside, "BENCH_PATH": "", "PYTEST_ADDOPTS": ""}

    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=280)

    assert "1 failed" in done.stdout, done.stdout + done.stderr
    check_blamed(done.stdout, "product_5", least_share=50)


@needs("compare")
def test_a_comparison_of_stored_cells_names_the_part(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_PATH", str(PLUGINS))
    raw, planted = (CELL.format(variant) for variant in ("raw", "plant-kernel0"))
    run("run", "--model", "plain.onnx", raw, planted, "--launches", "4")
    monkeypatch.setenv("BENCH_PATH", str(PLUGINS))  # as in another process, which knows the model no more
    catalog.forget()

    text = run("compare", f"plain/{raw}", f"plain/{planted}", "--blame")

    check_blamed(text, "product_0", least_share=50)


@needs("bisect")
def test_a_bisection_names_the_part(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two releases of which the later one runs the slow file in place of the other."""
    from bench.decisions import check
    from bench.features.bisect import bisecting, releases
    from bench.measure.limits import Limits

    pair = check.pair_of_files(Path("plain.onnx"), Path("slow.onnx"), limits=Limits.of(step_s=None, memory_bytes=None))
    versions = {"1.0": pair.pinned, "1.1": pair.new}
    monkeypatch.setattr(releases, "between", lambda package, good, bad: [*versions])
    monkeypatch.setattr(bisecting.Releases, "verified", lambda self, version: versions[version])

    text = run("bisect", "onnxruntime", "--good", "1.0", "--bad", "1.1", "--cell", pair.pinned.cell.path, "--blame")

    assert "onnxruntime 1.1 is the first bad one of 2 releases, after 1.0" in text
    check_blamed(text, "product_5", least_share=50)
