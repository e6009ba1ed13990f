"""The clock, driven by a fake time source: which samples are cold, when a burst ends, and the state afterwards."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator

import pytest

from bench.measure import clock
from bench.measure.clock import BurstPlan


class FakeTime:
    """A clock that moves only when the work says so, and one tick whenever it is read."""

    def __init__(self) -> None:
        self.ns = 1_000_000
        self.tick_ns = 0

    def read(self) -> int:
        self.ns += self.tick_ns
        return self.ns


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    fake = FakeTime()
    monkeypatch.setattr(time, "perf_counter_ns", fake.read)
    return fake


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    yield
    gc.enable()


def taking(fake: FakeTime, *durations_ns: int) -> Callable[[object], None]:
    """Work that takes these times one after the other, the last one from then on."""
    left = list(durations_ns)

    def run(feeds: object) -> None:
        assert feeds == "feeds"
        fake.ns += left.pop(0) if len(left) > 1 else left[0]

    return run


def plan(warm_ns: int = 0, target_ns: int = 100, min_runs: int = 1, max_runs: int = 1000) -> BurstPlan:
    return BurstPlan(warm_ns=warm_ns, target_ns=target_ns, min_runs=min_runs, max_runs=max_runs)


def test_samples_are_what_each_call_took_in_order(fake: FakeTime) -> None:
    run = taking(fake, 70, 31, 32, 33, 34)
    assert clock.burst(run, "feeds", plan(warm_ns=50, target_ns=100)) == ([70], [31, 32, 33, 34])


def test_cold_until_the_warm_time_has_passed_and_at_least_one(fake: FakeTime) -> None:
    assert clock.burst(taking(fake, 9, 8, 7, 6), "feeds", plan(warm_ns=20, target_ns=6))[0] == [9, 8, 7]
    assert clock.burst(taking(fake, 5), "feeds", plan(warm_ns=0, target_ns=5))[0] == [5]


def test_of_long_inferences_the_first_counts_and_another(fake: FakeTime) -> None:
    """The first is slower by the wake-up alone, of which the median of two shows half."""
    usual = BurstPlan(long_ns=200)
    assert usual.for_inference(199) is usual
    assert usual.for_inference(200) == BurstPlan(warm_ns=0, min_cold=0, min_runs=2, long_ns=200)
    long = BurstPlan(target_ns=10, min_runs=1).for_inference(10**9)
    assert clock.burst(taking(fake, 205, 200), "feeds", long) == ([], [205, 200])
    assert BurstPlan(min_runs=3).for_inference(10**9).min_runs == 3


def test_warm_time_is_not_part_of_the_burst(fake: FakeTime) -> None:
    cold, steady = clock.burst(taking(fake, 1000, 10), "feeds", plan(warm_ns=20, target_ns=100))
    assert (len(cold), len(steady)) == (1, 10)


@pytest.mark.parametrize(
    ("call_ns", "min_runs", "max_runs", "expected"),
    [
        (10, 1, 1000, 10),  # until the target
        (30, 1, 1000, 4),  # the last one passes the target
        (500, 1, 1000, 1),
        (500, 3, 1000, 3),  # the target has passed long ago
        (10, 1, 4, 4),
        (10, 4, 4, 4),
        (10, 9, 4, 4),  # the most wins
    ],
)
def test_length_of_a_burst(fake: FakeTime, call_ns: int, min_runs: int, max_runs: int, expected: int) -> None:
    _, steady = clock.burst(taking(fake, call_ns), "feeds", plan(min_runs=min_runs, max_runs=max_runs))
    assert steady == [call_ns] * expected


def test_cold_samples_have_a_most_too(fake: FakeTime) -> None:
    cold, steady = clock.burst(taking(fake, 1), "feeds", plan(warm_ns=10**9, max_runs=5))
    assert (cold, steady) == ([1] * 5, [1] * 5)


def test_clock_that_stands_still_does_not_loop_forever(fake: FakeTime) -> None:
    cold, steady = clock.burst(taking(fake, 0), "feeds", plan(warm_ns=5, max_runs=7))
    assert (cold, steady) == ([0] * 7, [0] * 7)


def test_nothing_but_the_call_is_timed(fake: FakeTime) -> None:
    """The clock is read once on either side of a call, and a read's own time falls to one side only."""
    fake.tick_ns = 1
    cold, steady = clock.burst(taking(fake, 10), "feeds", plan(warm_ns=5, target_ns=50))
    assert set(cold + steady) == {11}


@pytest.mark.parametrize("enabled", [True, False])
def test_collector_is_off_in_the_burst_and_as_before_after_it(fake: FakeTime, enabled: bool) -> None:
    states = []

    def run(feeds: object) -> None:
        states.append(gc.isenabled())
        fake.ns += 50

    (gc.enable if enabled else gc.disable)()
    clock.burst(run, "feeds", plan())
    assert states == [False] * len(states)
    assert gc.isenabled() is enabled


@pytest.mark.parametrize("num_good", [0, 3], ids=["cold", "steady"])
def test_collector_is_back_after_a_failure(fake: FakeTime, num_good: int) -> None:
    calls = []

    def run(feeds: object) -> None:
        calls.append(1)
        fake.ns += 10
        if len(calls) > num_good:
            raise ValueError("as expected")

    gc.enable()
    with pytest.raises(ValueError, match="as expected"):
        clock.burst(run, "feeds", plan())
    assert gc.isenabled()
    assert len(calls) == num_good + 1


def test_one_call(fake: FakeTime) -> None:
    assert clock.time_call_ns(lambda: taking(fake, 123)("feeds")) == 123
    assert clock.now_ns() == fake.ns


class FakeCpu:
    """A machine on which this process uses a given share of a core until some time, then nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, busy_s: float, share: float) -> None:
        self.now = self.cpu = 0.0
        self._busy_s, self._share = busy_s, share
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(time, "process_time", lambda: self.cpu)
        monkeypatch.setattr(time, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.now <= self._busy_s:
            self.cpu += self._share * seconds


def test_settle_returns_as_soon_as_it_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = FakeCpu(monkeypatch, busy_s=0.1, share=2.0)
    assert clock.settle() is True
    assert cpu.now == pytest.approx(0.1, abs=0.003)


def test_settle_at_once_when_nothing_spins(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = FakeCpu(monkeypatch, busy_s=100, share=0.01)
    assert clock.settle() is True
    assert cpu.now == clock.SETTLE_STEP_S


def test_settle_gives_up_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = FakeCpu(monkeypatch, busy_s=100, share=0.5)
    assert clock.settle() is False
    assert cpu.now == pytest.approx(clock.SETTLE_LIMIT_S, abs=0.003)
