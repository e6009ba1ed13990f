"""Rounds, with fake blocks: which cells are measured in which round, and when all is answered."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Sequence
from typing import Any

import pytest

from bench.api.cell import Cell
from bench.measure import comparison, planning, questions, stats
from bench.measure.block import Result
from bench.measure.comparison import CELL, Comparison
from bench.measure.goal import FINE, Goal
from bench.measure.ledgers import Group, Ledger, note
from bench.measure.open_work import Need, OpenWork
from bench.measure.questions import BEST, GAIN, VERDICT, Aims, Question
from bench.measure.stats import Effect
from support import records as made
from support.fake_blocks import GIB, Bench, group, subject


def test_every_cell_has_an_estimate_before_any_has_a_second_launch(bench: Bench) -> None:
    names = [f"v{number}" for number in range(20)]
    bench.noisy = set(names)
    bench.measure(group(*names), min_launches=3, max_launches=3)
    order = [variant for block in bench.blocks for variant in block]
    assert [sorted(order[start : start + 20]) for start in (0, 20, 40)] == [sorted(names)] * 3
    assert len(order) == 60


def test_first_launches_go_to_those_that_are_expected_to_be_fast(bench: Bench) -> None:
    """Of 24 cells in two blocks: the second block has those that were slow elsewhere; nothing is known of one cell."""
    cells = group(*[f"v{number:02}" for number in range(24)])
    for number, ledger in enumerate(cells.ledgers[1:]):
        ledger.expected = 0.0 if number == 23 else 1 + number
    bench.noisy = {f"v{number:02}" for number in range(24)}
    bench.measure(cells, max_launches=2)
    assert sorted(bench.blocks[0]) == [*(f"v{number:02}" for number in range(11)), "v23"]
    assert sorted(bench.blocks[1]) == [f"v{number:02}" for number in range(11, 23)]
    assert sorted(bench.blocks[2]) != sorted(bench.blocks[0]), "later launches are drawn"


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
    blocks = bench.again(ahead, behind, max_launches=2)
    assert blocks in ([["behind"], ["ahead"], ["behind"]], [["behind"], ["behind"], ["ahead"]])


def test_only_cells_with_an_open_question_get_further_launches(bench: Bench) -> None:
    bench.noisy = {"noisy"}
    bench.speeds = {"slow": [3000], "fast": [300]}
    bench.measure(group("slow", "noisy", "fast"))
    counts = bench.counts()
    assert (counts["slow"], counts["fast"]) == (1, 1)
    assert 1 < counts["noisy"] <= 16
    assert (bench.reports[-1].num_open, bench.reports[-1].num_beyond) == (0, 1)


def test_sweep_stops_by_itself(bench: Bench) -> None:
    """All cells are decided by their first launches."""
    bench.speeds = {"slow": [3000], "fast": [300]}
    bench.measure(group("slow", "fast"))
    assert len(bench.blocks) == 1
    assert (bench.reports[-1].num_open, bench.reports[-1].num_beyond, bench.reports[-1].num_new) == (0, 0, 0)


def test_contenders_meet_in_blocks_of_their_own_before_verdicts_are_asked(bench: Bench) -> None:
    """Of the two in front and two whose verdict is open, all of which need a second launch."""
    bench.speeds = {"one": [500, 510, 505], "other": [501, 495, 507]}
    bench.noisy = {"noisy", "noisier"}
    bench.measure(group("one", "other", "noisy", "noisier", winners=("one", "other")))
    assert sorted(bench.blocks[0]) == ["noisier", "noisy", "one", "other"]
    assert sorted(bench.blocks[1]) == ["one", "other"]
    assert all(bench.noisy.isdisjoint(block) or bench.noisy.issuperset(block) for block in bench.blocks[1:])


def test_contenders_meet_without_the_baseline_once_it_has_two_blocks(bench: Bench) -> None:
    """Two in front scatter, so that they need many launches; the baseline is in the blocks that ask for verdicts."""
    bench.speeds = {"one": [500, *[450, 550] * 10], "other": [501, *[549, 453] * 10], "far": [900]}
    cells = group("one", "other", "far", winners=("one", "other", "far"))
    bench.measure(cells)
    assert bench.apart[:3] == [False, False, True]
    assert sum(bench.apart) >= 5
    for block, is_apart in zip(bench.blocks, bench.apart, strict=True):
        assert not is_apart or sorted(block) == ["one", "other"]
    (found,) = comparison.fit([cells.launched()])
    counts = bench.counts()
    one, other = (ledger.name for ledger in cells.ledgers[1:3])
    assert {name: found.num_launches[name] for name in (one, other)} == {one: counts["one"], other: counts["other"]}
    assert found.num_launches[cells.baseline.name] == len(bench.blocks) - sum(bench.apart)
    assert found.against_baseline(one).ratio is not None


def test_a_baseline_that_may_be_the_choice_is_in_each_block(bench: Bench) -> None:
    bench.speeds = {"one": [1000, *[900, 1100] * 10], "other": [1001, *[1099, 905] * 10]}
    bench.measure(group("one", "other", winners=("raw", "one", "other")), max_launches=8)
    assert len(bench.blocks) >= 8
    assert not any(bench.apart)


def test_a_round_has_the_choices_of_all_requests_the_nearest_answer_first() -> None:
    """Rivals that look alike are no reason to leave another request's choice open; verdicts come after both."""
    groups = group("one", "other"), group("first", "rival"), group("slow")
    needs = [
        {each.ledgers[-1].name: Need(launches=1, urgency=urgency)}
        for each, urgency in zip(groups, ((3, True, 0.25), (3, False, 1.0), (2, False, 1.0)), strict=True)
    ]
    work = OpenWork(needs=needs, questions=[[], [], []], fits=[])
    planned = planning.plan_round(groups, work, GIB)
    assert [(index, [ledger.name for ledger in block]) for index, block in planned] == [
        (1, list(needs[1])),
        (0, list(needs[0])),
    ]


