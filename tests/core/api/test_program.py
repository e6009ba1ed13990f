"""Runtimes that are programs of their own: what they answer, and what becomes of one that dies, hangs or babbles."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from bench.api.errors import ArtifactError, ChildError
from bench.measure import clock
from bench.measure.memory import MemoryLog
from bench.measure.process import Child
from support.adding import Adding, opened, run_as


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    yield
    if Adding.running is not None:
        Adding.running.close()
        Adding.running = None


def test_a_program_answers_with_the_outputs_and_its_own_times() -> None:
    session, feeds = opened(), {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    (output,) = session.run(feeds)
    np.testing.assert_array_equal(output, feeds["x"] + 1)
    assert session.last_ns == 5
    plan = {"warm_ns": 0, "min_cold": 2, "target_ns": 1, "min_runs": 1, "max_runs": 1, "long_ns": 1}
    assert session.burst(feeds, plan) == ([7, 7], [15])
    (scalar,) = session.run({"x": np.array(2, np.float32)})
    assert (scalar.shape, scalar.dtype, float(scalar)) == ((), np.float32, 3.0), "a scalar stays one"
    other = {"x": np.ones((1, 3), np.float32)}
    assert session.burst(other, plan) == ([7, 7], [3])
    assert session.burst(feeds, plan) == ([7, 7], [15]), "the arrays of both requests are kept"


def test_two_sessions_of_one_program_are_told_apart() -> None:
    """Each has requests of its own, also once the other one is closed."""
    plan = {"warm_ns": 0, "min_cold": 1, "target_ns": 1, "min_runs": 1, "max_runs": 1, "long_ns": 1}
    first, second = opened(), opened()
    for session, number in ((first, 1), (second, 2)):
        assert session.burst({"x": np.full((1, 3), number, np.float32)}, plan)[1] == [3 * number]
    second.close()
    assert first.burst(first._known[0], plan)[1] == [3]


def test_a_program_that_spins_is_not_quiet() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        assert not clock.settle(process.pid)
        process.kill()


def test_the_memory_and_the_rest_of_a_session_are_those_of_its_program() -> None:
    session = opened()
    log = MemoryLog(process=session.pid)
    with log.phase("run"):
        session.run({"x": np.zeros((1, 3), np.float32)})
    (phase,) = log.phases
    assert 5e6 < phase.rss_bytes <= phase.peak_rss_bytes < 500e6
    assert clock.settle(session.pid)


def test_what_a_program_refuses_is_a_reason() -> None:
    with pytest.raises(ArtifactError, match=r"^it is no model$"):
        opened("cpu+refuse")


@pytest.mark.parametrize(
    ("provider", "kind", "reason"),
    [
        ("cpu+crash", "signal", "killed by SIGSEGV"),
        ("cpu+kill", "signal", "killed by SIGKILL, perhaps by the system for want of memory"),
        ("cpu+memory", "memory", "out of memory"),
        ("cpu+nothing", "error", "the program gave no output y"),
        ("cpu+exit", "exit", "exited with status 3 without an answer"),
        ("cpu+print", "error", "the program's answer has no end: something else wrote to its output"),
        ("cpu+hang", "timeout", "no answer within 3 s"),
    ],
)
def test_a_worker_ends_as_its_program_does(
    provider: str, kind: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)
    with Child() as child, pytest.raises(ChildError) as raised:
        child.request(run_as, timeout_s=3 if kind == "timeout" else 60, provider=provider)
    assert (raised.value.kind, raised.value.reason) == (kind, reason)


def test_a_program_that_computes_dies_with_its_worker() -> None:
    """It reads nothing meanwhile, so the end of its input would not tell it."""
    child = multiprocessing.get_context("spawn").Process(target=run_as, args=("cpu+hang",))
    child.start()
    assert child.pid is not None
    (program,) = waited(lambda: psutil.Process(child.pid).children())
    child.kill()
    child.join()
    assert waited(lambda: not program.is_running() or program.status() == psutil.STATUS_ZOMBIE)


def waited(condition: Callable[[], Any]) -> Any:
    """What a condition is once it is true, within ten seconds."""
    end = time.monotonic() + 10
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return found
