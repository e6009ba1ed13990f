"""Rounds, with fake blocks: which cells are measured in which round, and when measuring ends."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from bench.api.cell import Cell
from bench.api.errors import ChildError
from bench.measure import questions, rounds, stats
from bench.measure.block import Failure, Method, Repeats, Result, Subject
from bench.measure.comparison import CELL, CONTROL, REFERENCE, Comparison
from bench.measure.launch import Launch
from bench.measure.questions import BEST, GAIN, VERDICT, Aims, Question
from bench.measure.rounds import Goal, Group, Ledger, Progress
from bench.measure.stats import Effect
from support import records as made

METHOD = Method()
GIB = 2**30
NOISY = [1020, *[960, 1040] * 10]
"""Latencies of the launches of a cell that no number of launches tells from the baseline."""


def subject(variant: str, *, threads: int = 1, rss_bytes: int = 1) -> Subject:
    cell = Cell.from_path(f"toy/null/native/{variant}/null/cpu/b1t{threads}")
    return made.subject(cell, rss_bytes=rss_bytes)


def group(
    *variants: str, threads: int = 1, rss_bytes: int = 1, wanted: bool = True, winners: Sequence[str] = ()
) -> Group:
    """A group whose baseline is `raw`, wanted or only there to be compared with; nobody may win unless named."""
    baseline, *others = (
        Ledger(subject=subject(name, threads=threads, rss_bytes=rss_bytes), launches=[], may_win=name in winners)
        for name in ("raw", *variants)
    )
    return Group(baseline=baseline, ledgers=[*([baseline] if wanted else []), *others])


class Bench:
    """Stands in for `run_block`: notes who took part, and gives launches with a known noise, an hour apart."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.blocks: list[list[str]] = []
        self.repeats: list[Repeats] = []
        self.kept: list[Result] = []
        self.reports: list[Progress] = []
        self.noisy: set[str] = set()
        self.speeds: dict[str, list[int]] = {}
        """Latency of each launch in turn, the last one for all later ones; 1000 for variants that are not named."""
        self.max_s: list[float] = []
        """Seconds that the passes of each block may take."""
        self.failing: dict[str, int] = {}
        """Variants that fail, and at which of their blocks."""
        self.seconds_per_block = 10.0
        self.hours = 0
        self.now = 0.0
        self._numbers = itertools.count()
        monkeypatch.setattr(rounds, "run_block", self._run)
        monkeypatch.setattr(rounds, "time", SimpleNamespace(monotonic=lambda: self.now))
        clock = SimpleNamespace(now=lambda zone: made.START + datetime.timedelta(hours=self.hours))
        monkeypatch.setattr(rounds, "datetime", SimpleNamespace(datetime=clock, UTC=datetime.UTC))

    def _run(
        self,
        baseline: Subject,
        subjects: Sequence[Subject],
        method: Method,
        *,
        out_of_time: Callable[[], bool],
        repeats: Repeats,
    ) -> Result:
        assert dataclasses.replace(method, max_s=METHOD.max_s) == METHOD
        self.max_s.append(method.max_s)
        self.repeats.append(repeats)
        self.now += self.seconds_per_block
        self.hours += 1
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
        variant = item.cell.variant
        speeds = NOISY if variant in self.noisy else self.speeds.get(variant, [1000])
        samples = ((speeds[min(self.launches(variant), len(speeds)) - 1],),) * 5
        return made.launch(block, role, 1000, launch=str(next(self._numbers)), steady_ns=samples, time=None)

    def measure(self, *groups: Group, **goal: Any) -> None:
        rounds.measure(groups, METHOD, Goal(**goal), keep=self.kept.append, report=self.reports.append)

    def launches(self, variant: str) -> int:
        """Blocks that a variant took part in; of the baseline, all."""
        return len(self.blocks) if variant == "raw" else sum(variant in block for block in self.blocks)

    def again(self, *groups: Group, **goal: Any) -> list[list[str]]:
        """The blocks that a second sweep runs."""
        before = len(self.blocks)
        self.measure(*groups, **goal)
        return self.blocks[before:]

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
    """So the launches of each are spread over the round, and a group with more blocks does not come last."""
    bench.measure(group("a", threads=1), group("b", threads=2), min_launches=2, max_launches=2)
    assert bench.blocks == [["a"], ["b"], ["a"], ["b"]]
    bench.blocks.clear()
    names = [f"v{number}" for number in range(25)]
    bench.measure(group(*names, threads=1), group("b", threads=2), max_launches=1)
    assert [block == ["b"] for block in bench.blocks] == [False, True, False, False]


