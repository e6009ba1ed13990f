"""Rounds, with fake blocks: which cells are measured in which round, and when measuring ends."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from bench.api.cell import Cell
from bench.api.errors import ChildError
from bench.measure import rounds
from bench.measure.block import Failure, Method, Repeats, Result, Subject
from bench.measure.comparison import CELL, CONTROL, REFERENCE
from bench.measure.launch import Launch
from bench.measure.rounds import Goal, Group, Ledger, Progress
from support import records as made

METHOD = Method()
GIB = 2**30


def subject(variant: str, *, threads: int = 1, rss_bytes: int = 1) -> Subject:
    cell = Cell.from_path(f"toy/null/native/{variant}/null/cpu/b1t{threads}")
    return made.subject(cell, rss_bytes=rss_bytes)


def group(*variants: str, threads: int = 1, rss_bytes: int = 1, wanted: bool = True) -> Group:
    """A group whose baseline is `raw`, wanted or only there to be compared with."""
    baseline = Ledger(subject=subject("raw", threads=threads, rss_bytes=rss_bytes), launches=[])
    others = [Ledger(subject=subject(name, threads=threads, rss_bytes=rss_bytes), launches=[]) for name in variants]
    return Group(baseline=baseline, ledgers=[*([baseline] if wanted else []), *others])


class Bench:
    """Stands in for `run_block`: notes who took part, and gives launches with a known noise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.blocks: list[list[str]] = []
        self.repeats: list[Repeats] = []
        self.kept: list[Result] = []
        self.reports: list[Progress] = []
        self.noisy: set[str] = set()
        self.speeds: dict[str, list[int]] = {}
        """Latency of each launch in turn, for variants that are not as fast as the baseline."""
        self.failing: dict[str, int] = {}
        """Variants that fail, and at which of their blocks."""
        self.seconds_per_block = 10.0
        self.now = 0.0
        self._numbers = itertools.count()
        self._random = random.Random(1)
        monkeypatch.setattr(rounds, "run_block", self._run)
        monkeypatch.setattr(rounds, "time", SimpleNamespace(monotonic=lambda: self.now))

    def _run(
        self,
        baseline: Subject,
        subjects: Sequence[Subject],
        method: Method,
        *,
        out_of_time: Callable[[], bool],
        repeats: Repeats,
    ) -> Result:
        assert method is METHOD
        self.repeats.append(repeats)
        self.now += self.seconds_per_block
        self.blocks.append([item.cell.variant for item in subjects])
        block = f"block {next(self._numbers)}"
        seats = [(baseline, REFERENCE), (baseline, CONTROL), *((item, CELL) for item in subjects)]
        failures = tuple(
            Failure(subject=item, stage="measure", error=ChildError("error", "as expected"))
            for item in (baseline, *subjects)
            if self.failing.get(item.cell.variant, 0) == self.launches(item.cell.variant)
        )
        failed = {failure.subject.key for failure in failures}
        if baseline.key in failed:
            return Result(launches=(), failures=failures)
        return Result(
            launches=tuple((item, self._launch(item, role, block)) for item, role in seats if item.key not in failed),
            failures=failures,
        )

    def _launch(self, item: Subject, role: str, block: str) -> Launch:
        noise = self._random.choice([0.5, 2.0]) if item.cell.variant in self.noisy else 1.0
        speed = self.speeds[item.cell.variant].pop(0) if item.cell.variant in self.speeds else None
        samples = ((speed or round(1000 * noise),),) * 5
        return made.launch(block, role, 1000, launch=str(next(self._numbers)), steady_ns=samples)

    def measure(self, *groups: Group, **goal: Any) -> None:
        rounds.measure(groups, METHOD, Goal(**goal), keep=self.kept.append, report=self.reports.append)

    def launches(self, variant: str) -> int:
        """Blocks that a variant took part in; of the baseline, all."""
        return len(self.blocks) if variant == "raw" else sum(variant in block for block in self.blocks)

    def counts(self) -> Counter[str]:
        return Counter(variant for block in self.blocks for variant in block)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=100 * GIB))
    return Bench(monkeypatch)


