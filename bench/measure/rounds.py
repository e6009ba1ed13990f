"""Rounds: every cell gets an estimate first, then launches go where a question is open that they may answer.

Breadth first, so a sweep may be stopped at any time. Each launch is a fresh process in a block of cells drawn anew, and
the launches of a cell are spread over the sweep, because the state of a machine lasts for minutes.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait

from bench.api.errors import BenchError
from bench.measure import questions
from bench.measure.block import Failure, Method, Result
from bench.measure.blocks import Blocks, BlocksHere
from bench.measure.goal import Goal
from bench.measure.ledgers import Group, Ledger, note
from bench.measure.open_work import OpenWork, Progress, open_work
from bench.measure.planning import plan_round
from bench.measure.selection import LEAST_LAUNCHES

_FIRST_SHARE = 1 / 3  # of the budget, for the passes of the first round: the rest is for open questions
_LITTLE_S = 30.0  # so little time is left to few launches of a slow model
BRIEF_PASSES = 3  # the fewest that show a burst that a neighbour slowed; those of a launch when the time is up
_CONTROLLED = 2
"""Blocks with the baseline before contenders meet without it: one tells nothing of how far its launches differ."""


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
        self._open = open_work(self._groups, self._goal)
        launches = sum(need.launches for needs in self._open.needs for need in needs.values())
        mean_s = sum(self._seconds_per_launch) / max(1, len(self._seconds_per_launch))
        left = min(launches * mean_s / self._num_machines(), max(0.0, self._left_s()))
        self._report(self._open.progress(self._number, self._groups, left))

    def _to_do(self) -> OpenWork:
        """What is neither done nor under way."""
        return self._open.without(Counter(name for block in self._running.values() for name in block.names))

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
                self._plan = plan_round(self._groups, to_do, self._places.free_bytes())
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
            begun = _Running(group=group, names=names, began_s=time.monotonic())
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
        baseline, fitted = self._groups[index].baseline.name, self._open.fits[index]
        if self._is_late() or len(block) < 2 or fitted.num_launches.get(baseline, 0) < _CONTROLLED:
            return False
        of_choice = [question for question in self._open.questions[index] if question.kind == questions.BEST]
        contenders = {name for question in of_choice for name in question.cells}
        of_block = {ledger.name for ledger in block}
        return baseline not in contenders and of_block <= contenders and of_block <= fitted.num_launches.keys()

    def _of_contenders(self, work: OpenWork) -> OpenWork:
        """What is open for cells that may be the fastest and have one launch."""
        needs = []
        for fitted, of_group, open_questions in zip(work.fits, work.needs, work.questions, strict=True):
            named = {name for question in open_questions if question.kind == questions.BEST for name in question.cells}
            single = {name for name, launches in fitted.num_launches.items() if launches < LEAST_LAUNCHES}
            needs.append({name: need for name, need in of_group.items() if name in named & single})
        return dataclasses.replace(work, needs=needs)

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
