"""Rounds, with fake blocks: budgets, the size of blocks, cells that fail, and what is kept and reported."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from bench.api.errors import ChildError
from bench.measure import blocks, planning, rounds
from bench.measure.block import Result
from bench.measure.blocks import BlocksHere
from bench.measure.goal import Goal
from bench.measure.ledgers import Ledger
from bench.measure.open_work import Progress
from bench.measure.subject import Subject
from support.fake_blocks import GIB, METHOD, Bench, group, subject


def test_budget_stops(bench: Bench) -> None:
    """Ten seconds a block: the block that begins before the end is finished, none begins after it."""
    names = [f"v{number}" for number in range(40)]
    bench.measure(group(*names), budget_s=25.0)
    assert len(bench.blocks) == 3
    assert len(bench.kept) == 3
    assert bench.reports[-1].seconds_left == 0


def test_first_round_leaves_time_for_questions(bench: Bench) -> None:
    """Its passes take a third of the budget at most: here of 90 seconds, in three blocks."""
    bench.noisy = {"v0"}
    bench.measure(group(*[f"v{number}" for number in range(30)]), max_launches=2, budget_s=90.0)
    assert bench.max_s[:3] == [10.0] * 3
    assert len(bench.max_s) > 3
    assert not any(bench.brief)
    assert set(bench.max_s[3:]) == {METHOD.max_s}, "later blocks have fewer cells, and their own limit"
    bench.max_s.clear()
    bench.measure(group("a"), max_launches=1, budget_s=1e6)
    bench.measure(group("a"), max_launches=1)
    assert bench.max_s == [METHOD.max_s] * 2


def test_only_first_launches_of_a_race_are_brief(bench: Bench) -> None:
    cells = group("a", "b")
    bench.noisy = {"a", "b"}
    bench.measure(cells, max_launches=1, is_brief=True)
    bench.measure(cells, max_launches=2, is_brief=True)
    bench.measure(group("c"), max_launches=1)
    assert bench.brief == [True, False, False]


def test_first_launches_fit_the_time_that_is_left_where_that_is_little(bench: Bench) -> None:
    """Ten seconds a block, of fourteen workers at most."""
    names = [f"v{number}" for number in range(30)]
    bench.measure(group(*names), max_launches=1, is_brief=True, budget_s=35.0)
    assert bench.room_s[0] is None
    assert bench.room_s[1:] == [pytest.approx(25.0, abs=0.5), pytest.approx(15.0, abs=0.5)]
    bench.room_s.clear()
    bench.measure(group("a"), max_launches=1, budget_s=5.0)
    bench.measure(group("a"), max_launches=1, is_brief=True)
    assert bench.room_s == [None, None], "only where launches are brief, and where there is a budget"


@pytest.mark.parametrize(("second_s", "is_second"), [(5.0, True), (0.0, False)])
def test_after_the_budget_contenders_get_a_second_launch_and_others_no_first(
    bench: Bench, second_s: float, is_second: bool
) -> None:
    """A block takes all ten seconds; the two in front are expected to be, and so are in the first."""
    bench.speeds = {"one": [500], "other": [501]}
    cells = group("one", "other", *(f"v{number:02}" for number in range(20)), winners=("one", "other"))
    for number, ledger in enumerate(cells.ledgers[1:]):
        ledger.expected = 1.0 + number
    bench.measure(cells, budget_s=10.0, second_s=second_s)
    assert bench.blocks[1:] == ([["one", "other"]] if is_second else []), "the fastest first: the last may be left out"
    assert bench.few_passes == [False] + [True] * is_second
    assert bench.room_s == [None] + [pytest.approx(second_s, abs=0.5)] * is_second


@pytest.mark.parametrize(("budget_s", "expected"), [(41.0, [False, False]), (81.0, [False, False, True])])
def test_a_second_launch_of_contenders_is_not_cut(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, budget_s: float, expected: list[bool]
) -> None:
    """A block takes 40 s: the second begins a second before the end, or the third, which is cut."""
    answers = []
    run = blocks.run_block

    def ask(*arguments: Any, out_of_time: Callable[[], bool], **options: Any) -> Result:
        bench.now += 30
        answers.append(out_of_time())
        return run(*arguments, out_of_time=out_of_time, **options)

    monkeypatch.setattr(blocks, "run_block", ask)
    bench.noisy = {"one", "other"}
    bench.measure(group("one", "other", winners=("one", "other")), budget_s=budget_s, second_s=5.0)
    assert answers == expected


def test_no_budget_no_block(bench: Bench) -> None:
    bench.measure(group("a"), budget_s=-1.0)
    assert bench.blocks == []


def test_blocks_of_a_sweep_share_what_repeats_brought(bench: Bench) -> None:
    bench.measure(group("a", "b"), min_launches=2, max_launches=2)
    assert len(bench.repeats) > 1
    assert len(set(map(id, bench.repeats))) == 1


def test_block_knows_when_time_is_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = []
    run = blocks.run_block

    def ask(*arguments: Any, out_of_time: Callable[[], bool], **options: Any) -> Result:
        answers.append(out_of_time())
        bench.now += 100
        answers.append(out_of_time())
        return run(*arguments, out_of_time=out_of_time, **options)

    monkeypatch.setattr(blocks, "run_block", ask)
    bench.measure(group("a"), budget_s=50.0)
    assert answers == [False, True]


def test_block_has_at_most_so_many_workers(bench: Bench) -> None:
    bench.measure(group(*[f"v{number}" for number in range(30)]), min_launches=1, max_launches=1)
    assert [len(block) + 2 for block in bench.blocks] == [planning.MAX_WORKERS, planning.MAX_WORKERS, 8]


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


def test_baseline_that_has_its_launches_is_measured_only_for_others(bench: Bench) -> None:
    measured = group()
    bench.measure(measured, min_launches=3)
    measured.ledgers.append(Ledger(subject=subject("late"), launches=[]))
    assert bench.again(measured, min_launches=3, max_launches=3) == [["late"]] * 3


def test_baseline_that_nobody_asked_for_is_not_reported(bench: Bench) -> None:
    bench.measure(group("a", wanted=False), min_launches=2, max_launches=2)
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
    bench.speeds = {"a": [3000], "b": [3000], "c": [3000]}
    bench.measure(group("a", "b", "c"), min_launches=2, max_launches=2)
    nothing = Progress(num_round=0, num_new=4, num_open=0, num_beyond=0, num_cells=4, seconds_left=0)
    first, middle, last = bench.reports
    assert first == nothing
    assert (middle.num_round, middle.num_new) == (1, 4)
    assert middle.seconds_left == pytest.approx(4 * 10 / 3)  # three cells took ten seconds, four launches are to come
    assert last == dataclasses.replace(nothing, num_round=2, num_new=0)


def test_progress_of_a_baseline_that_failed(bench: Bench) -> None:
    bench.failing = {"raw": 1}
    bench.measure(group("a", "b"))
    assert bench.reports[-1] == Progress(num_round=1, num_new=0, num_open=0, num_beyond=0, num_cells=3, seconds_left=0)


def test_every_block_is_kept_before_the_next(bench: Bench) -> None:
    seen = []

    def keep(result: Result) -> None:
        seen.append((len(bench.blocks), len(result.launches)))

    goal = Goal(min_launches=3, max_launches=3)
    rounds.measure([group("a")], METHOD, goal, keep=keep, report=lambda _: None)
    assert seen == [(1, 3), (2, 3), (3, 3)]


class TwoMachines(BlocksHere):
    """Two blocks at a time, of which the first is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.began = 0

    def most_at_once(self) -> int:
        return 2

    def begin(self, *arguments: Any) -> Future[Result]:
        self.began += 1
        if self.began > 1:
            return super().begin(*arguments)
        lost: Future[Result] = Future()
        lost.set_exception(ChildError("exit", "its machine died"))
        return lost


