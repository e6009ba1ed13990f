"""Rounds: every cell gets an estimate first, then launches go where a question is open that they may answer.

Breadth first, so a sweep may be stopped at any time. Each launch is a fresh process in a block of cells drawn anew, and
the launches of a cell are spread over the sweep, because the state of a machine lasts for minutes.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait

from bench.api.errors import BenchError
from bench.measure import comparison, questions, stats
from bench.measure.block import Failure, Method, Result
from bench.measure.blocks import Blocks, BlocksHere
from bench.measure.comparison import Fitted
from bench.measure.goal import Goal
from bench.measure.ledgers import Group, Ledger, note
from bench.measure.questions import ComparisonGroup, Question
from bench.measure.selection import LEAST_LAUNCHES

MAX_WORKERS = 14  # a longer pass would let the machine drift between a burst and its reference's
_FIRST_SHARE = 1 / 3  # of the budget, for the passes of the first round: the rest is for open questions
_LITTLE_S = 30.0  # so little time is left to few launches of a slow model
BRIEF_PASSES = 3  # the fewest that show a burst that a neighbour slowed; those of a launch when the time is up
_FIRST = (math.inf, False, 0.0)  # the urgency of a launch that every cell gets, before any question
_CONTROLLED = 2
"""Blocks with the baseline before contenders meet without it: one tells nothing of how far its launches differ."""
_MOST_BLOCKS = 3
"""Blocks of one request's contenders in a round, where those of another take several times as long: their launches are
to lie apart, for states of the machine last for minutes."""
_LONG_S = 1.0
"""A round whose blocks are all shorter has one for each request."""
_MEMORY_SHARE = 0.6  # of the memory now free, for the workers of one block


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
    """The further launches that a cell needs, and how urgently: see `Question.urgency`."""

    launches: int = 0
    urgency: tuple[float, bool, float] = (0.0, False, 0.0)

    def with_question(self, question: Question, most: int) -> _Need:
        """The need of a cell that may have `most` further launches when the question is added."""
        launches = max(self.launches, min(question.launches or most, most))
        return _Need(launches=launches, urgency=max(self.urgency, question.urgency))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Standing:
    """What is open in each group: the needs of its cells by name, and the questions; and the fit that tells it."""

    needs: Sequence[Mapping[str, _Need]]
    questions: Sequence[Sequence[Question]]
    fits: Sequence[Fitted]

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
            num_new=sum(need.urgency == _FIRST for needs in self.needs for need in needs.values()),
            num_open=sum(waiting),
            num_beyond=len(waiting) - sum(waiting),
            num_cells=sum(len(group.ledgers) for group in groups),
            seconds_left=seconds_left,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Running:
    """A block that runs: the group of its cells, the names of all of them, and when it began.

    Attributes:
        apart: the index of the group, if the block has no baseline.
    """

    group: Group
    names: frozenset[str]
    began_s: float
    apart: int | None


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

    Args:
        groups: the cells and their baselines; their ledgers receive the new launches.
        method: how blocks are measured.
        goal: when a cell has been measured enough, and how much time there is.
        keep: stores the launches and failures of a block as soon as the block ends.
        report: called with the progress before the first block, and whenever blocks have ended.
        cut_blocks: end a running block when the time is up; otherwise only no further block begins.
        blocks: where blocks run; None for this machine.
    """
    _Rounds(groups, method, goal, keep, report, cut_blocks, blocks or BlocksHere()).run()