def test_cells_without_a_launch_come_first(bench: Bench) -> None:
    """Of a run that was stopped, the next one begins with the cells that it had no time for."""
    bench.noisy = {"ahead", "behind"}
    ahead, behind = group("ahead", threads=1), group("behind", threads=2)
    bench.measure(ahead, max_launches=1)
    bench.blocks.clear()
    bench.measure(ahead, behind, max_launches=2)
    assert bench.blocks == [["behind"], ["ahead"], ["behind"]] or bench.blocks == [["behind"], ["behind"], ["ahead"]]


def test_only_cells_with_an_open_question_get_further_launches(bench: Bench) -> None:
    bench.noisy = {"noisy"}
    bench.speeds = {"slow": [3000], "fast": [300]}
    bench.measure(group("slow", "noisy", "fast"))
    counts = bench.counts()
    assert (counts["slow"], counts["fast"]) == (1, 1)
    assert 1 < counts["noisy"] <= 12
    assert (bench.reports[-1].num_open, bench.reports[-1].num_beyond) == (0, 1)


def test_sweep_stops_by_itself(bench: Bench) -> None:
    """All cells are decided by their first launches."""
    bench.speeds = {"slow": [3000], "fast": [300]}
    bench.measure(group("slow", "fast"))
    assert len(bench.blocks) == 1
    assert (bench.reports[-1].num_open, bench.reports[-1].num_beyond, bench.reports[-1].num_new) == (0, 0, 0)


def test_race_is_between_those_that_may_win(bench: Bench) -> None:
    """The fastest cell may not win, and the last one is far behind: both have their verdict after one launch."""
    bench.speeds = {"wrong": [100], "one": [500], "other": [501], "far": [900]}
    names = ("one", "other", "far")
    bench.measure(group("wrong", *names, winners=names))
    counts = bench.counts()
    assert (counts["wrong"], counts["far"]) == (1, 1)
    assert 1 < counts["one"] <= 12
    assert 1 < counts["other"] <= 12


def test_winner_without_a_rival_gets_launches_for_its_gain(bench: Bench) -> None:
    bench.speeds = {"first": [300], "far": [600]}
    bench.measure(group("first", "far", winners=("first", "far")))
    assert bench.counts()["first"] > 1
    assert bench.counts()["far"] == 1


def test_second_sweep_runs_no_block(bench: Bench) -> None:
    """Whether the questions were answered, or cannot be."""
    bench.speeds = {"slow": [3000], "one": [500], "other": [501]}
    bench.noisy = {"noisy"}
    groups = group("slow", "noisy", "one", "other", winners=("one", "other")), group("late", threads=2)
    bench.measure(*groups)
    assert bench.again(*groups) == []
    groups[1].ledgers.append(Ledger(subject=subject("new", threads=2), launches=[], may_win=False))
    bench.speeds["new"] = [3000]
    assert bench.again(*groups) == [["new"]]


def test_open_questions_become_fewer(bench: Bench) -> None:
    bench.speeds = {"a": [1030], "b": [1045], "c": [970], "d": [955], "e": [3000]}
    bench.measure(group(*bench.speeds))
    num_open = [report.num_open for report in bench.reports if not report.num_new]
    assert num_open[0] >= 2
    assert num_open == sorted(num_open, reverse=True)
    assert num_open[-1] == 0
    assert bench.reports[0].num_open == 0, "nothing is asked of cells that were never launched"
    assert bench.reports[0].num_new == 6