def test_every_cell_has_an_estimate_before_any_has_a_second_launch(bench: Bench) -> None:
    names = [f"v{number}" for number in range(20)]
    bench.noisy = set(names)
    bench.measure(group(*names), min_launches=3, max_launches=3)
    order = [variant for block in bench.blocks for variant in block]
    assert [sorted(order[start : start + 20]) for start in (0, 20, 40)] == [sorted(names)] * 3
    assert len(order) == 60


def test_groups_take_turns_in_a_round(bench: Bench) -> None:
    bench.measure(group("a", threads=1), group("b", threads=2), min_launches=2)
    assert bench.blocks == [["a"], ["b"], ["a"], ["b"]]


def test_groups_with_the_fewest_launches_come_first(bench: Bench) -> None:
    """Of a run that was stopped, the next one begins with what that had no time for."""
    ahead, behind = group("ahead", threads=1), group("behind", threads=2)
    bench.measure(ahead, min_launches=2, budget_s=15.0)
    bench.blocks.clear()
    bench.measure(ahead, behind, min_launches=4, max_launches=4)
    assert bench.blocks == [["behind"], ["ahead"], ["behind"], ["ahead"], ["behind"], ["behind"]]


def test_settled_cells_get_no_more_launches(bench: Bench) -> None:
    bench.noisy = {"noisy"}
    bench.measure(group("quiet", "noisy"), min_launches=3, max_launches=6)
    assert bench.counts() == {"quiet": 3, "noisy": 6}


def test_cell_without_a_verdict_goes_on_though_its_interval_is_narrow_enough(bench: Bench) -> None:
    """After three launches the interval is 0.978 to 1.053: half of it is under 5 %, but it says neither yes nor no."""
    bench.speeds = {"unclear": [1000, 1015, 1030, 1000, 1015, 1030], "clear": [1200, 1215, 1230]}
    bench.measure(group("unclear", "clear"), min_launches=3, max_launches=6, margin=0.05)
    assert bench.counts() == {"unclear": 4, "clear": 3}


def test_launches_of_earlier_runs_count(bench: Bench) -> None:
    again = group("a", "b")
    bench.measure(again, min_launches=3)
    bench.blocks.clear()
    bench.measure(again, min_launches=3)
    assert bench.blocks == []
    new = Ledger(subject=subject("new"), launches=[])
    again.ledgers.append(new)
    bench.measure(again, min_launches=3)
    assert bench.counts() == {"new": 3}


def test_launches_that_are_stale_do_not_settle(bench: Bench) -> None:
    again = group()
    bench.measure(again, min_launches=3)
    again.baseline.num_stale = 3
    bench.blocks.clear()
    bench.measure(again, min_launches=2)
    assert bench.blocks == [[], []]
    assert len(again.baseline.launches) == 2 * (3 + 2)


def test_margin_decides(bench: Bench) -> None:
    bench.noisy = {"a"}
    bench.measure(group("a"), min_launches=2, max_launches=9, margin=0.99)
    loose = bench.counts()["a"]
    bench.blocks.clear()
    bench.measure(group("a"), min_launches=2, max_launches=9, margin=0.001)
    assert loose < bench.counts()["a"] == 9


def test_budget_stops(bench: Bench) -> None:
    """Ten seconds a block: the block that begins before the end is finished, none begins after it."""
    names = [f"v{number}" for number in range(40)]
    bench.measure(group(*names), budget_s=25.0)
    assert len(bench.blocks) == 3
    assert len(bench.kept) == 3
    assert bench.reports[-1].seconds_left == 0


def test_no_budget_no_block(bench: Bench) -> None:
    bench.measure(group("a"), budget_s=-1.0)
    assert bench.blocks == []


def test_blocks_of_a_sweep_share_what_repeats_brought(bench: Bench) -> None:
    bench.measure(group("a", "b"), min_launches=2, max_launches=2)
    assert len(bench.repeats) > 1
    assert len(set(map(id, bench.repeats))) == 1


def test_block_knows_when_time_is_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = []
    run = rounds.run_block

    def ask(*arguments: Any, out_of_time: Callable[[], bool], **options: Any) -> Result:
        answers.append(out_of_time())
        bench.now += 100
        answers.append(out_of_time())
        return run(*arguments, out_of_time=out_of_time, **options)

    monkeypatch.setattr(rounds, "run_block", ask)
    bench.measure(group("a"), budget_s=50.0)
    assert answers == [False, True]


