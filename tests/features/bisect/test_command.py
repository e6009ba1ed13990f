"""`bench bisect` as a command: what is known is said, whatever ends it."""

from __future__ import annotations

import subprocess
import sys

_INTERRUPTED = """
import os, signal, time
from bench.api.cell import Cell
from bench.features.bisect import bisecting, releases
from bench.features.bisect.bisecting import Bisected, Step
from bench.measure.stats import Estimate
from bench.pipeline import selection

def interrupted(*_, **__):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)

cell = Cell.from_path("toy/null/native/raw/demo/cpu/b1t1")
ratio = Estimate(value=1.1, low=1.05, high=1.15)
answer = Bisected(
    package="demo", cell=cell.path, versions=("1.0", "1.1", "1.2"), steps=(Step(version="1.2", ratio=ratio),), by=0.05,
    first_bad="1.1", last_good="1.0",
)
selection.select = lambda *_: [cell]
releases.between = lambda *_: answer.versions
bisecting.Releases = lambda *_, **__: None
bisecting.slower = lambda *_, **__: answer
bisecting.blamed = interrupted

from bench.cli.main import main
main()
"""
ARGUMENTS = ("bisect", "demo", "--good", "1.0", "--bad", "1.2", "--cell", "crnn", "--blame")


def test_the_release_is_not_lost_where_ctrl_c_ends_the_blame() -> None:
    command = [sys.executable, "-c", _INTERRUPTED, *ARGUMENTS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 130
    assert done.stdout.startswith("demo 1.1 is the first bad one of 3 releases, after 1.0: 1.100 [1.050, 1.150] times")
    assert "stopped" in done.stderr