def test_results_of_other_blocks_are_kept_when_one_is_lost(bench: Bench) -> None:
    places = TwoMachines()
    groups = [group("a"), group("b")]
    with pytest.raises(ChildError, match="its machine died"):
        rounds.measure(groups, METHOD, Goal(), keep=bench.kept.append, report=lambda _: None, blocks=places)
    assert (places.began, len(bench.kept)) == (2, 1)


class SlowFirst(BlocksHere):
    """Two blocks at a time; the first one takes until six others are over."""

    def __init__(self) -> None:
        super().__init__()
        self.began: list[str] = []
        self.over: list[str] = []
        self._first: Callable[[], None] | None = None

    def most_at_once(self) -> int:
        return 2

    def begin(self, baseline: Subject, subjects: Sequence[Subject], *more: Any) -> Future[Result]:
        name = f"{baseline.cell.threads} {subjects[0].cell.variant}"
        self.began.append(name)
        result = super().begin(baseline, subjects, *more).result()
        found: Future[Result] = Future()

        def end() -> None:
            self.over.append(name)
            found.set_result(result)

        if len(self.began) == 1:
            self._first = end
            return found
        end()
        if len(self.over) == 6 and self._first is not None:
            self._first()
        return found


def test_a_machine_is_not_idle_while_another_is_at_a_long_block(bench: Bench) -> None:
    """The next round begins, the long block's cells among the others, and no cell gets more launches than it needs."""
    places = SlowFirst()
    groups = [group("a"), group("b", threads=2), group("c", threads=3)]
    goal = Goal(min_launches=6, max_launches=6)

    rounds.measure(groups, METHOD, goal, keep=bench.kept.append, report=lambda _: None, blocks=places)

    slow = places.began[0]
    assert Counter(places.began[:9]) == dict.fromkeys(("1 a", "2 b", "3 c"), 3), "three rounds before the first is over"
    assert places.over[6] == slow
    assert Counter(places.began) == dict.fromkeys(("1 a", "2 b", "3 c"), 6)


