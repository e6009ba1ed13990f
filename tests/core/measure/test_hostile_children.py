"""Children whose code works against their parent: nothing of them is left, and no answer is forged.

Each child runs an operation of this project's worker as a trusted model's code could: in other sessions, with other
pipes, with the files that the worker has open.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.api.errors import ChildError
from bench.measure import keeper, scratch
from bench.measure.process import Child

MIB = 2**20
OPERATIONS = '''
"""Operations that work against their parent."""

import os, pathlib, signal, subprocess, sys, tempfile, time


def daemon(note):
    """Fork twice, into a session of its own, deaf to SIGTERM, at the highest priority that it can have."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            os.closerange(0, 100)
            try:
                os.nice(-20)
            except OSError:
                pass
            with open(note, "a") as file:
                file.write(f"{os.getpid()}\\n")
            time.sleep(60)
        os._exit(0)
    while not os.path.exists(note) or not open(note).read().endswith("\\n"):
        time.sleep(0.01)
    return {}


def daemon_and(note, ending):
    daemon(note)
    {"crash": os.abort, "leave": lambda: os._exit(3), "hang": lambda: time.sleep(60)}[ending]()


def breed(note):
    """Start processes for as long as it can, each in a session of its own."""
    while True:
        if os.fork() == 0:
            os.setsid()
            with open(note, "a") as file:
                file.write(f"{os.getpid()}\\n")
            time.sleep(60)
        time.sleep(0.01)


def flood(num_bytes):
    line = b"x" * (1 << 20)
    for _ in range(num_bytes >> 20):
        os.write(2, line)
    time.sleep(1.5)
    os.write(2, b"the end\\n")
    return {"log_bytes": os.fstat(2).st_size}


def forge(text):
    for number in range(100):
        try:
            os.write(number, text.encode())
        except OSError:
            pass
    return {"answer": 42}


def read_all():
    return {"read": sys.stdin.read(), "raw": os.read(0, 100).decode()}


def fill():
    pathlib.Path(tempfile.gettempdir(), "large").write_bytes(bytes(1 << 20))
    closed = pathlib.Path(tempfile.mkdtemp(), "closed")
    closed.mkdir()
    (closed / "file").touch()
    closed.chmod(0)
    return {"folder": tempfile.gettempdir()}


def echo():
    return {}
