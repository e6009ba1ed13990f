"""Services of real workers: each request is answered once, with true times, and faults are told."""

from __future__ import annotations

import fcntl
import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest

from bench.api.cell import Cell
from bench.api.errors import ChildError, InputError
from bench.features.load import capacity, highest, loadgen, paired, sporadic, sweep, wire
from bench.features.load.client import Client
from bench.features.load.lines import P50, P99
from bench.features.load.paired import Arrivals, Bound, Member, run_block
from bench.features.load.service import Bounds, Driver, Service, Setup
from bench.features.load.serving import Batching, polled
from bench.measure.comparison import CELL, CONTROL, REFERENCE
from bench.measure.limits import Limits

pytestmark = pytest.mark.slow(seconds=1.5)

LIMITS = Limits.of(step_s=30, memory_bytes=2**30)
BOUNDS = Bounds(most_waiting=256, silent_s=0.5)
LEARN_RUNS = 9
"""Inferences before the first request: the first of all, and one of each of the eight samples."""


@pytest.fixture(autouse=True)
def _busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests run at the same time: what keeps up does so with long stops; and few requests do."""
    monkeypatch.setattr(paired, "KEPT_SHARE", 0.2)
    monkeypatch.setattr(paired, "SLICE_S", 0.1)
    monkeypatch.setattr(paired, "BOUNDS_IN_SLICE", 3)


@pytest.fixture(scope="module")
def driver(session_cache: Path) -> Iterator[Driver]:
    """One client for all services: it keeps nothing of one run for the next."""
    with Driver(LIMITS, BOUNDS) as driver:
        yield driver


def at_once(number: int) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(number, np.int64), np.arange(number) % 8


def test_every_request_is_answered_once_with_its_times_in_order(make: Any, driver: Driver) -> None:
    due, rows = 1_000_000 * np.arange(40), np.arange(40) % 8
    with Service(make("raw"), Setup(), LIMITS) as service:
        assert service.num_rows == 8
        run = driver.replay(service, due, rows)
    assert (run.gave_up, run.wrong, run.served.num_lost) == (None, 0, 0)
    assert run.checked > 0
    served = run.served
    assert served.rows.tolist() == rows.tolist()
    assert (served.due_ns - served.due_ns[0]).tolist() == due.tolist()
    for before, after in itertools.pairwise(("due_ns", "sent_ns", "start_ns", "end_ns", "received_ns")):
        assert np.all(getattr(served, before) <= getattr(served, after)), (before, after)
    assert np.all(served.start_ns[1:] >= served.end_ns[:-1])  # one worker, first come first served
    assert np.all(served.overhead_ns() <= served.latency_ns)


def test_two_workers_share_the_requests(make: Any, driver: Driver) -> None:
    with Service(make("raw", run_s=0.02), Setup(instances=2), LIMITS) as service:
        served = driver.replay(service, *at_once(16)).served
    assert {*served.worker.tolist()} == {0, 1}
    order = np.argsort(served.start_ns)
    assert np.any(served.start_ns[order][1:] < served.end_ns[order][:-1])  # two at the same time


def test_two_sessions_of_one_worker_answer_at_the_same_time(make: Any, driver: Driver) -> None:
    with Service(make("raw", run_s=0.02), Setup(sessions=2), LIMITS) as service:
        run = driver.replay(service, *at_once(20))
    assert set(run.served.worker.tolist()) == {0, 1}
    starts, ends = np.sort(run.served.start_ns), np.sort(run.served.end_ns)
    assert (starts[1:] < ends[:-1]).sum() >= 5  # one after the other, none would begin before another one ends
    assert (run.checked > 0, run.wrong, run.served.num_lost) == (True, 0, 0)


def test_a_session_that_fails_beside_another_of_its_worker_is_told(make: Any, driver: Driver) -> None:
    with (
        Service(make("bad", fail_at=LEARN_RUNS + 5, how="error"), Setup(sessions=2), LIMITS) as service,
        pytest.raises(ChildError, match="cannot run"),
    ):
        driver.replay(service, *at_once(60))


def test_a_queue_with_less_room_than_its_bound_is_overloaded_when_it_is_full(tmp_path: Path) -> None:
    requests, answers = wire.make(tmp_path)
    with wire.opened(requests, blocking=False) as queue, wire.opened(answers, blocking=False) as replies:
        fcntl.fcntl(queue, fcntl.F_SETPIPE_SZ, 4096)
        client = Client(queue, replies, most_waiting=4096, silent_ns=10**9)
        assert client.run([0] * 1000, [0] * 1000) == "overloaded"
        assert len(client.ledger.sent_ns) == 4096 // wire.REQUEST.size
        assert wire.drop_waiting(queue) == 0


def test_requests_that_wait_share_an_inference_where_the_session_takes_several(make: Any, driver: Driver) -> None:
    with Service(make("raw", run_s=0.01), Setup(batching=Batching(most=4)), LIMITS) as service:
        assert service.setup.batching.most == 4
        run = driver.replay(service, *at_once(13))
    assert run.wrong == 0
    assert run.served.batch.max() == 4
    assert len(np.unique(run.served.start_ns)) < 13


def test_a_request_waits_for_others_no_longer_than_it_is_told(make: Any, driver: Driver) -> None:
    with Service(make("raw"), Setup(batching=Batching(most=8, delay_ns=50_000_000)), LIMITS) as service:
        alone = driver.replay(service, *at_once(1)).served
    assert alone.latency_ns[0] >= 50e6
    with Service(make("raw"), Setup(batching=Batching(most=8, delay_ns=10**10)), LIMITS) as service:
        together = driver.replay(service, *at_once(8)).served
    assert {*together.batch.tolist()} == {8}
    assert (together.start_ns - together.sent_ns).min() < 10**10  # there are as many as it waits for


@pytest.mark.parametrize(
    ("how", "reason"),
    [("crash", r"signal|SIGSEGV|died"), ("hang", r"no answer under load within 0\.5 s"), ("raise", "cannot run")],
)
def test_a_session_that_fails_under_load_is_told(make: Any, driver: Driver, how: str, reason: str) -> None:
    begun = time.monotonic()
    with (
        Service(make("bad", fail_at=LEARN_RUNS + 10, how=how), Setup(), LIMITS) as service,
        pytest.raises(ChildError, match=reason),
    ):
        driver.replay(service, 1_000_000 * np.arange(40), np.arange(40) % 8)
    assert time.monotonic() - begun < 20


def test_the_other_worker_does_not_hide_one_that_died(make: Any, driver: Driver) -> None:
    with (
        Service(make("bad", fail_at=LEARN_RUNS + 5, how="crash"), Setup(instances=2), LIMITS) as service,
        pytest.raises(ChildError, match=r"signal|SIGSEGV|died"),
    ):
        driver.replay(service, 1_000_000 * np.arange(400), np.arange(400) % 8)


def test_wrong_answers_under_load_are_counted(make: Any, driver: Driver) -> None:
    with Service(make("bad", fail_at=LEARN_RUNS + 5, how="wrong", run_s=0.002), Setup(), LIMITS) as service:
        run = driver.replay(service, 4_000_000 * np.arange(240), np.arange(240) % 8)
    assert 0 < run.wrong < run.checked
    with pytest.raises(ChildError, match=f"{run.wrong} of {run.checked} answers under load were wrong"):
        run.must_be_right()


def test_overload_ends_with_a_bounded_queue_and_the_service_goes_on(make: Any, driver: Driver) -> None:
    with Service(make("slow", run_s=0.01), Setup(), LIMITS) as service:
        begun = time.monotonic()
        due = 1_000_000 * np.arange(5000)  # ten times what it can answer
        run = driver.replay(service, due, np.zeros(5000, np.int64))
        assert run.gave_up == "overloaded"
        assert time.monotonic() - begun < 10
        assert run.served.num_lost <= BOUNDS.most_waiting
        after = driver.replay(service, *at_once(3))
    assert (after.gave_up, len(after.served.due_ns)) == (None, 3)


def test_a_worker_polls_for_a_time_and_takes_one_request(tmp_path: Path) -> None:
    requests, _ = wire.make(tmp_path)
    with wire.opened(requests, blocking=False) as queue:
        assert polled(queue, 1_000_000) == b""
        records = [wire.REQUEST.pack(number, 0) for number in range(2)]
        os.write(queue, b"".join(records))
        assert polled(queue, 0) == b""  # a worker that does not poll sleeps until the request comes
        assert polled(queue, 10**9) == records[0]
        assert wire.drop_waiting(queue) == 1


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_the_client_has_a_core_alone_where_one_stays_free(
    make: Any, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    cores = sorted(os.sched_getaffinity(0))
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: len(cores))

    def kept(instances: int) -> tuple[set[int], list[set[int]]]:
        with Service(make("raw"), Setup(instances=instances), LIMITS) as service:
            assert driver.replay(service, *at_once(8)).gave_up is None
            return os.sched_getaffinity(driver.pid), [os.sched_getaffinity(pid) for pid in service.pids]

    assert kept(1) == ({cores[-1]}, [{*cores[:-1]}])
    assert kept(len(cores)) == ({*cores}, [{*cores}] * len(cores))


def test_the_capacity_of_a_service(make: Any, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "CAPACITY_S", 0.3)
    monkeypatch.setattr(capacity, "ALONE", 4)
    with Service(make("slow", run_s=0.02), Setup(instances=2), LIMITS) as service:
        found = capacity.measure(driver, service)
    assert 10 < found.rate <= 100  # a worker answers 50 in a second at most
    assert 20e6 <= found.latency_ns < 20e9


def test_a_block_serves_the_same_arrivals_by_all_in_turns(make: Any) -> None:
    arrivals = Arrivals(due_ns=5_000_000 * np.arange(20), rows=np.arange(20))
    members = [Member(subject=make("slow", run_s=0.004))]
    bound = Bound(statistic=P99, most_ns=30_000_000)
    told: list[tuple[str, str]] = []
    result = run_block(
        Member(subject=make("raw", run_s=0.002)),
        members,
        [arrivals] * 3,
        LIMITS,
        BOUNDS,
        rate=200,
        bound=bound,
        probed=arrivals,
        starts=[0],
        on_step=lambda cell, step: told.append((cell.path, step)),
    )
    assert result.failures == ()
    steps = ["slice to warm up", "slice 1 of 2", "slice 2 of 2", "highest rate, pass 1 of 1"]
    assert [step for _, step in told] == [step for step in steps for _ in range(3)]
    assert {path for path, _ in told} == {one.subject.cell.path for one in (members[0], result.launches[0][0])}
    assert [(one.subject.key, launch.role) for one, launch in result.launches] == [
        ("raw", REFERENCE),
        ("raw", CONTROL),
        ("slow", CELL),
    ]
    for (_, launch), service_ns in zip(result.launches, (2e6, 2e6, 4e6), strict=True):
        assert launch.requests == (20, 20)  # the first slice warms up
        assert launch.rate == pytest.approx(200)
        assert all(value >= service_ns for value in launch.slices_ns[P50])
        assert len(launch.highest_ns) == 1
        assert launch.bound == (P99, 30_000_000)
        assert len(launch.curve) >= 2
        assert launch.of(P50).medians_ns == launch.slices_ns[P50]


@pytest.mark.thorough
def test_a_service_that_no_rate_suits_is_asked_about_it_once(make: Any) -> None:
    arrivals = Arrivals(due_ns=20_000_000 * np.arange(20), rows=np.arange(20))
    bound = Bound(statistic=P99, most_ns=1_000_000)  # an inference takes longer
    base = Member(subject=make("raw", run_s=0.002))
    begun = time.monotonic()
    result = run_block(base, [], [arrivals], LIMITS, BOUNDS, rate=50, bound=bound, probed=arrivals, starts=[0, 5, 9])
    for _, launch in result.launches:
        assert launch.highest_ns == ()
        rates = [rate for rate, _ in launch.curve]
        assert min(rates) >= 0.2 * 50
        assert sum(rate <= 50 for rate in set(rates)) <= 8, "down to a fifth of it, by a fifth each"
        assert max(rates) <= 1600, "2 ms allow for 500 a second: above, requests wait for each other"
        assert len(rates) - len(set(rates)) <= highest.MOST_AGAIN + 1, "of two rates between which the latency falls"
    assert time.monotonic() - begun < 60


@pytest.mark.thorough
def test_a_service_that_cannot_keep_up_has_no_latency(make: Any) -> None:
    arrivals = Arrivals(due_ns=1_000_000 * np.arange(40), rows=np.arange(40))
    slow = [Member(subject=make("slow", run_s=0.01))]
    more: dict[str, Any] = {
        "bound": Bound(statistic=P99, most_ns=100_000_000),
        "probed": arrivals,
        "starts": [0],
    }
    result = run_block(Member(subject=make("raw")), slow, [arrivals] * 3, LIMITS, BOUNDS, rate=1000, **more)
    assert [bool(launch.slices_ns) for _, launch in result.launches] == [True, True, False]
    (held,) = result.launches[-1][1].highest_ns  # though it is below a fifth of the rate that arrives
    assert 5e6 < held < 100e6


def test_a_cell_that_fails_leaves_the_block_and_a_baseline_that_fails_ends_it(make: Any) -> None:
    arrivals = Arrivals(due_ns=2_000_000 * np.arange(30), rows=np.arange(30))
    bad = Member(subject=make("bad", fail_at=LEARN_RUNS + 10, how="crash"))
    good = Member(subject=make("raw"))
    result = run_block(good, [bad], [arrivals] * 3, LIMITS, BOUNDS, rate=500)
    assert [launch.role for _, launch in result.launches] == [REFERENCE, CONTROL]
    assert [one.member for one in result.failures] == [bad]
    result = run_block(bad, [good], [arrivals] * 3, LIMITS, BOUNDS, rate=500)
    assert result.launches == ()
    assert {one.member.way for one in result.failures} == {bad.way}


def test_requests_that_come_alone(make: Any, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"APART_NS": 60_000_000, "IDLE_S": {"0.1 s": (0.1, 3), "1 s": (1.0, 1)}}.items():
        monkeypatch.setattr(sporadic, name, value)
    for name, number in {"NUM_AFTER_WORK": 3, "COLD_STARTS": 2}.items():
        monkeypatch.setattr(sporadic, name, number)
    found = sporadic.measure(make("raw", run_s=0.003), driver, LIMITS, run="a", longest_s=0.1)
    assert list(found.after_ns) == ["busy", "0.1 s", "other work"]
    assert [len(values) for values in found.after_ns.values()] == [sporadic.NUM_BUSY - 1, 3, 3]
    busy, *alone = found.after_ns.values()
    assert np.mean(busy) >= 2_500_000  # a late client takes some answers together, and its first one late
    assert all(value >= 3_000_000 for values in alone for value in values)
    assert len(found.cold_start_ns) == 2
    assert min(found.cold_start_ns) > 20_000_000  # a process was started


def test_bounds_are_as_long_as_inferences_need(make: Any) -> None:
    with Driver(LIMITS, Bounds(silent_s=0.06)) as driver, Service(make("raw", run_s=0.1), Setup(), LIMITS) as service:
        assert 0.1 <= service.longest_s < 3
        assert driver.replay(service, *at_once(3)).gave_up is None


def test_a_service_that_does_not_open_ends_no_other(make: Any) -> None:
    good, bad = make("raw"), make("missing")
    Path(bad.opening.arguments["artifact"]).unlink()
    with Service(good, Setup(), LIMITS) as service, Driver(LIMITS, BOUNDS) as driver:
        with pytest.raises(ChildError, match="missing"), Service(bad, Setup(instances=2), LIMITS):
            pass
        assert driver.replay(service, *at_once(3)).gave_up is None


def test_the_load_generator_misses_no_answer_of_a_service_that_was_idle(tmp_path: Path) -> None:
    requests, answers = wire.make(tmp_path)
    done: list[object] = []
    lg: Any = SimpleNamespace(QuerySamplesComplete=done.extend, QuerySampleResponse=lambda query, *_: query)
    with wire.opened(requests, blocking=False) as queue, wire.opened(answers, blocking=False) as replies:
        service = loadgen._Service(lg, queue, replies, most_waiting=10, silent_ns=300_000_000, spins=False)
        with service.answering():
            service.issue([SimpleNamespace(id=1, index=0)])
            os.write(replies, wire.ANSWER_STRUCT.pack(0, 0, 0, 0, 1))
            time.sleep(0.5)  # longer than the service may be silent
            service.issue([SimpleNamespace(id=2, index=0)])
            time.sleep(0.15)
            assert service.gave_up is None
            time.sleep(0.4)
            assert service.gave_up == "silent"
    assert done == [1, 2]


def test_records_are_written_and_read_whole(tmp_path: Path) -> None:
    assert max(wire.REQUEST.size, wire.ANSWER.itemsize) <= 512  # the least that PIPE_BUF may be
    assert wire.ANSWER.itemsize == wire.ANSWER_STRUCT.size
    requests, _ = wire.make(tmp_path)
    with wire.opened(requests, blocking=False) as queue:
        most = wire.PIPE_BYTES // wire.REQUEST.size
        for number in range(most - 1):
            os.write(queue, wire.REQUEST.pack(number, 0))
        assert wire.drop_waiting(queue) == most - 1
        wire.stop(queue, 2)
        assert wire.drop_waiting(queue) == 2


def test_a_runtime_that_is_a_program_of_its_own_is_no_service() -> None:
    """It times itself; beside others it is left out."""
    program, other = (
        Cell.from_path(f"crnn/torch/torch_onnx/raw/{name}/cpu/b1t1") for name in ("onnxruntime_node", "onnxruntime")
    )
    said: list[str] = []
    cannot = "onnxruntime_node: `bench load` sends no requests to a program of its own, which times itself"
    assert sweep.servable([program, other], say=said.append) == [other]
    assert said == [f"Left out: {cannot}"]
    with pytest.raises(InputError, match=cannot):
        sweep.servable([program], say=said.append)
