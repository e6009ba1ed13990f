"""Real blocks with tiny bursts: the method, a runtime whose artifacts say how they fail, a note of every request."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.measure.block import Method, Result
from bench.measure.clock import BurstPlan
from bench.measure.limits import Limits
from bench.measure.process import Child

PASSES = 4
METHOD = Method(
    min_passes=PASSES,
    max_passes=PASSES,
    max_lost_share=math.inf,  # other tests may run at the same time
    burst=BurstPlan(warm_ns=0, target_ns=0, min_runs=2, max_runs=2),
    limits=Limits.of(step_s=30, memory_bytes=2**30),
)
FLAKY = '''
"""The null runtime; an artifact may say how long it loads, and at which run it fails."""

import ctypes, json, time
from bench.plugins.runtimes.null import NullRuntime


class Flaky(NullRuntime):
    default_for = ()

    def open(self, artifact, *, task, source, provider, threads):
        session = super().open(artifact, task=task, source=source, provider=provider, threads=threads)
        plan = json.loads(artifact.read_text())
        time.sleep(plan.get("load_s", 0))
        if plan.get("fail_at") == "open":
            raise ValueError("cannot open")
        left, run = [plan.get("fail_at", -1)], session.run

        def counted(feeds):
            left[0] -= 1
            time.sleep(plan.get("run_s", 0) + plan.get("input_s", 0) * float(feeds["x"][0, 0]))
            if left[0] <= 0 and plan.get("how") == "wrong" and "fail_at" in plan:
                return [-value for value in run(feeds)]
            if left[0] == 0:
                if plan.get("how") == "crash":
                    ctypes.string_at(0)
                if plan.get("how") == "hang":
                    time.sleep(600)
                raise ValueError("cannot run")
            return run(feeds)

        session.run = counted
        return session
'''


class Order:
    """Notes each request to each worker, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requests: list[tuple[str, int]] = []
        self.inputs: list[int] = []
        request = Child.request

        def note(child: Child, operation: Callable[..., Any], **arguments: Any) -> dict[str, Any]:
            self.requests.append((operation.__name__, child.pid))
            self.inputs += [arguments["request"]] if operation.__name__ == "burst" else []
            return request(child, operation, **arguments)

        monkeypatch.setattr(Child, "request", note)

    def passes(self, num_workers: int) -> list[list[int]]:
        pids = [pid for operation, pid in self.requests if operation == "burst"]
        return [pids[start : start + num_workers] for start in range(0, len(pids), num_workers)]


def roles(result: Result) -> list[tuple[str, str]]:
    return [(subject.key, launch.role) for subject, launch in result.launches]


def failures(result: Result) -> list[tuple[str, str, str]]:
    return [(failure.subject.key, failure.stage, failure.error.kind) for failure in result.failures]


def is_gone(pids: Sequence[int]) -> bool:
    return not any(Path("/proc", str(pid)).exists() for pid in pids)


def num_passes(result: Result) -> list[int]:
    return [len(launch.steady_ns) for _, launch in result.launches]
