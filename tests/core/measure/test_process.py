"""Child processes: however a child ends, its parent is told why, and no process is left.

The children here run `worker_that_fails`, this project's worker with operations that fail for real.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench.api.errors import ChildError
from bench.measure.process import Child, ask_once, thread_environment
from bench.measure.session import Worker
from bench.records import error_location

MIB = 2**20
OPERATIONS = '''
"""Operations that fail."""

import ctypes, os, signal, socket, subprocess, sys, time
import multiprocessing


def echo(**arguments):
    return arguments


def fail(text):
    raise ValueError(text)


def leave(status):
    os._exit(status)


def crash():
    ctypes.string_at(0)


def end(number):
    os.kill(os.getpid(), number)
    time.sleep(60)


def hang():
    print("still here", flush=True)
    time.sleep(60)


def spin():
    while True:
        pass


def take(num_bytes):
    return {"taken": len(bytearray(b"1") * num_bytes)}


def take_in_c(num_bytes):
    print("terminate called after throwing an instance of 'std::bad_alloc'", file=sys.stderr, flush=True)
    os.abort()


def chatter():
    print("to stdout")
    print('{"result": "forged"}', flush=True)
    os.write(1, b'{"result": "forged"}\\n')
    subprocess.run(["echo", '{"result": "forged"}'], check=True)
    sys.stderr.write("to stderr\\n")
    return {"answer": 42}


def connect(port):
    socket.create_connection(("127.0.0.1", port), timeout=5).close()
    return {}


def spawn():
    return {"pid": subprocess.Popen(["sleep", "60"]).pid}


def fork_and_die():
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
    os.kill(os.getpid(), signal.SIGSEGV)


def variable(name):
    return {"value": os.environ.get(name)}


def not_json():
    return {"value": object()}


def not_a_number():
    return {"value": float("nan")}


def close_output():
    sys.stdout.flush()
    os.closerange(3, 100)
    time.sleep(60)

'''
operations = types.ModuleType("operations_that_fail")
exec(OPERATIONS, vars(operations))  # the child imports the file of that name, which `_operations` writes


@pytest.fixture(autouse=True)
def _operations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "operations_that_fail.py").write_text(OPERATIONS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)


@pytest.fixture
def child() -> Iterator[Child]:
    with Child() as child:
        yield child


def failure(child: Child, operation: str, timeout_s: float = 30, **arguments: Any) -> ChildError:
    with pytest.raises(ChildError) as raised:
        child.request(getattr(operations, operation), timeout_s=timeout_s, **arguments)
    return raised.value


def state(pid: int) -> str | None:
    """One letter from /proc, such as `S` (asleep) or `Z` (a zombie); None when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the second where it ends between opening and reading
        return None


def wait_until(condition: Callable[[], bool], limit_s: float = 10) -> bool:
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def is_gone(pid: int) -> bool:
    return state(pid) in (None, "Z")  # what reaps orphans is not ours to test


def test_answers_in_turn(child: Child) -> None:
    for number in range(3):
        assert child.request(operations.echo, timeout_s=30, number=number, text="ä\n\u2028") == {
            "number": number,
            "text": "ä\n\u2028",
        }


def test_answer_longer_than_a_pipe_holds(child: Child) -> None:
    values = list(range(100_000))
    assert child.request(operations.echo, timeout_s=30, values=values) == {"values": values}


def test_what_it_raises_is_told_and_it_lives_on(child: Child) -> None:
    error = failure(child, "fail", text="two\nlines")
    assert (error.kind, error.reason) == ("error", "ValueError: two lines")
    assert "raise ValueError(text)" in error.detail
    place = "Exception from src/core/src/node.cpp:212:"
    error = failure(child, "fail", text=f"{place} no such node")
    assert error.reason == "ValueError: no such node"
    assert place in error.detail
    assert child.request(operations.echo, timeout_s=30, a=1) == {"a": 1}


def test_long_messages_lack_their_middle(child: Child) -> None:
    reason = failure(child, "fail", text=f"the step {'x' * 10_000} the culprit").reason
    assert reason.startswith("ValueError: the step x")
    assert reason.endswith("x the culprit")
    assert len(reason) < 350


@pytest.mark.parametrize("status", [0, 3])
def test_exit(child: Child, status: int) -> None:
    error = failure(child, "leave", status=status)
    assert (error.kind, error.reason) == ("exit", f"exited with status {status} without an answer")


