"""Arrivals that are cut and stretched, and what is read of the requests that were served; no process is started."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.api.errors import ChildError
from bench.features.load import highest, paired, wire
from bench.features.load.ledger import Ledger
from bench.features.load.lines import P99, timeline
from bench.features.load.paired import Arrivals, Bound
from bench.features.load.served import Run, Served, read


def test_arrivals_are_cut_and_stretched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired, "LEAST_REQUESTS", 3)
    monkeypatch.setattr(paired, "SLICE_REQUESTS", 3)
    monkeypatch.setattr(paired, "min_samples", lambda _: 5)
    arrivals = Arrivals(due_ns=np.array([0, 10, 30, 60, 100, 150]) * 1_000_000, rows=np.arange(6))
    first, second = arrivals.slices()
    assert (first.due_ns.tolist(), first.rows.tolist()) == ([0, 10_000_000, 30_000_000], [0, 1, 2])
    assert (second.due_ns.tolist(), second.rows.tolist()) == ([0, 40_000_000, 90_000_000], [3, 4, 5])
    assert arrivals.rate == pytest.approx(5 / 0.150)
    faster = arrivals.at(2 * arrivals.rate)
    assert faster.rate == pytest.approx(2 * arrivals.rate)
    assert faster.due_ns.tolist() == [0, 5_000_000, 15_000_000, 30_000_000, 50_000_000, 75_000_000]
    around = arrivals.part(4, 4)  # behind the last, after a mean time between two, comes the first again
    assert around.rows.tolist() == [4, 5, 0, 1]
    assert around.due_ns.tolist() == [0, 50_000_000, 80_000_000, 90_000_000]
    bound = Bound(statistic=P99, most_ns=10_000_000)
    for rate, number in ((0.5, 3), (10.0, 5), (20.0, 6), (200.0, 60)):  # 30 times 10 ms, or 5 requests if 4 s have them
        probing = arrivals.probing(8, rate, bound)
        assert (len(probing.due_ns), probing.rows[0], probing.rate) == (number, 2, pytest.approx(rate, rel=1e-6))
        assert np.all(np.diff(probing.due_ns) > 0)


def test_a_service_is_asked_for_as_long_however_fast_it_is() -> None:
    """What is found must not be above what the service holds for long, if the arrivals were drawn for a slower one."""
    rng = np.random.default_rng(3)
    arrivals = Arrivals(due_ns=np.cumsum(rng.exponential(1e9 / 70, 700)).astype(np.int64), rows=np.zeros(700, np.int64))
    bound = Bound(statistic=P99, most_ns=20_000_000)

    def latency_ns(service_ns: float, rate: float, start: int) -> float:
        free, found = 0.0, []
        for due in arrivals.probing(start, rate, bound).due_ns:
            free = max(due, free) + service_ns
            found.append(free - due)
        return float(np.percentile(found, 99, method="inverted_cdf"))

    for capacity_s, held in ((500, 380), (2000, 1880)):  # by a simulation of a million requests
        rates = [
            highest.search(lambda rate: latency_ns(1e9 / capacity_s, rate, start), bound.most_ns, 70).rate or 0  # noqa: B023
            for start in range(0, 700, 70)
        ]
        assert held * 0.95 < float(np.mean(rates)) < min(capacity_s, 1.2 * held)


def test_a_service_that_answers_as_slowly_as_it_does_alone_keeps_up() -> None:
    due, latency = 500_000_000 * np.arange(20), 4_000_000_000

    def run(received: np.ndarray) -> Run:
        zeros = np.zeros(20, np.int64)
        times = {"due_ns": due, "sent_ns": due, "start_ns": due, "end_ns": received, "received_ns": received}
        return Run(served=Served(**times, rows=zeros, worker=zeros, batch=zeros + 1), gave_up=None, checked=0, wrong=0)

    assert paired._keeps_up([run(due + latency)])
    assert not paired._keeps_up([run(due + latency * np.arange(1, 21) // 4)])


@pytest.mark.parametrize(
    "forged",
    [{"number": 2}, {"number": -1}, {"number": 0}, {"start_ns": 5}, {"end_ns": 10**12}, {"worker": 1}, {"batch": -1}],
)
def test_answers_that_no_worker_of_ours_gives_are_refused(forged: dict[str, int], tmp_path: Path) -> None:
    def written(**second: int) -> Path:
        ledger = Ledger()
        ledger.due_ns, ledger.rows, ledger.sent_ns = [10, 20], [0, 0], [10, 20]
        answer = {"number": 1, "start_ns": 21, "end_ns": 22, "worker": 0, "batch": 1} | second
        data = wire.ANSWER_STRUCT.pack(0, 11, 12, 0, 1) + wire.ANSWER_STRUCT.pack(*answer.values())
        ledger.received = [(30, data)]
        ledger.save(tmp_path / "served.npz")
        return tmp_path / "served.npz"

    assert read(written(), 1).latency_ns.tolist() == [20, 10]
    with pytest.raises(ChildError, match="answers that are none"):
        read(written(**forged), 1)


@pytest.mark.parametrize(("number", "is_ours"), [(1, True), (2, False), (-1, False), (0, False)])
def test_first_tokens_are_no_answers(number: int, is_ours: bool, tmp_path: Path) -> None:
    ledger = Ledger()
    ledger.due_ns, ledger.rows, ledger.sent_ns = [10, 20], [0, 0], [10, 20]
    first = (11, 11, 0, wire.FIRST_TOKEN)
    data = [(0, *first), (number, *first), (0, 11, 12, 0, 1)]
    ledger.received = [(30, b"".join(wire.ANSWER_STRUCT.pack(*each) for each in data))]
    ledger.save(tmp_path / "served.npz")
    if is_ours:
        found = read(tmp_path / "served.npz", 1)
        assert (found.latency_ns.tolist(), found.num_lost) == ([20], 1)  # the second has only begun
        return
    with pytest.raises(ChildError, match="answers that are none"):
        read(tmp_path / "served.npz", 1)


def test_requests_that_no_answer_came_to_wait_until_the_end_of_the_picture(tmp_path: Path) -> None:
    ledger = Ledger()
    ledger.due_ns = ledger.sent_ns = [*range(0, 1000, 10)]
    ledger.rows = [0] * 100
    ledger.received = [(5 + 20 * n, wire.ANSWER_STRUCT.pack(n, 20 * n + 1, 20 * n + 2, 0, 1)) for n in range(50)]
    ledger.save(tmp_path / "served.npz")
    found = read(tmp_path / "served.npz", 1)
    assert found.num_lost == 50
    waiting = timeline(found)["waiting"]
    assert (waiting[0], waiting[-1], max(waiting)) == (1, 50, 50)


def test_overhead_is_what_neither_inference_nor_waiting_explains() -> None:
    served = Served(
        due_ns=np.array([0, 10, 20]),
        rows=np.zeros(3, np.int64),
        sent_ns=np.array([1, 11, 21]),
        start_ns=np.array([5, 107, 107]),  # the second and the third share an inference
        end_ns=np.array([100, 200, 200]),
        received_ns=np.array([103, 209, 209]),
        worker=np.zeros(3, np.int64),
        batch=np.array([1, 2, 2]),
    )
    assert served.latency_ns.tolist() == [103, 199, 189]
    assert served.overhead_ns().tolist() == [5 + 3, 7 + 9, 7 + 9]