def test_answer_of_an_earlier_block_spares_a_planned_launch(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fourteen cells make two blocks of a round; the first of the second round answers the questions of odd cells."""
    names = [f"v{number}" for number in range(14)]

    def is_open(name: str) -> bool:
        return len(bench.blocks) < 3 or (len(bench.blocks) == 3 and int(name[1:]) % 2 == 0)

    def open_questions(contests: Sequence[Any], aims: Aims, *, most: int) -> list[list[Question]]:
        (contest,) = contests
        asked = {Cell.from_path(name).variant: name for name in contest.asked}
        return [[Question(kind=VERDICT, cells=(asked[name],), launches=1) for name in names if is_open(name)]]

    monkeypatch.setattr(questions, "open_questions", open_questions)
    random.seed(1)
    bench.measure(group(*names))
    assert [len(block) for block in bench.blocks[:3]] == [12, 2, 12]
    evens = {name for name in names if is_open(name) or int(name[1:]) % 2 == 0}
    left = {name for name in evens if name not in bench.blocks[2]}
    assert [set(block) for block in bench.blocks[3:]] == ([left] if left else [])


def test_question_gets_no_more_launches_than_it_may(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two cells of a question that stays open, the one with all its launches waits for the other."""
    first = group("full", "other")
    bench.measure(first, min_launches=2, max_launches=2)
    bench.measure(Group(baseline=first.baseline, ledgers=[first.ledgers[1]]), min_launches=4, max_launches=4)
    cells = tuple(ledger.name for ledger in first.ledgers[1:])
    question = Question(kind=BEST, cells=cells, launches=1)
    monkeypatch.setattr(questions, "open_questions", lambda *_, **__: [[question]])
    assert bench.again(first, max_launches=4) == [["other"]] * 2


def test_question_that_launches_hardly_answer_comes_last(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    far, near = group("far", threads=1), group("near", threads=2)
    bench.measure(far, near, max_launches=1)
    asked = [
        [Question(kind=BEST, cells=(far.ledgers[1].name,), launches=None)],
        [Question(kind=GAIN, cells=(near.ledgers[1].name,), launches=5)],
    ]
    monkeypatch.setattr(questions, "open_questions", lambda *_, **__: asked)
    bench.blocks.clear()
    bench.measure(far, near, max_launches=3)
    assert bench.blocks == [["near"], ["far"], ["near"], ["far"]]
    assert (bench.reports[-1].num_open, bench.reports[-1].num_beyond) == (0, 2)


def test_most_urgent_questions_come_first(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = group("near", threads=1), group("far", threads=2)
    bench.measure(far, near, max_launches=1)

    def open_questions(contests: Sequence[Any], aims: Aims, *, most: int) -> list[list[Question]]:
        return [
            [Question(kind=VERDICT, cells=(contest.asked[1],), launches=launches)] if len(bench.blocks) < 4 else []
            for contest, launches in zip(contests, (3, 1), strict=True)
        ]

    monkeypatch.setattr(questions, "open_questions", open_questions)
    assert bench.again(far, near) == [["near"], ["far"]]


def test_launches_of_earlier_runs_count(bench: Bench) -> None:
    again = group("a", "b")
    bench.measure(again, min_launches=3, max_launches=3)
    assert bench.again(again, min_launches=3, max_launches=3) == []
    again.ledgers.append(Ledger(subject=subject("new"), launches=[]))
    assert bench.again(again, min_launches=3, max_launches=3) == [["new"]] * 3


def test_launches_that_are_stale_do_not_count(bench: Bench) -> None:
    again = group()
    bench.measure(again, min_launches=3)
    again.baseline.num_stale = 3
    assert bench.again(again, min_launches=2) == [[], []]
    assert len(again.baseline.launches) == 2 * (3 + 2)


def test_margin_decides(bench: Bench) -> None:
    """Within 40 % any difference is none, and within 0.1 % none is ever shown to be so small."""
    counts = []
    for margin in (0.4, 0.001):
        bench.speeds = {"a": [1000, 1015, 985]}
        bench.blocks.clear()
        bench.measure(group("a"), aims=Aims(margin=margin), max_launches=9)
        counts.append((bench.counts()["a"], bench.reports[-1].num_beyond))
    assert counts[0] == (1, 0)
    assert counts[1] == (9, 1)


def test_launches_have_the_time_of_their_block(bench: Bench) -> None:
    """The model needs it: blocks that are near in time share a state of the machine."""
    found = group("a")
    bench.measure(found, min_launches=3, max_launches=3)
    times = [[launch.time for launch in ledger.launches] for ledger in found.ledgers]
    hours = [f"2026-01-01T0{hour}:00:00+00:00" for hour in (1, 2, 3)]
    assert times == [[hour for hour in hours for _ in range(2)], hours]


def test_launch_that_has_a_time_keeps_it() -> None:
    found = group("a")
    subject, launch = found.ledgers[1].subject, made.launch("a", CELL, 1000)
    rounds.note(found, Result(launches=((subject, launch),), failures=()))
    assert found.ledgers[1].launches == [launch]


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
    bench.max_s.clear()
    bench.measure(group("a"), max_launches=1, budget_s=1e6)
    bench.measure(group("a"), max_launches=1)
    assert bench.max_s == [METHOD.max_s] * 2


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
    bench.measure(group(*[f"v{number}" for number in range(30)]), min_launches=1, max_launches=1)
    assert [len(block) + 2 for block in bench.blocks] == [rounds.MAX_WORKERS, rounds.MAX_WORKERS, 8]


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


def test_goal_is_the_documented_one() -> None:
    assert dataclasses.asdict(Goal()) == {
        "aims": {"margin": 0.02, "within": 0.03, "regret": 0.05},
        "tolerance": None,
        "min_launches": 1,
        "max_launches": 12,
        "budget_s": None,
    }


@pytest.mark.parametrize(("fewest", "most", "looks"), [(3, 12, (3, 6, 12)), (1, 6, (1, 2, 4, 6)), (3, 3, (3,))])
def test_tolerance_is_asked_about_at_few_looks(fewest: int, most: int, looks: tuple[int, ...]) -> None:
    assert Goal(tolerance=0.02, min_launches=fewest, max_launches=most).looks() == looks


def slower(ratio: float, error: float, launches: int = 3) -> Comparison:
    effect = Effect(value=math.log(ratio), error=error, freedom=1e12)
    return Comparison(effect=effect, control=None, num_launches=launches)


def test_regression_by_hand() -> None:
    """Three looks share the 5 %: the normal quantile of 1 - 0.05 / 6 is 2.3940."""
    goal = Goal(tolerance=0.02, min_launches=3, max_launches=12)
    sd = (math.log(1.05) - math.log(1.02)) / 2.3940
    assert goal.regression(slower(1.05, 0.999 * sd)) == "regression"
    assert goal.regression(slower(1.05, 1.001 * sd)) == "undecided"
    sd = math.log(1.02) / 2.3940
    assert goal.regression(slower(1.0, 0.999 * sd)) == "fine"
    assert goal.regression(slower(1.0, 1.001 * sd)) == "undecided"
    assert goal.regression(slower(1.3, 0.001, launches=2)) == "undecided", "fewer launches than the first look"
    assert goal.regression(Comparison(effect=None, control=None, num_launches=3)) == "undecided"
    strict = Goal(tolerance=0.0, min_launches=3, max_launches=3)
    assert strict.regression(slower(1.004, 0.0001)) == "undecided", "the noise floor is no regression"
    assert strict.regression(slower(1.006, 0.0001)) == "regression"


def test_tolerance_stops_at_the_first_look_that_decides(bench: Bench) -> None:
    bench.speeds = {"slow": [3000]}
    bench.measure(group("slow"), tolerance=0.02, min_launches=2, max_launches=8)
    assert bench.counts() == {"slow": 2}
    bench.blocks.clear()
    bench.noisy = {"noisy"}
    bench.measure(group("noisy"), tolerance=0.02, min_launches=2, max_launches=8)
    assert bench.counts() == {"noisy": 8}
    assert (bench.reports[-1].num_open, bench.reports[-1].num_beyond) == (0, 1)


def test_tolerance_does_not_stop_between_looks(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decided after three of its launches, it runs until the look at four."""
    monkeypatch.setattr(
        Goal, "regression", lambda _, found: rounds.FINE if found.num_launches >= 3 else stats.UNDECIDED
    )
    bench.measure(group("a"), tolerance=0.02, min_launches=2, max_launches=8)
    assert bench.counts() == {"a": 4}