def test_segmentation_fault(child: Child) -> None:
    error = failure(child, "crash")
    assert (error.kind, error.reason) == ("signal", "killed by SIGSEGV")


def test_kill_from_outside_hints_at_memory(child: Child) -> None:
    error = failure(child, "end", number=int(signal.SIGKILL))
    assert error.kind == "signal"
    assert error.reason == "killed by SIGKILL, perhaps by the system for want of memory"


def test_signal_without_a_name(child: Child) -> None:
    assert failure(child, "end", number=int(signal.SIGRTMIN) + 5).kind == "signal"


def test_dead_child_says_so_at_every_request(child: Child) -> None:
    failure(child, "crash")
    assert failure(child, "echo").reason == "killed by SIGSEGV"
    assert failure(child, "echo").reason == "killed by SIGSEGV"


@pytest.mark.timing
@pytest.mark.parametrize("operation", ["hang", "spin"])
def test_hang_is_ended_at_its_time_limit(child: Child, operation: str) -> None:
    child.request(operations.echo, timeout_s=30)
    start_s = time.monotonic()
    error = failure(child, operation, timeout_s=0.5)
    assert 0.5 <= time.monotonic() - start_s < 5
    assert (error.kind, error.reason) == ("timeout", "no answer within 0.5 s")
    assert state(child.pid) is None
    if operation == "hang":
        assert "still here" in error.detail
    place = error_location.place(error)
    assert place is not None
    assert re.fullmatch(rf"in {operation}: operations_that_fail\.py, line \d+", place)