def test_race_is_between_those_that_may_win(bench: Bench) -> None:
    """The fastest cell may not win, and the last one is far behind: both have their verdict after one launch."""
    bench.speeds = {"wrong": [100], "one": [500], "other": [501], "far": [900]}
    names = ("one", "other", "far")
    bench.measure(group("wrong", *names, winners=names))
    counts = bench.counts()
    assert (counts["wrong"], counts["far"]) == (1, 1)
    assert 1 < counts["one"] <= 16
    assert 1 < counts["other"] <= 16


def test_winner_without_a_rival_gets_launches_for_its_gain(bench: Bench) -> None:
    bench.speeds = {"first": [300], "far": [600]}
    bench.measure(group("first", "far", winners=("first", "far")))
    assert bench.counts()["first"] > 1
    assert bench.counts()["far"] == 1


def test_a_baseline_that_looks_fastest_gets_a_second_block_alone(bench: Bench) -> None:
    """All others have their verdict after one launch, so nothing else is asked; also in the seconds after the time."""
    bench.speeds = {"far": [3000], "further": [4000]}
    bench.measure(group("far", "further", winners=("raw", "far", "further")))
    assert [sorted(block) for block in bench.blocks] == [["far", "further"], []]
    bench.blocks.clear()
    bench.measure(group("far", winners=("raw", "far")), budget_s=5, second_s=60)
    assert bench.blocks == [["far"], []]


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

    def open_questions(groups: Sequence[Any], aims: Aims, *, most: int) -> list[list[Question]]:
        (group,) = groups
        asked = {Cell.from_path(name).variant: name for name in group.verdict_cells}
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
    assert bench.blocks == [["near"], ["near"], ["far"], ["far"]]
    assert (bench.reports[-1].num_open, bench.reports[-1].num_beyond) == (0, 2)


def test_most_urgent_questions_come_first(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = group("near", threads=1), group("far", threads=2)
    bench.measure(far, near, max_launches=1)

    def open_questions(groups: Sequence[Any], aims: Aims, *, most: int) -> list[list[Question]]:
        return [
            [Question(kind=VERDICT, cells=(group.verdict_cells[1],), launches=launches)]
            if len(bench.blocks) < 4
            else []
            for group, launches in zip(groups, (3, 1), strict=True)
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
    note(found, Result(launches=((subject, launch),), failures=()))
    assert found.ledgers[1].launches == [launch]


def test_goal_is_the_documented_one() -> None:
    assert dataclasses.asdict(Goal()) == {
        "aims": {"margin": 0.02, "every_gain": False, "within": 0.03, "regret": 0.05},
        "tolerance": None,
        "min_launches": 1,
        "max_launches": 16,
        "budget_s": None,
        "second_s": 0.0,
        "is_brief": False,
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
    monkeypatch.setattr(Goal, "regression", lambda _, found: FINE if found.num_launches >= 3 else stats.UNDECIDED)
    bench.measure(group("a"), tolerance=0.02, min_launches=2, max_launches=8)
    assert bench.counts() == {"a": 4}
