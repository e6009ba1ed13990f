"""SIGINT and SIGTERM at any moment: one line, 130 or 143, no traceback, soon."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.api.errors import BenchError
from bench.cli import main
from bench.cli.stopping import LATEST_S, Stopping
from support.features import needs

LINE = "bench: stopped; {} kept; the same command goes on\n"
AT_IMPORT = """
import os, signal, sys
number, name = int(sys.argv.pop(1)), sys.argv.pop(1)

class Sends:
    def find_spec(self, wanted, *_):
        if wanted == name:
            os.kill(os.getpid(), number)

sys.meta_path.insert(0, Sends())
from bench.cli.main import main
main()
"""
DURING = """
import gc, hashlib, os, signal, sys, threading, time
from bench.cli.stopping import Stopped, Stopping

class Swallows:
    def __del__(self):
        signal.raise_signal(number)
        for _ in range(1000):  # it is raised here
            pass

def finalizer():
    Swallows()
    time.sleep(30)

def everything():
    try:
        signal.raise_signal(number)
    except BaseException:
        time.sleep(30)

def c_code():
    threading.Timer(0.2, os.kill, (os.getpid(), number)).start()
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", 200_000_000)

def twice():
    signal.raise_signal(number)
    signal.raise_signal(number)

def slow_end():
    try:
        signal.raise_signal(number)
    finally:
        for _ in range(20):
            signal.raise_signal(number)

def lost_at_the_end():
    try:
        signal.raise_signal(number)
    except BaseException:
        pass

number = int(sys.argv[1])
stopping = Stopping()
try:
    with stopping:
        globals()[sys.argv[2]]()
except Stopped:
    stopping.end()
print("it went on")
"""
MOMENTS = ("finalizer", "everything", "c_code", "twice", "slow_end", "lost_at_the_end")
Run = tuple[subprocess.CompletedProcess[str], float]


def run(code: str, *arguments: str, cwd: Path) -> Run:
    start_s = time.monotonic()
    found = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )
    return found, time.monotonic() - start_s


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("typer", signal.SIGINT),
        ("typer", signal.SIGTERM),
        ("bench.cli.commands", signal.SIGINT),
        ("bench.cli.pick", signal.SIGTERM),
        ("numpy", signal.SIGINT),
        ("bench.records.store", signal.SIGTERM),
        *(
            pytest.param(name, number, marks=pytest.mark.thorough)
            for name, number in (
                ("bench.cli.commands", signal.SIGTERM),
                ("bench.cli.pick", signal.SIGINT),
                ("numpy", signal.SIGTERM),
                ("bench.records.store", signal.SIGINT),
            )
        ),
    ],
)
def test_while_packages_are_imported(number: int, name: str, tmp_path: Path) -> None:
    cell = "toy/null/native/raw/null/cpu/b1t1"
    found, _ = run(AT_IMPORT, str(int(number)), name, "run", cell, "--dry-run", cwd=tmp_path)
    assert (found.returncode, found.stdout, found.stderr) == (128 + number, "", LINE.format("0 launches"))


def test_a_command_that_launches_nothing_tells_of_no_launches(tmp_path: Path) -> None:
    found, _ = run(AT_IMPORT, str(int(signal.SIGINT)), "typer", "pick", "toy", cwd=tmp_path)
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "bench: stopped\n")


@pytest.fixture(scope="module")
def stopped_at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, int], Run]]:
    """What a process does that is stopped at a moment: all run at once, for each waits until its last second."""
    folder = tmp_path_factory.mktemp("stopped")
    stops = [(moment, number) for moment in MOMENTS for number in (signal.SIGINT, signal.SIGTERM)]
    with ThreadPoolExecutor(len(stops)) as pool:
        runs = {
            (moment, number): pool.submit(run, DURING, str(int(number)), moment, cwd=folder) for moment, number in stops
        }
        yield lambda moment, number: runs[moment, signal.Signals(number)].result()


@pytest.mark.timing
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", MOMENTS)
def test_no_stop_is_lost(number: int, moment: str, stopped_at: Callable[[str, int], Run]) -> None:
    found, seconds = stopped_at(moment, number)
    assert (found.returncode, found.stdout, found.stderr) == (128 + number, "", LINE.format("0 launches"))
    assert seconds < LATEST_S + 5  # of which the most are the start of the process on a busy machine


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["load", "no/*", "--results", "/nowhere"], marks=needs("load")),
        pytest.param(["search", "--budget", "x"], marks=needs("search")),
        pytest.param(["fleet", "run", "--at", "x"], marks=needs("fleet")),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_command_that_stores_launches_says_so_before_it_does_anything_else(arguments: list[str]) -> None:
    stopping = Stopping(keeps=False)
    with pytest.raises((BenchError, SystemExit)):
        main.app(arguments, standalone_mode=False, obj=stopping)
    assert stopping.keeps


KEEPING = """
import os, signal, sys
from pathlib import Path
from bench.cli.keeping import KeepingStore
from bench.cli.stopping import Stopped, Stopping
from bench.records.lines import Reset
from support import records

def signalled(descriptor):
    signal.raise_signal(signal.SIGTERM)
    fsync(descriptor)

stopping, fsync = Stopping(), os.fsync
store = KeepingStore(Path.cwd(), "machine", stopping)
store.folder.mkdir()
try:
    with stopping:
        store.append("key", records.launch("b", "cell", 1))
        store.append("key", records.launch("b", "control", 1, superseded=True))
        store.append("key", Reset())
        os.fsync = signalled
        store.append("key", records.launch("b", "cell", 1))
        print("it went on")
except Stopped:
    stopping.end()
"""


def test_no_signal_comes_between_a_line_and_its_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)
    found, _ = run(KEEPING, cwd=tmp_path)
    assert (found.returncode, found.stdout, found.stderr) == (143, "", LINE.format("2 launches"))
    assert (tmp_path / "machine" / "key.jsonl").read_text().count("\n") == 4


def test_command_that_is_over_ends_with_its_own_exit_code(tmp_path: Path) -> None:
    code = "import signal\nfrom bench.cli.main import main\ntry:\n    main()\nfinally:\n"
    code += "    print(signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), signal.set_wakeup_fd(-1))"
    found, _ = run(code, "--version", cwd=tmp_path)
    assert found.returncode == 0
    assert found.stdout.splitlines()[-1] == f"{signal.SIG_IGN!s} {signal.SIG_IGN!s} -1"