def test_output_closed_without_an_answer(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = subprocess.Popen.wait

    def impatient(self: subprocess.Popen, timeout: float | None = None) -> int:
        return wait(self, timeout and 0.2)

    monkeypatch.setattr(subprocess.Popen, "wait", impatient)
    error = failure(child, "close_output")
    assert (error.kind, error.reason) == ("exit", "closed its output without an answer")
    assert state(child.pid) is None


def test_memory_limit() -> None:
    with Child(memory_bytes=512 * MIB) as child:
        if not child.request(Worker.protection, timeout_s=30)["memory_limited"]:
            pytest.skip("this system cannot limit memory")
        assert child.request(operations.take, timeout_s=30, num_bytes=64 * MIB) == {"taken": 64 * MIB}
        error = failure(child, "take", num_bytes=1024 * MIB)
        assert (error.kind, error.reason) == ("memory", "out of memory (limit 0.5 GiB)")
        assert child.request(operations.echo, timeout_s=30) == {}


def test_native_code_that_aborts_for_want_of_memory(child: Child) -> None:
    error = failure(child, "take_in_c", num_bytes=1)
    assert (error.kind, error.reason) == ("memory", "out of memory")


def test_what_a_package_prints_is_not_an_answer(child: Child) -> None:
    assert child.request(operations.chatter, timeout_s=30) == {"answer": 42}
    assert child.request(operations.echo, timeout_s=30, a=1) == {"a": 1}
    detail = failure(child, "fail", text="now").detail
    assert "to stdout" in detail
    assert "to stderr" in detail


@pytest.mark.parametrize(("operation", "expected"), [("not_json", "TypeError"), ("not_a_number", "ValueError")])
def test_answer_that_is_not_json_is_an_error_of_the_plugin(child: Child, operation: str, expected: str) -> None:
    error = failure(child, operation)
    assert error.kind == "error"
    assert expected in error.reason
    assert child.request(operations.echo, timeout_s=30) == {}


def test_no_network() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, Child() as child:
        if not child.request(Worker.protection, timeout_s=30)["no_network"]:
            pytest.skip("this system cannot shut the network off")
        port = server.getsockname()[1]
        socket.create_connection(("127.0.0.1", port), timeout=5).close()  # it does listen
        error = failure(child, "connect", port=port)
        assert "OSError" in error.reason or "unreachable" in error.reason or "refused" in error.reason
        server.accept()[0].close()  # our own
        server.settimeout(0.1)
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.mark.parametrize("how", ["close", "timeout"])
def test_what_it_started_ends_with_it(how: str) -> None:
    with Child() as child:
        pid = child.request(operations.spawn, timeout_s=30)["pid"]
        assert state(pid) is not None
        if how == "timeout":
            failure(child, "hang", timeout_s=0.1)
            assert wait_until(lambda: is_gone(pid))
    assert wait_until(lambda: is_gone(pid))


@pytest.mark.timing
def test_death_is_noticed_though_a_fork_holds_the_pipe(child: Child) -> None:
    """A worker that crashes in a package which forks is a crash, and not a hang."""
    start_s = time.monotonic()
    error = failure(child, "fork_and_die", timeout_s=20)
    assert (error.kind, error.reason) == ("signal", "killed by SIGSEGV")
    assert time.monotonic() - start_s < 10


PARENT = """
import sys
import operations_that_fail
from bench.measure.process import Child
child = Child()
child.request(operations_that_fail.echo, timeout_s=30)
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_dies_with_its_parent() -> None:
    busy = PARENT.replace(
        "sys.stdin.read()", "child.request(operations_that_fail.spin, timeout_s=60)"
    )  # so that it reads no pipe's end
    with subprocess.Popen([sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert wait_until(lambda: state(pid) == "R")
        parent.kill()
    assert wait_until(lambda: is_gone(pid))


@pytest.mark.parametrize("child", ["Child()", "Child(modules=('decimal',))"], ids=["started", "forked"])
def test_ctrl_c_is_its_parents(child: str) -> None:
    """Neither the terminal's signal, which goes to the parent's group, nor one sent to each ends child or template."""
    code = PARENT.replace("Child()", child).replace(
        "sys.stdin.read()", "sys.stdin.readline(); print(child.request(operations_that_fail.echo, timeout_s=30, a=1))"
    )
    code = "import signal; signal.signal(signal.SIGINT, lambda *_: None)\n" + code
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert os.getpgid(pid) != os.getpgid(parent.pid)
        os.killpg(parent.pid, signal.SIGINT)
        for process in psutil.Process(parent.pid).children(recursive=True):
            process.send_signal(signal.SIGINT)
        output, _ = parent.communicate(b"\n", timeout=30)
    assert output == b"{'a': 1}\n"


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {"HF_TOKEN": None, "HUGGING_FACE_HUB_TOKEN": None}
    for name in secrets:
        monkeypatch.setenv(name, "secret")
    with Child(environment={"OMP_NUM_THREADS": "3", "MINE": "yes"}) as child:
        found = {
            name: child.request(operations.variable, timeout_s=30, name=name)["value"]
            for name in ("OMP_NUM_THREADS", "MINE", "HF_HUB_OFFLINE", *secrets)
        }
    assert found == {"OMP_NUM_THREADS": "3", "MINE": "yes", "HF_HUB_OFFLINE": "1", **secrets}
    assert thread_environment(3)["OPENBLAS_NUM_THREADS"] == "3"


def test_close_after_death() -> None:
    child = Child()
    failure(child, "crash")
    child.close()
    child.kill()
    assert state(child.pid) is None


@pytest.mark.timing
def test_waiting_uses_no_cpu(child: Child) -> None:
    """A parent that polls would take time from the child that it times."""
    child.request(operations.echo, timeout_s=30)
    before = time.process_time()
    failure(child, "hang", timeout_s=0.5)
    assert time.process_time() - before < 0.05


def test_one_request_in_a_child_of_its_own() -> None:
    assert ask_once(Worker.protection, timeout_s=30, memory_bytes=None)["memory_method"] in ("kernel", "polling")
    gone = types.FunctionType(operations.echo.__code__, {"__name__": "bench.gone"})
    with pytest.raises(ChildError, match="ModuleNotFoundError") as raised:
        ask_once(gone, timeout_s=30, memory_bytes=None)
    assert json.dumps(raised.value.reason)


@pytest.mark.parametrize(
    "answer", ['{"id": "n"}', '{"id": "n", "result": 3}', '{"id": "n", "error": "x"}', '["n"]', '"n"', "n"]
)
def test_answer_of_another_form_is_refused_as_broken(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda _: "n")
    monkeypatch.setattr(Child, "_read_line", lambda *_: answer.encode())
    with Child() as child, pytest.raises(ChildError, match="its answer cannot be read"):
        child.request(Worker.protection, timeout_s=30)


@pytest.mark.parametrize("modules", [None, []])
def test_only_a_worker_that_is_timed_runs_before_others(modules: list[str] | None) -> None:
    """Preparing and verifying would keep a machine's other programs waiting for minutes."""
    with Child(memory_bytes=None, modules=modules) as child:
        has_priority = child.request(Worker.protection, timeout_s=30)["high_priority"]
        assert (os.getpriority(os.PRIO_PROCESS, child.pid) == -20) == has_priority
        if modules is not None:
            assert not has_priority