'''
operations = types.ModuleType("operations_against")
exec(OPERATIONS, vars(operations))  # the child imports the file of that name, which `_operations` writes


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, which is empty."""
    (tmp_path / "operations_against.py").write_text(OPERATIONS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def running(note: Path) -> list[int]:
    """Which of the processes that noted themselves are still there."""
    return [pid for pid in map(int, note.read_text().split()) if is_running(pid)]


def wait_until(condition: Callable[[], bool], limit_s: float = 10) -> bool:
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_daemon_ends_with_its_worker(tmp_path: Path) -> None:
    note = tmp_path / "note"
    with Child() as child:
        child.request(operations.daemon, timeout_s=30, note=str(note))
        assert len(running(note)) == 1
    assert running(note) == []


@pytest.mark.parametrize(
    ("ending", "kind"), [("crash", "signal"), ("leave", "exit"), ("hang", "timeout")], ids=["crash", "leave", "hang"]
)
def test_daemon_ends_however_its_worker_ends(tmp_path: Path, ending: str, kind: str) -> None:
    note = tmp_path / "note"
    with Child() as child:
        child.request(operations.echo, timeout_s=30)
        timeout_s = 1 if ending == "hang" else 30
        with pytest.raises(ChildError) as raised:
            child.request(operations.daemon_and, timeout_s=timeout_s, note=str(note), ending=ending)
        assert raised.value.kind == kind
        assert wait_until(lambda: not running(note))
    assert note.read_text()


def test_breeding_processes_are_all_ended(tmp_path: Path) -> None:
    note = tmp_path / "note"
    with Child() as child:
        with pytest.raises(ChildError, match="no answer within 1 s"):
            child.request(operations.breed, timeout_s=1, note=str(note))
        assert len(note.read_text().split()) > 5
        assert running(note) == []


PARENT = """
import sys, operations_against
from bench.measure.process import Child
child = Child()
child.request(operations_against.fill, timeout_s=30)
child.request(operations_against.daemon, timeout_s=30, note=sys.argv[1])
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_nothing_outlives_a_parent_that_is_killed(tmp_path: Path, temporary: Path) -> None:
    note = tmp_path / "note"
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(note)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
    ) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        assert running(note)
        assert list(temporary.glob(f"{scratch.PREFIX}*"))
        os.killpg(parent.pid, signal.SIGKILL)
    assert wait_until(lambda: not running(note) and not is_running(worker))
    assert wait_until(lambda: not list(temporary.iterdir()))


def test_log_does_not_fill_the_disk() -> None:
    num_bytes = keeper.MOST_LOG_BYTES + 16 * MIB
    with Child() as child:
        kept = child.request(operations.flood, timeout_s=60, num_bytes=num_bytes)["log_bytes"]
        assert kept <= keeper.MOST_LOG_BYTES
        assert kept < num_bytes
        with pytest.raises(ChildError) as raised:
            child.request(operations.daemon_and, timeout_s=30, note="/", ending="leave")
        assert "the end" in raised.value.detail


@pytest.mark.parametrize(
    "text",
    [
        '{"id": 1, "result": {}}\n',
        '{"id": 1, "error": "forged", "kind": "error", "traceback": ""}\n',
        "[]\n",
        "17\n",
        "no JSON\n",
        "[" * 100_000 + "\n",
        "without a newline",
    ],
    ids=["result", "error", "list", "number", "text", "nested", "cut"],
)
def test_forged_answers_are_refused_in_one_line(text: str) -> None:
    with Child() as child:
        with pytest.raises(ChildError) as raised:
            child.request(operations.forge, timeout_s=30, text=text)
        assert raised.value.reason == "its answer cannot be read: code that it ran wrote to files that are not its own"


def test_endless_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.measure.process.MOST_REPLY_BYTES", 50_000)
    monkeypatch.setattr("bench.measure.process.ENDING_S", 0.2)
    with Child() as child, pytest.raises(ChildError):
        child.request(operations.forge, timeout_s=30, text="x" * 60_000)


def test_requests_are_not_a_models_input() -> None:
    with Child() as child:
        assert child.request(operations.read_all, timeout_s=30) == {"read": "", "raw": ""}
        assert child.request(operations.echo, timeout_s=30) == {}


@pytest.mark.timing
def test_time_limit_holds_before_the_worker_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that never starts to read does not stop its parent, however long the request."""
    stuck = Path(tempfile.gettempdir(), "stuck.py")
    stuck.write_text("import time; time.sleep(60)")
    monkeypatch.setattr(keeper, "__file__", str(stuck))
    monkeypatch.setattr("bench.measure.process.ENDING_S", 0.2)
    start_s = time.monotonic()
    with Child() as child, pytest.raises(ChildError, match=r"no answer within 0\.5 s"):
        child.request(operations.forge, timeout_s=0.5, text="x" * MIB)
    assert time.monotonic() - start_s < 5


def test_folder_of_a_worker_is_its_own_and_goes_with_it(temporary: Path) -> None:
    with Child() as child:
        folder = Path(child.request(operations.fill, timeout_s=30)["folder"])
        assert folder.parent == temporary
        assert (folder / "large").stat().st_size == MIB
    assert list(temporary.iterdir()) == []


def test_leftovers_are_removed_and_folders_in_use_are_not(temporary: Path) -> None:
    old = time.time() - 2 * scratch.YOUNG_S
    with scratch.Scratch() as used:
        left, young = temporary / f"{scratch.PREFIX}left", temporary / f"{scratch.PREFIX}young"
        others, target = temporary / "others", temporary / "target"
        for folder in (left, young, others, target):
            folder.mkdir()
            (folder / "file").touch()
        link = temporary / f"{scratch.PREFIX}link"
        link.symlink_to(target)
        for folder in (left, used, others, target):
            os.utime(folder, (old, old))
        scratch.remove_leftovers.cache_clear()
        scratch.remove_leftovers(temporary)
        assert used.is_dir()
        assert sorted(path.name for path in temporary.iterdir()) == sorted(
            path.name for path in (used, young, others, target, link)
        )
        assert (target / "file").exists()
    assert not used.exists()
