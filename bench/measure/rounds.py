"""Rounds: every cell gets an estimate first, then launches go where a question is open that they may answer.

Breadth first, so a sweep may be stopped at any time. Each launch is a fresh process in a block of cells drawn anew, and
the launches of a cell are spread over the sweep, because the state of a machine lasts for minutes.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait

import msgspec

from bench.measure import comparison, questions, stats
from bench.measure.block import Failure, Method, Result, Subject
from bench.measure.blocks import Blocks, BlocksHere
from bench.measure.comparison import Comparison, Fitted, Series
from bench.measure.launch import Launch
from bench.measure.questions import Aims, Contest, Question

REGRESSION, FINE = "regression", "fine"
MAX_WORKERS = 14  # a longer pass would let the machine drift between a burst and its reference's
FIRST_SHARE = 1 / 3  # of the budget, for the passes of the first round: the rest is for open questions
MEMORY_SHARE = 0.6  # of the memory now free, for the workers of one block


@dataclasses.dataclass(frozen=True, kw_only=True)
class Goal:
    """When a cell has been measured enough: its questions are answered, or it has all the launches that it may have.

    Attributes:
        aims: the precision at which questions count as answered.
        tolerance: ask only whether the cell is slower than its baseline by more than this share; None for the questions
            of a sweep.
        min_launches: fewest launches of a cell.
        max_launches: most launches of a cell.
        budget_s: seconds for all measuring; None is no limit.
    """

    aims: Aims = Aims()
    tolerance: float | None = None
    min_launches: int = 1
    max_launches: int = 16
    budget_s: float | None = None

    def looks(self) -> tuple[int, ...]:
        """Numbers of launches after which the tolerance is asked about: each look may be wrong, so they are few."""
        found = []
        launches = self.min_launches
        while launches < self.max_launches:
            found.append(launches)
            launches *= 2
        return (*found, self.max_launches)

    def regression(self, comparison: Comparison) -> str:
        """Whether the cell is slower by more than the tolerance: `regression`, `fine` or `undecided`.

        The whole interval must lie on one side of the tolerance and outside the noise floor. It is the interval of 95 %
        over all looks together (Bonferroni), so wider than that of `Comparison.ratio`.
        """
        if comparison.effect is None or comparison.num_launches < self.min_launches:
            return stats.UNDECIDED
        assert self.tolerance is not None
        ratio = comparison.effect.ratio(stats.ALPHA / len(self.looks()))
        if ratio.low > 1 + max(self.tolerance, stats.NOISE_FLOOR):
            return REGRESSION
        return FINE if ratio.high < 1 + self.tolerance else stats.UNDECIDED


@dataclasses.dataclass(kw_only=True)
class Ledger:
    """A subject with its launches, those of earlier runs included.

    Attributes:
        failed: whether the subject failed in a block, and gets no further launches.
        num_stale: launches that count for the figures but not towards the goal, because the subject is to be measured
            again.
        may_win: whether the subject may be the deployment to ship.
    """

    subject: Subject
    launches: list[Launch] = dataclasses.field(default_factory=list)
    failed: bool = False
    num_stale: int = 0
    may_win: bool = True

    @property
    def name(self) -> str:
        """The name of the subject among all subjects of a sweep."""
        return self.subject.key

    def series(self) -> Series:
        """The launches so far."""
        cell = self.subject.cell
        return Series(name=self.name, program=cell.program, launches=tuple(self.launches))


@dataclasses.dataclass(kw_only=True)
class Group:
    """Cells that answer the same request, and their common baseline, which may be among them."""

    baseline: Ledger
    ledgers: list[Ledger]

    def launched(self) -> comparison.Group:
        """The group with the launches so far, for `comparison.fit`."""
        return comparison.Group(baseline=self.baseline.series(), cells=[ledger.series() for ledger in self.ledgers])


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
class _Need:
    """The further launches that a cell needs, and how urgently."""

    launches: int = 0
    urgency: float = 0.0

    def with_question(self, question: Question, most: int) -> _Need:
        """The need of a cell that may have `most` further launches when the question is added."""
        launches = max(self.launches, min(question.launches or most, most))
        return _Need(launches=launches, urgency=max(self.urgency, question.urgency))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Standing:
    """What is open in each group: the needs of its cells by name, and the questions."""

    needs: Sequence[Mapping[str, _Need]]
    questions: Sequence[Sequence[Question]]

    def without(self, under_way: Mapping[str, int]) -> _Standing:
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
            num_new=sum(math.isinf(need.urgency) for needs in self.needs for need in needs.values()),
            num_open=sum(waiting),
            num_beyond=len(waiting) - sum(waiting),
            num_cells=sum(len(group.ledgers) for group in groups),
            seconds_left=seconds_left,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Running:
    """A block that runs: the group of its cells, the names of all of them, and when it began."""

    group: Group
    names: frozenset[str]
    began_s: float


def measure(
    groups: Sequence[Group],
    method: Method,
    goal: Goal,
    *,
    keep: Callable[[Result], None],
    report: Callable[[Progress], None],
    cut_blocks: bool = True,
    blocks: Blocks | None = None,
) -> None:
    """Run rounds of blocks until no question is open about a cell that may have further launches, or the time is up.

    A round begins as soon as a machine has no block. Launches that are under way count as done in what a cell needs, so
    the cells of one request may be in several blocks at a time, and get no more launches than they need.

    Args:
        groups: the cells and their baselines; their ledgers receive the new launches.
        method: how blocks are measured.
        goal: when a cell has been measured enough, and how much time there is.
        keep: stores the launches and failures of a block as soon as the block ends.
        report: called with the progress before the first block and after each block.
        cut_blocks: end a running block when the time is up; otherwise only no further block begins.
        blocks: where blocks run; None for this machine.
    """
    start = time.monotonic()
    seconds_per_launch: list[float] = []
    places = BlocksHere() if blocks is None else blocks
    running: dict[Future[Result], _Running] = {}
    failures: dict[str, Failure] = {}

    def left_s() -> float:
        return math.inf if goal.budget_s is None else goal.budget_s - (time.monotonic() - start)

    def tell(num_round: int) -> _Standing:
        standing = _standing(groups, goal)
        launches = sum(need.launches for needs in standing.needs for need in needs.values())
        mean_s = sum(seconds_per_launch) / max(1, len(seconds_per_launch))
        left = min(launches * mean_s / max(1, places.most_at_once()), max(0.0, left_s()))
        report(standing.progress(num_round, groups, left))
        return standing

    def to_do(standing: _Standing) -> _Standing:
        """What is neither done nor under way."""
        return standing.without(Counter(name for block in running.values() for name in block.names))

    def settle(most: int, standing: _Standing) -> _Standing:
        """Wait until no more than so many blocks run, and keep the results of those that end."""
        errors: list[BaseException] = []
        while len(running) > (0 if errors else most):
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                block = running.pop(future)
                if (error := future.exception()) is not None:
                    errors.append(error)  # raised once the results of the other blocks are kept
                    continue
                result = _with_earlier(future.result(), failures)
                failures.update((failure.subject.key, failure) for failure in result.failures)
                note(block.group, result)
                keep(result)
                seconds_per_launch.append((time.monotonic() - block.began_s) / max(1, len(block.names) - 1))
            if not errors:
                standing = tell(num_round)  # of all blocks that ended meanwhile
        if errors:
            raise errors[0]
        return standing

    standing, num_round = tell(0), 1
    for num_round in itertools.count(1):
        plan = _plan(groups, to_do(standing), places.free_bytes())
        if not plan and not running:
            return
        if not plan:
            standing = settle(len(running) - 1, standing)
            continue
        how = method
        if num_round == 1 and goal.budget_s is not None:
            # A round that takes the whole budget would leave no launch for what it leaves open.
            turns = math.ceil(len(plan) / max(1, places.most_at_once()))
            how = dataclasses.replace(method, max_s=min(method.max_s, FIRST_SHARE * goal.budget_s / turns))
        for index, block in plan:
            standing = settle(max(1, places.most_at_once()) - 1, standing)
            group, needs = groups[index], to_do(standing).needs[index]
            # The blocks before this one may have answered what its cells were waiting for.
            wanted = [ledger for ledger in block if ledger.name in needs]
            if not wanted and not (group.baseline.name in needs and not block):
                continue
            if left_s() <= 0:
                settle(0, standing)
                return
            names = frozenset(ledger.name for ledger in (group.baseline, *wanted))
            begun = _Running(group=group, names=names, began_s=time.monotonic())
            until = left_s if cut_blocks else lambda: math.inf
            subjects = [ledger.subject for ledger in wanted]
            running[places.begin(group.baseline.subject, subjects, how, until)] = begun
        standing = settle(max(1, places.most_at_once()) - 1, standing)


def _with_earlier(result: Result, failures: Mapping[str, Failure]) -> Result:
    """A block's result with the failures of other blocks that its launches would clear where they are stored.

    Args:
        result: the result.
        failures: by key, the failures of blocks that ended before.
    """
    hidden = [failures[subject.key] for subject, _ in result.launches if subject.key in failures]
    return dataclasses.replace(result, failures=(*result.failures, *hidden))


def _standing(groups: Sequence[Group], goal: Goal) -> _Standing:
    """The needs of all cells, by the launches so far."""
    fits = comparison.fit([group.launched() for group in groups])
    contests = [_contest(group, fitted) for group, fitted in zip(groups, fits, strict=True)]
    if goal.tolerance is None:
        found = questions.open_questions(contests, goal.aims, most=goal.max_launches)
    else:
        found = [_tolerances(contest, goal) for contest in contests]
    needs = [_needs(*each, goal) for each in zip(groups, fits, found, strict=True)]
    return _Standing(needs=needs, questions=found)


def _contest(group: Group, fitted: Fitted) -> Contest:
    sound = [] if group.baseline.failed else [ledger for ledger in group.ledgers if not ledger.failed]
    return Contest(
        fitted=fitted,
        asked=[ledger.name for ledger in sound],
        candidates=[ledger.name for ledger in sound if ledger.may_win],
    )


def _tolerances(contest: Contest, goal: Goal) -> list[Question]:
    """The cells of which it is not yet known whether they are slower than the baseline by more than the tolerance."""
    found = []
    for name in contest.asked:
        compared = contest.fitted.against_baseline(name)
        at_look = compared.num_launches in goal.looks()
        if compared.effect and not (at_look and goal.regression(compared) != stats.UNDECIDED):
            more = 1 if compared.num_launches < goal.max_launches else None
            found.append(Question(kind=questions.VERDICT, cells=(name,), launches=more))
    return found


def _needs(group: Group, fitted: Fitted, asked: Sequence[Question], goal: Goal) -> dict[str, _Need]:
    """The cells of a group that get further launches, by name."""
    if group.baseline.failed:
        return {}
    needs: dict[str, _Need] = {}
    for ledger in group.ledgers:
        missing = goal.min_launches + ledger.num_stale - fitted.num_launches.get(ledger.name, 0)
        if missing > 0 and not ledger.failed:
            needs[ledger.name] = _Need(launches=missing, urgency=math.inf)
    left = {
        ledger.name: goal.max_launches + ledger.num_stale - fitted.num_launches.get(ledger.name, 0)
        for ledger in group.ledgers
    }
    for question in asked:
        for name in question.cells:
            # The baseline is in every block, and needs no launch of its own.
            if left.get(name, 0) > 0 and name != group.baseline.name:
                needs[name] = needs.get(name, _Need()).with_question(question, left[name])
    return needs


def _plan(groups: Sequence[Group], standing: _Standing, free_bytes: int) -> list[tuple[int, list[Ledger]]]:
    """The blocks of a round, each with the index of its group: cells without launches first, then the most urgent.

    Groups take turns, so the launches of each are spread over the round.
    """
    blocks = [
        [(index, block) for block in _blocks(group, standing.needs[index], free_bytes)]
        for index, group in enumerate(groups)
    ]
    turns = [planned for turn in itertools.zip_longest(*blocks) for planned in turn if planned is not None]

    def urgency(planned: tuple[int, list[Ledger]]) -> float:
        index, block = planned
        needs = standing.needs[index]
        return max((needs[ledger.name].urgency for ledger in block), default=math.inf)

    return sorted(turns, key=urgency, reverse=True)


def _blocks(group: Group, needs: Mapping[str, _Need], free_bytes: int) -> list[list[Ledger]]:
    """The cells of a group that get a launch in random order, cut into blocks that fit the memory now free."""
    waiting = [ledger for ledger in group.ledgers if ledger.name in needs]
    others = [ledger for ledger in waiting if ledger is not group.baseline]
    budget = MEMORY_SHARE * free_bytes
    twins = 2 * group.baseline.subject.rss_bytes
    blocks: list[list[Ledger]] = []
    used = 0.0
    for ledger in random.sample(others, len(others)):
        is_full = blocks and (len(blocks[-1]) + 2 >= MAX_WORKERS or used + ledger.subject.rss_bytes > budget)
        if not blocks or is_full:
            blocks.append([])
            used = twins
        blocks[-1].append(ledger)
        used += ledger.subject.rss_bytes
    if not blocks and waiting:  # the baseline alone: its block is the reference and the control
        blocks.append([])
    return blocks


def note(group: Group, result: Result) -> None:
    """Enter a block's launches and failures into the ledgers; the model of the measurement needs their time."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    ledgers = {ledger.name: ledger for ledger in (group.baseline, *group.ledgers)}
    for subject, launch in result.launches:
        timed = launch if launch.time else msgspec.structs.replace(launch, time=now)
        ledgers[subject.key].launches.append(timed)
    for failure in result.failures:
        ledgers[failure.subject.key].failed = True