class _Rounds:
    """Rounds of blocks; see `measure`.

    A round begins as soon as a machine has no block. Launches that are under way count as done in what a cell needs, so
    the cells of one request may be in several blocks at a time, and no cell gets more launches than it may have.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        method: Method,
        goal: Goal,
        keep: Callable[[Result], None],
        report: Callable[[Progress], None],
        cut_blocks: bool,
        places: Blocks,
    ) -> None:
        self._groups, self._method, self._goal = groups, method, goal
        self._keep, self._report = keep, report
        self._until = self._left_s if cut_blocks else lambda: math.inf
        self._places = places
        self._start_s = time.monotonic()
        self._number = 0
        self._num_first = 0  # blocks of the first round
        self._plan: list[tuple[int, list[Ledger]]] = []
        self._running: dict[Future[Result], _Running] = {}
        self._seconds_per_launch: list[float] = []
        self._apart_s: dict[int, float] = {}
        """By group, how long its last block without the baseline took."""
        self._failures: dict[str, Failure] = {}

    def run(self) -> None:
        """Run all rounds."""
        self._tell()
        self._begin()
        errors: list[BaseException] = []
        while self._running:
            over = wait(self._running, return_when=FIRST_COMPLETED).done
            try:
                is_sound = not errors and all(future.exception() is None for future in over)
                if is_sound and self._num_machines() > 1:
                    self._begin(over)  # by what was known before, so that no machine waits for this one
            except BenchError as error:  # no machine is left
                errors.append(error)
            errors += filter(None, map(self._settle, over))
            if not errors:  # else the results of the other blocks are kept, and no block begins
                self._tell()
                self._begin()
        if errors:
            raise errors[0]

    def _num_machines(self) -> int:
        return max(1, self._places.most_at_once())

    def _left_s(self) -> float:
        budget_s = self._goal.budget_s
        return math.inf if budget_s is None else budget_s - (time.monotonic() - self._start_s)

    def _tell(self) -> None:
        """Find out what is open by the launches so far, and report it."""
        self._standing = _standing(self._groups, self._goal)
        launches = sum(need.launches for needs in self._standing.needs for need in needs.values())
        mean_s = sum(self._seconds_per_launch) / max(1, len(self._seconds_per_launch))
        left = min(launches * mean_s / self._num_machines(), max(0.0, self._left_s()))
        self._report(self._standing.progress(self._number, self._groups, left))

    def _to_do(self) -> _Standing:
        """What is neither done nor under way."""
        return self._standing.without(Counter(name for block in self._running.values() for name in block.names))

    def _begin(self, over: Collection[Future[Result]] = ()) -> None:
        """Begin blocks on all machines that have none.

        Args:
            over: blocks that have ended, and whose launches are not among what is known.
        """
        while len(self._running) - len(over) < self._num_machines():
            to_do = self._to_do()
            if self._left_s() <= 0:
                if self._left_s() <= -self._goal.second_s:
                    return
                to_do, self._plan = self._of_contenders(to_do), []
            if not self._plan:
                self._plan = _plan(self._groups, to_do, self._places.free_bytes(), _shares(self._apart_s))
                self._number += bool(self._plan)
                self._num_first = self._num_first or len(self._plan)
            if not self._plan:
                return
            index, block = self._plan.pop(0)
            group, needs = self._groups[index], to_do.needs[index]
            # The blocks before this one may have answered what its cells were waiting for.
            wanted = [ledger for ledger in block if ledger.name in needs]
            if not wanted and not (group.baseline.name in needs and not block):
                continue
            is_apart = self._meet_apart(index, wanted)
            names = frozenset(ledger.name for ledger in (*wanted, *([] if is_apart else [group.baseline])))
            begun = _Running(group=group, names=names, began_s=time.monotonic(), apart=index if is_apart else None)
            if self._is_late():  # the last are left out where cells are slow
                wanted.sort(key=_last_latency_ns)
            subjects = [ledger.subject for ledger in wanted]
            is_owed = names & self._of_contenders(to_do).needs[index].keys() and self._goal.second_s > 0
            until = (lambda: math.inf) if is_owed else self._until
            method = dataclasses.replace(self._method_for(wanted), has_baseline=not is_apart)
            future = self._places.begin(group.baseline.subject, subjects, method, until)
            self._running[future] = begun

    def _meet_apart(self, index: int, block: Sequence[Ledger]) -> bool:
        """Whether a block needs no baseline: its cells are contenders for a choice, and have each run beside it.

        A baseline takes as long to start as several contenders, and as long to run.
        """
        baseline, fitted = self._groups[index].baseline.name, self._standing.fits[index]
        if self._is_late() or len(block) < 2 or fitted.num_launches.get(baseline, 0) < _CONTROLLED:
            return False
        of_choice = [question for question in self._standing.questions[index] if question.kind == questions.BEST]
        contenders = {name for question in of_choice for name in question.cells}
        of_block = {ledger.name for ledger in block}
        return baseline not in contenders and of_block <= contenders and of_block <= fitted.num_launches.keys()

    def _of_contenders(self, standing: _Standing) -> _Standing:
        """What is open for cells that may be the fastest and have one launch."""
        needs = []
        for fitted, of_group, open_questions in zip(standing.fits, standing.needs, standing.questions, strict=True):
            named = {name for question in open_questions if question.kind == questions.BEST for name in question.cells}
            single = {name for name, launches in fitted.num_launches.items() if launches < LEAST_LAUNCHES}
            needs.append({name: need for name, need in of_group.items() if name in named & single})
        return dataclasses.replace(standing, needs=needs)

    def _is_late(self) -> bool:
        """Whether there is time for no more than second launches."""
        return self._left_s() < self._goal.second_s

    def _method_for(self, block: Sequence[Ledger]) -> Method:
        """How a block of this round is measured."""
        method = self._method
        if self._is_late():
            passes = min(BRIEF_PASSES, method.min_passes)
            until_end_s = max(0.0, self._left_s() + self._goal.second_s)
            return dataclasses.replace(method, min_passes=passes, max_passes=passes, room_s=until_end_s)
        if self._number == 1 and self._goal.budget_s is not None:
            # A round that takes the whole budget would leave no launch for what it leaves open.
            turns = math.ceil(self._num_first / self._num_machines())
            method = dataclasses.replace(method, max_s=min(method.max_s, _FIRST_SHARE * self._goal.budget_s / turns))
        if self._goal.is_brief and not any(ledger.launches for ledger in block):
            passes = min(BRIEF_PASSES, method.min_passes)
            room_s = self._left_s() if self._left_s() < _LITTLE_S else None
            method = dataclasses.replace(method, min_passes=passes, is_brief=True, room_s=room_s)
        return method

    def _settle(self, future: Future[Result]) -> BaseException | None:
        """Keep the result of a block that has ended; returns the error of one that was lost."""
        block = self._running.pop(future)
        if (error := future.exception()) is not None:
            return error
        result = _with_earlier(future.result(), self._failures)
        self._failures.update((failure.subject.key, failure) for failure in result.failures)
        note(block.group, result)
        self._keep(result)
        if block.apart is not None:
            self._apart_s[block.apart] = time.monotonic() - block.began_s
        num_launched = len({subject.key for subject, _ in result.launches} - {block.group.baseline.name})
        self._seconds_per_launch.append((time.monotonic() - block.began_s) / max(1, num_launched))
        return None


def _last_latency_ns(ledger: Ledger) -> float:
    """The latency in the last launch of a cell; infinite where it has none."""
    return statistics.median(ledger.launches[-1].medians_ns) if ledger.launches else math.inf


def _with_earlier(result: Result, failures: Mapping[str, Failure]) -> Result:
    """A block's result with the failures of other blocks that its launches would clear where they are stored.

    Args:
        result: the result.
        failures: by key, the failures of blocks that ended before.
    """
    new = {failure.subject.key for failure in result.failures}
    old = dict.fromkeys(subject.key for subject, _ in result.launches if subject.key not in new)
    return dataclasses.replace(result, again=tuple(failures[key] for key in old if key in failures))


def _standing(groups: Sequence[Group], goal: Goal) -> _Standing:
    """The needs of all cells, by the launches so far."""
    fits = comparison.fit([group.launched() for group in groups])
    compared = [_comparison_group(group, fitted) for group, fitted in zip(groups, fits, strict=True)]
    if goal.tolerance is None:
        open_questions = questions.open_questions(compared, goal.aims, most=goal.max_launches)
    else:
        open_questions = [_tolerances(group, goal) for group in compared]
    needs = [_needs(*each, goal) for each in zip(groups, fits, open_questions, strict=True)]
    return _Standing(needs=needs, questions=open_questions, fits=fits)


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


def _needs(group: Group, fitted: Fitted, open_questions: Sequence[Question], goal: Goal) -> dict[str, _Need]:
    """The cells of a group that get further launches, by name."""
    if group.baseline.failed:
        return {}
    needs: dict[str, _Need] = {}
    for ledger in group.ledgers:
        missing = goal.min_launches + ledger.num_stale - fitted.num_launches.get(ledger.name, 0)
        if missing > 0 and not ledger.failed:
            needs[ledger.name] = _Need(launches=missing, urgency=_FIRST)
    left = {
        ledger.name: goal.max_launches + ledger.num_stale - fitted.num_launches.get(ledger.name, 0)
        for ledger in group.ledgers
    }
    for question in open_questions:
        for name in question.cells:
            # The baseline is in each block that asks about it, and needs its own only where nothing else is asked.
            is_in_every = name == group.baseline.name and len(question.cells) > 1
            if left.get(name, 0) > 0 and not is_in_every:
                needs[name] = needs.get(name, _Need()).with_question(question, left[name])
    return needs


def _shares(apart_s: Mapping[int, float]) -> dict[int, int]:
    """By group, how many blocks of its contenders a round has: as many as take no longer than the longest one."""
    longest_s = max(apart_s.values(), default=0.0)
    if longest_s < _LONG_S:
        return {}
    return {index: min(_MOST_BLOCKS, int(longest_s / max(own_s, _LONG_S / 10))) for index, own_s in apart_s.items()}


def _plan(
    groups: Sequence[Group], standing: _Standing, free_bytes: int, shares: Mapping[int, int]
) -> list[tuple[int, list[Ledger]]]:
    """The blocks of a round, each with the index of its group: those of the most urgent rank alone.

    So the contenders for a choice meet in blocks of their own. Groups take turns, so the launches of each are spread
    over the round; those whose choice takes fewest launches come first, for the time may end the round.
    """
    most = [max((need.urgency[:2] for need in needs.values()), default=(0.0, False)) for needs in standing.needs]
    if not any(standing.needs):
        return []
    first, _ = max(most)
    urgent = [
        {name: need for name, need in needs.items() if need.urgency[:2] == own and own[0] == first}
        for needs, own in zip(standing.needs, most, strict=True)
    ]
    blocks = [
        [
            (index, block)
            for number in range(shares.get(index, 1))
            for block in _blocks(group, _of_launch(urgent[index], number), free_bytes)
        ]
        for index, group in enumerate(groups)
    ]

    def nearness(planned: tuple[int, list[Ledger]]) -> float:
        index, _ = planned
        return min((need.urgency[2] for need in urgent[index].values()), default=math.inf)

    turns = [[planned for planned in turn if planned is not None] for turn in itertools.zip_longest(*blocks)]
    return [planned for turn in turns for planned in sorted(turn, key=nearness, reverse=True)]


def _of_launch(needs: Mapping[str, _Need], number: int) -> dict[str, _Need]:
    """The needs of cells that get more than so many launches."""
    return {name: need for name, need in needs.items() if need.launches > number}


def _blocks(group: Group, needs: Mapping[str, _Need], free_bytes: int) -> list[list[Ledger]]:
    """The cells of a group that get a launch in random order, cut into blocks that fit the memory now free.

    First launches go to those first that earlier sweeps let expect to be fast, for the time may end the round.
    """
    waiting = [ledger for ledger in group.ledgers if ledger.name in needs]
    others = [ledger for ledger in waiting if ledger is not group.baseline]
    budget = _MEMORY_SHARE * free_bytes
    twins = 2 * group.baseline.subject.rss_bytes
    blocks: list[list[Ledger]] = []
    used = 0.0
    drawn = random.sample(others, len(others))
    for ledger in sorted(drawn, key=lambda ledger: 0.0 if ledger.launches else ledger.expected):
        is_full = blocks and (len(blocks[-1]) + 2 >= MAX_WORKERS or used + ledger.subject.rss_bytes > budget)
        if not blocks or is_full:
            blocks.append([])
            used = twins
        blocks[-1].append(ledger)
        used += ledger.subject.rss_bytes
    if not blocks and waiting:  # the baseline alone: its block is the reference and the control
        blocks.append([])
    return blocks
