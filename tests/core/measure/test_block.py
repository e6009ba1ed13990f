"""A block of real workers with the null runtime and tiny bursts."""

from __future__ import annotations

import dataclasses
import json
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from bench.api.errors import ChildError
from bench.measure import block, inputs, machine, passes
from bench.measure.block import Method, run_block
from bench.measure.comparison import CELL, CONTENDER, CONTROL, REFERENCE
from bench.measure.process import Child
from bench.pipeline import feeding
from bench.plugins import catalog
from support.blocks import METHOD, PASSES, Order, failures, is_gone, num_passes, roles

pytestmark = pytest.mark.slow(seconds=1)


def test_launches(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    order = Order(monkeypatch)
    result = run_block(make("raw"), [make("b"), make("a")], METHOD)
    assert result.failures == ()
    assert roles(result) == [("raw", REFERENCE), ("raw", CONTROL), ("a", CELL), ("b", CELL)]
    launches = [launch for _, launch in result.launches]
    assert len({launch.launch for launch in launches}) == 4
    assert len({launch.block for launch in launches}) == 1
    for launch in launches:
        assert launch.kind == "launch"
        assert launch.reference == "toy/null/native/raw/flaky/cpu/b2t1"
        assert [len(samples) for samples in launch.cold_ns] == [1] * PASSES
        assert [len(samples) for samples in launch.steady_ns] == [2] * PASSES
        assert len(launch.warmup_ns) == 3  # the first burst is kept apart
        assert all(isinstance(ns, int) and ns > 0 for burst in launch.steady_ns for ns in burst)
        assert min(launch.load_ns, launch.first_inference_ns, launch.import_ns) > 0
        assert list(launch.memory.phases) == ["imports", "load", "first_inference", "steady"]
        assert set(msgspec.to_builtins(launch.machine)) >= {"load_1m", "available_bytes", "governor"}
        assert 0 <= launch.num_restless <= PASSES + 1
        json.dumps(msgspec.to_builtins(launch), allow_nan=False)
    assert is_gone([pid for _, pid in order.requests])


def test_workers_of_a_pass_answer_the_same_request_and_the_next_pass_another(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = Order(monkeypatch)
    result = run_block(make("raw"), [make("a")], METHOD)
    (first,) = {launch.first_request for _, launch in result.launches}
    assert {launch.num_requests for _, launch in result.launches} == {8}  # of sixteen samples, two in each
    passes = [order.inputs[start : start + 3] for start in range(0, len(order.inputs), 3)]
    warmup, numbers = passes[0], [first + number for number in range(PASSES)]
    assert warmup == [first] * 3
    assert passes[1:] == [[number] * 3 for number in numbers]
    assert run_block(make("raw"), [], METHOD).launches[0][1].first_request != first, "each block begins with another"


def test_spread_over_inputs_is_that_of_the_model(make: Any) -> None:
    """A model that sleeps longer the larger the first number of its input, beside one that always sleeps as long."""
    method = dataclasses.replace(METHOD, min_passes=48, max_passes=48)
    result = run_block(make("raw", run_s=0.002), [make("a", run_s=0.002, input_s=0.002)], method)
    task = catalog.task("toy")
    requests = feeding.timed(task, task.samples("test").inputs, 2)
    times = np.log([0.002 + 0.002 * float(request["x"][0, 0]) for request in requests])
    launches = {subject.key: launch for subject, launch in result.launches}
    assert inputs.spread([launches["a"]]) == pytest.approx(float(np.std(times, ddof=1)), rel=0.2)
    assert (inputs.spread([launches["raw"]]) or 0.0) < 0.03


@pytest.mark.parametrize(("run_s", "num_cold"), [(0.0, 1), (0.03, 0)])
def test_no_inference_is_thrown_away_where_they_are_long(make: Any, run_s: float, num_cold: int) -> None:
    method = dataclasses.replace(METHOD, burst=dataclasses.replace(METHOD.burst, long_ns=20_000_000))
    result = run_block(make("raw"), [make("a", run_s=run_s)], method)
    (launch,) = [launch for subject, launch in result.launches if subject.key == "a"]
    assert [len(samples) for samples in launch.cold_ns] == [num_cold] * PASSES
    assert [len(samples) for samples in launch.steady_ns] == [2] * PASSES
    assert len(launch.warmup_ns) == 3  # which tells how long an inference is
    assert all(len(samples) == 1 for samples in result.launches[0][1].cold_ns)


def test_every_pass_has_every_worker_once_in_an_order_of_its_own(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    random.seed(5)
    order = Order(monkeypatch)
    run_block(make("raw"), [make("a"), make("b")], METHOD)
    passes = order.passes(num_workers=4)
    assert len(passes) == PASSES + 1
    workers = set(passes[0])
    assert len(workers) == 4
    assert all(set(one) == workers and len(one) == 4 for one in passes)
    assert len({tuple(one) for one in passes}) > 1
    kinds = [operation for operation, _ in order.requests]
    assert set(kinds[:8]) == {"import_packages", "open_session"}
    assert kinds[8:] == ["burst"] * 4 * (PASSES + 1) + ["finish"] * 4
    for worker in workers:
        assert [kind for kind, pid in order.requests if pid == worker][:2] == ["import_packages", "open_session"]


def test_slow_cells_for_which_there_is_no_time_are_left_out_of_a_brief_block(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the baseline's warm-up: five inferences of 20 ms take 0.1 s, so that eight workers take 0.8 s."""
    monkeypatch.setattr(block, "SLOW_CELL_S", 0.09)
    cells = [make(name, run_s=0.02) for name in "abcdef"]
    cases = [(0.0, 0.02, "abcd"), (0.75, 0.02, "abcde"), (60.0, 0.02, "abcdef"), (None, 0.02, "abcdef")]
    for room_s, run_s, expected in [*cases, (0.0, 0.001, "abcdef")]:
        method = dataclasses.replace(METHOD, is_brief=True, min_passes=3, max_passes=3, room_s=room_s)
        result = run_block(make("raw", run_s=run_s), cells, method)
        assert result.failures == (), "what is left out has not failed"
        assert "".join(name for name, role in roles(result) if role == CELL) == expected
        assert {len(launch.steady_ns) for _, launch in result.launches} == {3}


def test_order_of_starting_is_random(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that being first in memory is nobody's privilege."""
    orders = []

    def refuse(step: Any, seats: Any, done: Any) -> None:
        orders.append(tuple(seat.role for seat in seats))
        raise KeyboardInterrupt

    monkeypatch.setattr(block, "on_all_cores", refuse)
    random.seed(6)
    subjects = [make("a"), make("b")]
    for _ in range(6):
        with pytest.raises(KeyboardInterrupt):
            run_block(make("raw"), subjects, METHOD)
    assert len(set(orders)) > 2
    assert all(sorted(order) == [CELL, CELL, CONTROL, REFERENCE] for order in orders)


class Starting:
    """Watches requests to start: those that run at the same time, and how many there are in all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, meeting: threading.Barrier | None = None) -> None:
        self.now, self.most, self.pids, self.bursts_meanwhile = 0, 0, set[int](), 0
        lock, request = threading.Lock(), Child.request

        def watch(child: Child, operation: Callable[..., Any], **arguments: Any) -> dict[str, Any]:
            is_start = operation.__name__ in ("import_packages", "open_session")
            with lock:
                self.pids.add(child.pid)
                self.now += is_start
                self.most = max(self.most, self.now)
                self.bursts_meanwhile += operation.__name__ == "burst" and self.now > 0
            try:
                if meeting is not None and operation.__name__ == "open_session":
                    meeting.wait()
                return request(child, operation, **arguments)
            finally:
                with lock:
                    self.now -= is_start

        monkeypatch.setattr(Child, "request", watch)


def test_workers_load_on_all_cores_and_nothing_is_timed_meanwhile(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "num_cores", lambda: 2)
    # Passed only when two workers are about to load at the same time.
    starting = Starting(monkeypatch, meeting=threading.Barrier(2, timeout=30))
    result = run_block(make("raw"), [make("a"), make("b")], METHOD)
    assert starting.most == 2
    assert starting.bursts_meanwhile == 0
    assert [launch.loaded_beside for _, launch in result.launches] == [1, 1, 1, 1]


def test_one_core_loads_one_worker_at_a_time(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "num_cores", lambda: 1)
    starting = Starting(monkeypatch)
    result = run_block(make("raw"), [make("a")], METHOD)
    assert starting.most == 1
    assert [launch.loaded_beside for _, launch in result.launches] == [0, 0, 0]


def test_interrupt_while_loading_leaves_no_worker(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "num_cores", lambda: 2)
    starting = Starting(monkeypatch)

    def interrupt() -> bool:
        if starting.pids:  # the first worker loads already
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        run_block(make("raw", load_s=600), [make("a", load_s=600)], METHOD, out_of_time=interrupt)
    assert starting.pids
    assert is_gone(sorted(starting.pids))


def test_dead_baseline_does_not_wait_for_the_others(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    starting = Starting(monkeypatch)
    begin = time.monotonic()
    result = run_block(make("raw", fail_at="open"), [make("slow", load_s=600)], METHOD)
    assert time.monotonic() - begin < 60
    assert result.launches == ()
    assert {failure[:2] for failure in failures(result)} == {("raw", "open")}
    assert is_gone(sorted(starting.pids))


def test_hang_while_loading_costs_its_limit_and_no_more(make: Any) -> None:
    hasty = dataclasses.replace(METHOD, limits=dataclasses.replace(METHOD.limits, open_s=2))
    result = run_block(make("raw"), [make("slow", load_s=600), make("good")], hasty)
    assert failures(result) == [("slow", "open", "timeout")]
    assert roles(result) == [("raw", REFERENCE), ("raw", CONTROL), ("good", CELL)]


@pytest.mark.parametrize(
    ("model", "stage", "kind"),
    [
        ({"fail_at": "open"}, "open", "error"),
        ({"fail_at": 1}, "open", "error"),  # the first inference
        ({"fail_at": 6}, "measure", "error"),
        ({"fail_at": 6, "how": "crash"}, "measure", "signal"),
        ({"fail_at": 2 + 3 * (PASSES + 1)}, "measure", "error"),  # the very last one, after all bursts
    ],
    ids=["open", "first inference", "burst", "crash", "last"],
)
def test_failing_member_leaves_the_others_whole(make: Any, model: dict[str, Any], stage: str, kind: str) -> None:
    result = run_block(make("raw"), [make("bad", **model), make("good")], METHOD)
    assert failures(result) == [("bad", stage, kind)]
    assert roles(result) == [("raw", REFERENCE), ("raw", CONTROL), ("good", CELL)]
    assert [len(launch.steady_ns) for _, launch in result.launches] == [PASSES] * 3


@pytest.mark.parametrize(
    "model", [{"fail_at": 6}, pytest.param({"fail_at": 2 + 3 * (PASSES + 1)}, marks=pytest.mark.thorough)]
)
def test_failing_baseline_keeps_nothing(make: Any, model: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    order = Order(monkeypatch)
    result = run_block(make("raw", **model), [make("good")], METHOD)
    assert result.launches == ()
    assert {failure[0] for failure in failures(result)} == {"raw"}
    assert is_gone([pid for _, pid in order.requests])


APART = dataclasses.replace(METHOD, has_baseline=False)


def test_contenders_without_the_baseline(make: Any) -> None:
    result = run_block(make("raw"), [make("b"), make("a")], APART)
    assert roles(result) == [("a", CONTENDER), ("b", CONTENDER)]
    assert {launch.reference for _, launch in result.launches} == {"toy/null/native/raw/flaky/cpu/b2t1"}
    assert len({launch.block for _, launch in result.launches}) == 1


def test_a_contender_that_is_left_alone_is_compared_with_nothing(make: Any) -> None:
    result = run_block(make("raw"), [make("good"), make("bad", fail_at=6)], APART)
    assert result.launches == ()
    assert failures(result) == [("bad", "measure", "error")]
    result = run_block(make("raw"), [make("good"), make("better"), make("bad", fail_at=6)], APART)
    assert roles(result) == [("better", CONTENDER), ("good", CONTENDER)]


LONGER = dataclasses.replace(METHOD, min_passes=2, max_passes=50, launch_sd=1e-9)
"""As many passes as there is time for: launches are believed to agree but for the noise within them."""


def test_time_that_runs_out_ends_a_block_after_the_fewest_passes(make: Any) -> None:
    times = iter([False] * 3)  # one for each worker that is opened
    result = run_block(make("raw"), [make("a")], LONGER, out_of_time=lambda: next(times, True))
    assert num_passes(result) == [2, 2, 2]


def test_time_that_runs_out_before_the_first_pass_leaves_nothing(make: Any) -> None:
    assert run_block(make("raw"), [make("a")], METHOD, out_of_time=lambda: True).launches == ()


def test_block_that_takes_too_long_ends(make: Any) -> None:
    assert num_passes(run_block(make("raw"), [], dataclasses.replace(LONGER, max_s=0.0))) == [2, 2]


@pytest.mark.parametrize(("best", "passes_made"), [(0.5, 2), (3.5, 4), (99.0, 6)], ids=["least", "best", "most"])
def test_passes_go_on_until_launches_tell_more(
    make: Any, monkeypatch: pytest.MonkeyPatch, best: float, passes_made: int
) -> None:
    asked: list[dict[str, float]] = []

    def best_number(**costs: float) -> float:
        asked.append(costs)
        return best

    monkeypatch.setattr(passes, "best_number", best_number)
    method = dataclasses.replace(LONGER, max_passes=6, launch_sd=0.03)
    result = run_block(make("raw", run_s=0.002), [make("a", run_s=0.002, load_s=0.2)], method)
    assert num_passes(result) == [passes_made] * 3
    for costs in asked:
        assert 0.2 <= costs["set_up_s"] < 30  # with the load
        assert 3 * 3 * 0.002 <= costs["pass_s"] < 2  # three inferences of each of three workers
        assert costs["launch_sd"] == 0.03
        assert 0 < costs["pass_sd"] < 3


def test_interrupt_leaves_no_worker(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    order = Order(monkeypatch)
    bursts = []

    def interrupt(*arguments: Any, **options: Any) -> None:
        bursts.append(1)
        if len(bursts) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(block._Seat, "burst", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_block(make("raw"), [make("a")], METHOD)
    pids = {pid for _, pid in order.requests}
    assert len(pids) == 3
    assert is_gone(sorted(pids))


def test_a_hang_costs_its_limit_and_no_more(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(seat: Any, method: Method, request: int) -> None:
        if seat.subject.key == "bad":
            raise ChildError("timeout", "no answer within 1 s")
        real(seat, method, request)

    real = block._Seat.burst
    monkeypatch.setattr(block._Seat, "burst", hang)
    result = run_block(make("raw"), [make("bad"), make("good")], METHOD)
    assert failures(result) == [("bad", "measure", "timeout")]
    assert len(result.launches) == 3