class AtOnce(BlocksHere):
    """Several blocks at a time, of which one ends whenever a block is waited for, in the order that is asked for.

    Attributes:
        most_running: how many ran at the same time.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, num_machines: int, order: Sequence[int] = ()) -> None:
        super().__init__()
        self._num_machines, self._order = num_machines, [*order]
        self._ends: dict[int, Callable[[], None]] = {}
        self._num_begun = 0
        self.most_running = 0
        wait = rounds.wait
        monkeypatch.setattr(rounds, "wait", lambda running, **how: self._end() or wait(running, **how))

    def most_at_once(self) -> int:
        return self._num_machines

    def begin(self, *arguments: Any) -> Future[Result]:
        result = super().begin(*arguments).result()
        found: Future[Result] = Future()
        self._ends[self._num_begun] = lambda: found.set_result(result)
        self._num_begun += 1
        self.most_running = max(self.most_running, len(self._ends))
        return found

    def _end(self) -> None:
        self._ends.pop(self._order.pop(0) if self._order else min(self._ends))()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_cells_of_one_request_are_on_several_machines_at_a_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, order: Sequence[int]
) -> None:
    places = AtOnce(monkeypatch, 3, order)
    goal = Goal(min_launches=3, max_launches=3)

    rounds.measure([group("a", "b")], METHOD, goal, keep=bench.kept.append, report=lambda _: None, blocks=places)

    assert places.most_running == 3
    assert [sorted(block) for block in bench.blocks] == [["a", "b"]] * 3, "and no more than a cell may have"


def test_a_machine_gets_its_next_block_before_the_results_of_the_last_one_are_kept(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as what was known before asks for launches."""
    goal = Goal(min_launches=6, max_launches=6)
    begun: list[int] = []

    def keep(_: Result) -> None:
        begun.append(len(bench.blocks))

    rounds.measure([group("a")], METHOD, goal, keep=keep, report=lambda _: None, blocks=AtOnce(monkeypatch, 2))

    assert begun == [3, 4, 5, 6, 6, 6]


def test_rounds_are_counted_by_their_blocks(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """More machines than blocks wait for blocks to end, which is no round."""
    groups = [group("a", threads=number) for number in range(1, 7)]
    goal = Goal(min_launches=1, max_launches=1)
    told: list[int] = []

    def report(progress: Progress) -> None:
        told.append(progress.num_round)

    rounds.measure(groups, METHOD, goal, keep=bench.kept.append, report=report, blocks=AtOnce(monkeypatch, 8))

    assert told == [0, *[1] * 6]


@pytest.mark.parametrize(
    ("failing", "order", "expected"),
    [
        ("a", (1, 0, 2), ["failure", "launch", "again", "launch", "again"]),
        ("a", (0, 1, 2), ["launch", "failure", "launch", "again"]),
        ("raw", (1, 0, 2), ["failure", "again", "again"]),
    ],
)
def test_launches_of_other_machines_do_not_clear_a_failure(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, failing: str, order: Sequence[int], expected: list[str]
) -> None:
    """A record's failure is its last line, so it is stored again after launches that were under way."""
    bench.failing = {failing: 2}
    stored: list[str] = []

    def keep(result: Result) -> None:
        own = failing if failing != "raw" else ""
        stored.extend("launch" for subject, _ in result.launches if subject.cell.variant == own)
        stored.extend("again" for failure in result.again if failure.subject.cell.variant == failing)
        stored.extend("failure" for failure in result.failures if failure.subject.cell.variant == failing)

    goal = Goal(min_launches=3, max_launches=3)
    places = AtOnce(monkeypatch, 3, order)
    rounds.measure([group("a", "b")], METHOD, goal, keep=keep, report=lambda _: None, blocks=places)

    assert stored == expected
