"""Questions of a sweep: which are open, what would answer them, and which cells they are about."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest

from bench.measure.questions import BEST, GAIN, VERDICT, WITHIN, Aims, ComparisonGroup, Question, open_questions
from support import known

MOST = 6


def group(
    ratios: Mapping[str, float],
    error: float | Mapping[str, float],
    *,
    candidates: Sequence[str] = (),
    verdict_cells: Sequence[str] | None = None,
    launches: Mapping[str, int] | None = None,
) -> ComparisonGroup:
    fitted = known.fitted(ratios, error, launches=launches)
    return ComparisonGroup(
        fitted=fitted, verdict_cells=list(ratios) if verdict_cells is None else verdict_cells, candidates=candidates
    )


def asked(found: ComparisonGroup, *, most: int = MOST, **aims: float) -> dict[tuple[str, tuple[str, ...]], int | None]:
    """The open questions by kind and cells, with the launches that they need."""
    (questions,) = open_questions([found], Aims(**aims), most=most)
    return {(question.kind, question.cells): question.launches for question in questions}


def launches_of(found: ComparisonGroup, kind: str, *, most: int = MOST) -> int | None:
    (launches,) = [launches for (of, _), launches in asked(found, most=most).items() if of == kind]
    return launches


@pytest.mark.parametrize(
    ("ratio", "error"),
    [(0.5, 0.02), (1.5, 0.02), (1.03, 0.005), (1.0, 0.002), (1.0025, 0.0005)],
)
def test_cell_with_a_verdict_has_no_question(ratio: float, error: float) -> None:
    """Faster, slower twice, and noise twice."""
    assert asked(group({"a": ratio}, error)) == {}


@pytest.mark.parametrize(("ratio", "error"), [(0.97, 0.02), (1.05, 0.03), (1.0, 0.012)])
def test_cell_without_a_verdict_has_one(ratio: float, error: float) -> None:
    assert list(asked(group({"a": ratio}, error))) == [(VERDICT, ("a",))]


def test_launches_that_a_verdict_needs_by_hand() -> None:
    """2.45 errors must leave the floor of 0.5 % free, or stay within 2 %; the estimate may move by one error.

    Six looks at a level of 1.4 % each are wrong in 5 % together.
    """
    # 4 % may become 6 %, and 2.45 x 2 % x sqrt(3 / 4) is 4.2 %.
    assert asked(group({"a": math.exp(0.04)}, 0.02)) == {(VERDICT, ("a",)): 1}
    # 2.45 x 1.1 % x sqrt(3 / 6) is 1.91 %, and with five launches 2.1 %.
    assert asked(group({"a": 1.0}, 0.011)) == {(VERDICT, ("a",)): 3}
    # 2.45 x 1.2 % x sqrt(3 / 6) is 2.08 %, and 1.2 % less the floor is no more either.
    assert asked(group({"a": 1.0}, 0.012)) == {(VERDICT, ("a",)): None}


def test_verdict_as_it_is_shown_does_not_stop_a_sweep() -> None:
    """A sweep stops at the first verdict, so it waits for one that six looks together leave at 5 %."""
    close = group({"a": 1.05}, 0.021)
    assert close.fitted.against_baseline("a").verdict(0.02) == "slower"
    assert list(asked(close)) == [(VERDICT, ("a",))]


def test_a_rival_of_one_launch_gets_another_however_far_the_answer_seems() -> None:
    """What its launches scatter by is a guess until there are two."""
    ratios = {"a": 1.0, "b": 1.01}
    once, twice = (group(ratios, 0.1, candidates=("a", "b"), launches={"a": 2, "b": number}) for number in (1, 2))
    assert launches_of(once, BEST, most=2) == 1
    assert launches_of(twice, BEST, most=2) is None
    (question,) = [each for each in open_questions([once], Aims(), most=2)[0] if each.kind == BEST]
    assert question.urgency > Question(kind=VERDICT, cells=("a",), launches=1).urgency


def test_question_that_the_allowed_launches_cannot_answer() -> None:
    hopeless = group({"a": 1.0}, 0.1)
    assert launches_of(hopeless, VERDICT) is None
    unlikely = Question(kind=BEST, cells=("a",), launches=None)
    assert unlikely.urgency < Question(kind=GAIN, cells=("a",), launches=12).urgency
    assert unlikely.urgency > Question(kind=VERDICT, cells=("a",), launches=None).urgency, "a decision first"
    # Moved by 10 %, it needs 2.71 x 10 % x sqrt(3 / n) < 9.5 % where there are 25 looks: 25 launches.
    assert launches_of(hopeless, VERDICT, most=25) == 22
    assert launches_of(hopeless, VERDICT, most=24) is None
    full = group({"a": 0.97}, 0.02, launches={"a": MOST})
    assert asked(full) == {(VERDICT, ("a",)): None}


def test_verdicts_are_corrected_for_the_cells_of_all_groups() -> None:
    """Alone, 2.6 standard errors beyond the floor are enough; among forty cells without a difference they are not."""
    one = group({"a": math.exp(0.031)}, 0.01)
    assert asked(one) == {}
    others = group({f"v{number}": 1.0 for number in range(40)}, 0.001)
    first, second = open_questions([one, others], Aims(), most=MOST)
    assert [(question.kind, question.cells) for question in first] == [(VERDICT, ("a",))]
    assert second == []


def test_only_what_was_asked_and_has_run_gets_a_verdict() -> None:
    ratios = {"a": 0.97, "b": 0.97}
    found = group(ratios, 0.02, verdict_cells=["baseline", "b", "absent"])
    assert list(asked(found)) == [(VERDICT, ("b",))]


def test_winner_is_asked_until_it_may_be_slower_by_no_more_than_the_regret() -> None:
    """One rival, 5 % less what was spent on one side over six looks: 2.21 standard errors of the difference."""
    for sd, is_open in ((0.026, True), (0.02, False)):
        found = group(
            {"first": 0.5, "rival": 0.5},
            {"first": sd / math.sqrt(2), "rival": sd / math.sqrt(2)},
            candidates=["first", "rival"],
        )
        assert ((BEST, ("rival", "first")) in asked(found)) == is_open
    assert 2.2099 * 0.02 < math.log(1.05) < 2.2099 * 0.026


def test_rival_is_asked_until_it_is_equal_or_slower() -> None:
    """The winner is known; whether the rival is within 3 % of it is not."""

    def found(ratio: float, sd: float) -> dict[tuple[str, tuple[str, ...]], int | None]:
        return asked(group({"first": 0.5, "rival": 0.5 * ratio}, sd, candidates=["first", "rival"]))

    assert list(found(1.02, 0.008)) == [(WITHIN, ("rival", "first"))]
    assert found(1.02, 0.002) == {}
    assert found(1.06, 0.008) == {}


def test_gain_is_asked_until_its_interval_is_as_narrow_as_the_margin() -> None:
    """1.96 standard errors must be 2 %, so one error 1.01 %; after twice the launches 1.3 % are 0.92 %."""
    assert asked(group({"first": 0.5, "far": 0.9}, {"first": 0.010, "far": 0.01}, candidates=["first"])) == {}
    found = group({"first": 0.5, "far": 0.9}, {"first": 0.013, "far": 0.01}, candidates=["first"])
    assert asked(found) == {(GAIN, ("first",)): 2}, "five launches: 1.96 x 1.3 % x sqrt(3 / 5) = 1.97 %"
    assert asked(found, margin=0.05) == {}


def test_the_gain_of_every_cell_is_asked_where_that_is_wanted() -> None:
    """Also of cells that are known to be slower, and once of the winner."""
    ratios, errors = {"first": 0.5, "far": 1.9, "sure": 2.5}, {"first": 0.013, "far": 0.013, "sure": 0.010}
    found = group(ratios, errors, candidates=["first"])
    assert asked(found, every_gain=True) == {(GAIN, ("first",)): 2, (GAIN, ("far",)): 2}
    (questions,) = open_questions([found], Aims(every_gain=True), most=MOST)
    assert [question.cells for question in questions] == [("first",), ("far",)]
    assert asked(found) == {(GAIN, ("first",)): 2}


@pytest.mark.parametrize("single", ["first", "rival"])
def test_winner_and_rivals_need_two_launches_however_sure_they_are(single: str) -> None:
    """All errors are known to be small, and the cell that lacks a launch may be either of the two."""
    launches = {"first": 3, "rival": 3, single: 1}
    found = group({"first": 0.5, "rival": 0.505}, 0.0005, candidates=["first", "rival"], launches=launches)
    assert asked(found) == {(BEST, ("rival", "first")): 1}


def test_winner_without_rivals_needs_two_launches() -> None:
    """A cell that is far behind needs no second launch; a cell that is alone does, for nothing is claimed of one."""
    launches = {"first": 1, "far": 1}
    found = group({"first": 0.5, "far": 0.9}, 0.0005, candidates=["first", "far"], launches=launches)
    assert asked(found) == {(BEST, ("first",)): 1}
    alone = group({"first": 0.5}, 0.0005, candidates=["first"], launches=launches)
    assert asked(alone) == {(BEST, ("first",)): 1}
    assert asked(alone, most=1) == {(BEST, ("first",)): None}


def test_baseline_that_wins_has_no_gain() -> None:
    assert asked(group({"a": 1.5}, 0.05, candidates=["baseline", "a"])) == {}


def test_decided_slower_cell_gets_nothing_however_wide_its_interval() -> None:
    ratios = {"first": 0.5, "slow": 0.9, "slower": 2.0}
    errors = {"first": 0.005, "slow": 0.03, "slower": 0.2}
    assert asked(group(ratios, errors, candidates=list(ratios))) == {}


def test_only_candidates_are_in_the_race() -> None:
    """The fastest of all loses too much of its metric: it has its verdict, and nobody is compared with it."""
    ratios = {"wrong": 0.3, "first": 0.5, "rival": 0.5}
    found = asked(group(ratios, 0.02, candidates=["first", "rival"]))
    assert {cells for kind, cells in found if kind in (BEST, WITHIN)} == {("rival", "first")}
    assert {cells for kind, cells in found if kind == GAIN} == {("first",)}
    assert asked(group(ratios, 0.02)) == {}, "nor is there a race without candidates"


def test_candidates_that_have_not_run_are_not_waited_for() -> None:
    assert asked(group({"first": 0.5}, 0.001, candidates=["first", "absent"])) == {}


def test_rival_with_all_its_launches_waits_for_the_first() -> None:
    """The launches of the first alone may tell them apart: those of the rival are no reason to give up."""
    ratios, errors = {"first": 0.5, "rival": 0.5}, {"first": 0.03, "rival": 0.005}
    found = group(ratios, errors, candidates=list(ratios), launches={"first": 1, "rival": MOST})
    assert found.fitted.num_launches["rival"] == MOST
    questions = {kind: launches for (kind, _), launches in asked(found).items()}
    assert questions[BEST] is not None
    full = group(ratios, errors, candidates=list(ratios), launches={"first": MOST, "rival": MOST})
    assert {kind: launches for (kind, _), launches in asked(full).items()}[BEST] is None


def test_baseline_that_ran_in_every_block_may_be_a_rival() -> None:
    """It has more launches than any cell may have, and the winner one."""
    found = group(
        {"first": 0.999}, {"first": 0.03}, candidates=["first", "baseline"], launches={"first": 1, "baseline": 40}
    )
    kinds = {kind: (cells, launches) for (kind, cells), launches in asked(found).items()}
    cells, launches = kinds[BEST]
    assert cells == ("baseline", "first")
    assert launches is not None


def test_answers_that_are_near_are_the_most_urgent() -> None:
    near, far = (Question(kind=VERDICT, cells=("a",), launches=launches) for launches in (1, 4))
    assert near.urgency > far.urgency
    assert (
        Question(kind=GAIN, cells=("a",), launches=1).urgency > Question(kind=WITHIN, cells=("a",), launches=4).urgency
    )


def test_a_decision_comes_before_verdicts_and_these_before_details() -> None:
    questions = [Question(kind=kind, cells=("a",), launches=9) for kind in (BEST, VERDICT, GAIN)]
    urgencies = [question.urgency for question in questions]
    assert urgencies == sorted(urgencies, reverse=True)
    assert [rank for rank, *_ in urgencies] == [3, 2, 1]
    assert Question(kind=VERDICT, cells=("a",), launches=1).urgency < urgencies[0], "however near its answer is"


def test_rivals_that_look_alike_come_before_those_that_look_slower() -> None:
    """After one launch nothing is sure, and the launches of the first two tell most."""
    ratios = {"first": 0.5, "alike": 0.56, "slower": 0.62}
    found = group(ratios, 0.1, candidates=list(ratios), verdict_cells=[], launches=dict.fromkeys(ratios, 1))
    (questions,) = open_questions([found], Aims(), most=MOST)
    near = {question.cells: question.is_near for question in questions if question.kind == BEST}
    assert near == {("alike", "first"): True, ("slower", "first"): False}
    ranks = {question.cells: question.urgency[:2] for question in questions if question.kind == BEST}
    assert ranks["alike", "first"] > ranks["slower", "first"]


@pytest.mark.parametrize(
    ("launches", "joins"),
    [
        ({"first": 2, "alike": 3, "slower": 1}, False),  # they say too little of the scatter
        ({"first": 3, "alike": 3, "slower": 1}, True),
        ({"first": 3, "alike": 3, "slower": 2}, False),
    ],
)
def test_a_rival_of_one_launch_joins_those_that_look_alike(launches: dict[str, int], joins: bool) -> None:
    """While it has one launch, nothing is claimed of the choice, however often the others are launched."""
    ratios = {"first": 0.5, "alike": 0.52, "slower": 0.62}
    found = group(ratios, 0.1, candidates=list(ratios), verdict_cells=[], launches=launches)
    (questions,) = open_questions([found], Aims(), most=MOST)
    near = {question.cells: question.is_near for question in questions if question.kind == BEST}
    assert near == {("alike", "first"): True, ("slower", "first"): joins}


def test_no_group_no_question() -> None:
    assert open_questions([], Aims(), most=MOST) == []
    assert (
        asked(ComparisonGroup(fitted=known.fitted({}, 0.01), verdict_cells=["baseline"], candidates=["baseline"])) == {}
    )


def test_winner_is_asked_for_at_the_tolerance_of_a_pick() -> None:
    """Cells that are 4 % slower are no rivals within 3 %, but within the 5 % that a winner may be slower they are."""
    ratios = {"a": 0.5, "b": 0.5, **{f"slow{number}": 0.52 for number in range(4)}}
    errors = {"b": 0.021, **{f"slow{number}": 0.002 for number in range(4)}}
    alone, among = (
        group(dict(list(ratios.items())[:size]), errors, candidates=list(ratios)[:size], verdict_cells=())
        for size in (2, 6)
    )
    # One rival leaves 4.5 % of error and 2.21 x 2.1 % = 4.6 %; five leave 0.9 % each and 2.83 x 2.1 % = 5.9 %.
    assert (BEST, ("b", "a")) not in asked(alone)
    assert (BEST, ("b", "a")) in asked(among)
