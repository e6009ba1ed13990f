"""What is open in a sweep by the launches so far: the questions of each group, and the launches that its cells need."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from bench.measure import comparison, questions, stats
from bench.measure.comparison import Fitted
from bench.measure.goal import Goal
from bench.measure.ledgers import Group
from bench.measure.questions import ComparisonGroup, Question

_FIRST = (math.inf, False, 0.0)  # the urgency of a launch that every cell gets, before any question


@dataclasses.dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of measuring.

    Attributes:
        num_round: number of the round, from 1; 0 before the first block.
        num_new: number of cells that have fewer launches than every cell gets.
        num_open: number of open questions about cells that may have further launches; see `bench.measure.questions`.
        num_beyond: number of open questions whose cells have all the launches that they may have.
        num_cells: number of all cells.
        seconds_left: estimate from the durations of the blocks so far; at most the rest of the budget.
    """

    num_round: int
    num_new: int
    num_open: int
    num_beyond: int
    num_cells: int
    seconds_left: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Need:
    """The further launches that a cell needs, and how urgently: see `Question.urgency`."""

    launches: int = 0
    urgency: tuple[float, bool, float] = (0.0, False, 0.0)

    def with_question(self, question: Question, most: int) -> Need:
        """The need of a cell that may have `most` further launches when the question is added."""
        launches = max(self.launches, min(question.launches or most, most))
        return Need(launches=launches, urgency=max(self.urgency, question.urgency))


@dataclasses.dataclass(frozen=True, kw_only=True)
class OpenWork:
    """What is open in each group: the needs of its cells by name, and the questions; and the fit that tells it."""

    needs: Sequence[Mapping[str, Need]]
    questions: Sequence[Sequence[Question]]
    fits: Sequence[Fitted]

    def without(self, under_way: Mapping[str, int]) -> OpenWork:
        """The same without the launches that are under way, whose number is given by cell."""
        needs = [
            {
                name: dataclasses.replace(need, launches=left)
                for name, need in group.items()
                if (left := need.launches - under_way.get(name, 0)) > 0
            }
            for group in self.needs
        ]
        return dataclasses.replace(self, needs=needs)

    def progress(self, num_round: int, groups: Sequence[Group], seconds_left: float) -> Progress:
        waiting = [
            any(name in needs for name in question.cells)
            for needs, group in zip(self.needs, self.questions, strict=True)
            for question in group
        ]
        return Progress(
            num_round=num_round,
            num_new=sum(need.urgency == _FIRST for needs in self.needs for need in needs.values()),
            num_open=sum(waiting),
            num_beyond=len(waiting) - sum(waiting),
            num_cells=sum(len(group.ledgers) for group in groups),
            seconds_left=seconds_left,
        )


def open_work(groups: Sequence[Group], goal: Goal) -> OpenWork:
    """The needs of all cells, by the launches so far."""
    fits = comparison.fit([group.launched() for group in groups])
    compared = [_comparison_group(group, fitted) for group, fitted in zip(groups, fits, strict=True)]
    if goal.tolerance is None:
        open_questions = questions.open_questions(compared, goal.aims, most=goal.max_launches)
    else:
        open_questions = [_tolerances(group, goal) for group in compared]
    needs = [_needs(*each, goal) for each in zip(groups, fits, open_questions, strict=True)]
    return OpenWork(needs=needs, questions=open_questions, fits=fits)


def _comparison_group(group: Group, fitted: Fitted) -> ComparisonGroup:
    sound = [] if group.baseline.failed else [ledger for ledger in group.ledgers if not ledger.failed]
    return ComparisonGroup(
        fitted=fitted,
        verdict_cells=[ledger.name for ledger in sound],
        candidates=[ledger.name for ledger in sound if ledger.may_win],
    )


def _tolerances(group: ComparisonGroup, goal: Goal) -> list[Question]:
    """The cells of which it is not yet known whether they are slower than the baseline by more than the tolerance."""
    open_questions = []
    for name in group.verdict_cells:
        compared = group.fitted.against_baseline(name)
        at_look = compared.num_launches in goal.looks()
        if compared.effect and not (at_look and goal.regression(compared) != stats.UNDECIDED):
            more = 1 if compared.num_launches < goal.max_launches else None
            open_questions.append(Question(kind=questions.VERDICT, cells=(name,), launches=more))
    return open_questions


def _needs(group: Group, fitted: Fitted, open_questions: Sequence[Question], goal: Goal) -> dict[str, Need]:
    """The cells of a group that get further launches, by name."""
    if group.baseline.failed:
        return {}
    needs: dict[str, Need] = {}
    for ledger in group.ledgers:
        missing = goal.min_launches + ledger.num_stale - fitted.num_launches.get(ledger.name, 0)
        if missing > 0 and not ledger.failed:
            needs[ledger.name] = Need(launches=missing, urgency=_FIRST)
    left = {
        ledger.name: goal.max_launches + ledger.num_stale - fitted.num_launches.get(ledger.name, 0)
        for ledger in group.ledgers
    }
    for question in open_questions:
        for name in question.cells:
            # The baseline is in each block that asks about it, and needs its own only where nothing else is asked.
            is_in_every = name == group.baseline.name and len(question.cells) > 1
            if left.get(name, 0) > 0 and not is_in_every:
                needs[name] = needs.get(name, Need()).with_question(question, left[name])
    return needs