def test_block_has_at_most_so_many_workers(bench: Bench) -> None:
    bench.measure(group(*[f"v{number}" for number in range(20)]), min_launches=1, max_launches=1)
    assert [len(block) + 2 for block in bench.blocks] == [rounds.MAX_WORKERS, rounds.MAX_WORKERS, 6]


def test_block_fits_the_free_memory(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 10 GiB, 6 are for workers; the baseline takes two of 1 GiB each."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=10 * GIB))
    bench.measure(group(*"abcdefgh", rss_bytes=GIB), min_launches=1, max_launches=1)
    assert [len(block) for block in bench.blocks] == [4, 4]


def test_cell_larger_than_the_memory_is_tried_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=GIB))
    bench.measure(group("a", "b", rss_bytes=2 * GIB), min_launches=1, max_launches=1)
    assert sorted(map(len, bench.blocks)) == [1, 1]


def test_blocks_are_drawn_anew(bench: Bench) -> None:
    """So that no two cells always share their neighbours."""
    random.seed(3)
    bench.measure(group(*[f"v{number}" for number in range(16)]), min_launches=4, max_launches=4)
    assert len({frozenset(block) for block in bench.blocks}) > 4


def test_baseline_alone(bench: Bench) -> None:
    bench.measure(group(), min_launches=3)
    assert bench.blocks == [[], [], []]
    assert [len(result.launches) for result in bench.kept] == [2, 2, 2]


def test_baseline_that_is_settled_is_measured_only_for_others(bench: Bench) -> None:
    settled = group()
    bench.measure(settled, min_launches=3)
    settled.ledgers.append(Ledger(subject=subject("late"), launches=[]))
    bench.blocks.clear()
    bench.measure(settled, min_launches=3)
    assert bench.blocks == [["late"]] * 3


def test_baseline_that_nobody_asked_for_is_not_reported(bench: Bench) -> None:
    bench.measure(group("a", wanted=False), min_launches=2)
    assert bench.blocks == [["a"]] * 2
    assert {report.num_cells for report in bench.reports} == {1}


def test_failed_cell_leaves(bench: Bench) -> None:
    bench.failing = {"bad": 2}
    groups = group("bad", "good")
    bench.measure(groups, min_launches=4, max_launches=4)
    assert bench.counts() == {"bad": 2, "good": 4}
    assert sum(len(result.failures) for result in bench.kept) == 1
    bad = groups.ledgers[1]
    assert (bad.subject.cell.variant, bad.failed, len(bad.launches)) == ("bad", True, 1)


def test_failing_baseline_stops_its_group_and_no_other(bench: Bench) -> None:
    bench.failing = {"raw": 2}
    first, second = group("a", threads=1), group("b", threads=2)
    bench.measure(first, second, min_launches=3, max_launches=3)
    assert first.baseline.failed != second.baseline.failed
    # The baseline's second block is the second group's first.
    assert bench.blocks == [["a"], ["b"], ["a"], ["a"]]


def test_progress(bench: Bench) -> None:
    bench.measure(group("a", "b", "c"), min_launches=2, max_launches=2)
    first, last = bench.reports[0], bench.reports[-1]
    assert first == Progress(num_round=0, num_settled=0, num_cells=4, seconds_left=0)
    assert last == Progress(num_round=2, num_settled=4, num_cells=4, seconds_left=0)
    middle = bench.reports[1]
    assert (middle.num_round, middle.num_settled) == (1, 0)
    assert middle.seconds_left == pytest.approx(4 * 10 / 3)  # three cells took ten seconds, four launches are to come


def test_every_block_is_kept_before_the_next(bench: Bench) -> None:
    seen = []

    def keep(result: Result) -> None:
        seen.append((len(bench.blocks), len(result.launches)))

    rounds.measure([group("a")], METHOD, Goal(min_launches=3), keep=keep, report=lambda _: None)
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_goal_is_the_documented_one() -> None:
    assert dataclasses.asdict(Goal()) == {
        "margin": 0.02,
        "tolerance": None,
        "min_launches": 3,
        "max_launches": 6,
        "budget_s": None,
    }
