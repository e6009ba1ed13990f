"""Rounds: every cell gets an estimate first, then the uncertain cells get further launches until they are settled.

Breadth first, so a sweep may be stopped at any time. Each launch is a fresh process in a block of cells drawn anew.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
import time
from collections.abc import Callable, Sequence

import psutil

from bench.measure import comparison as compare
from bench.measure import stats
from bench.measure.block import Method, Result, Subject, run_block
from bench.measure.comparison import Comparison
from bench.measure.launch import Launch

REGRESSION, FINE = "regression", "fine"
MAX_WORKERS = 10  # a longer pass would let the machine drift between a burst and its reference's
MEMORY_SHARE = 0.6  # of the memory now free, for the workers of one block


@dataclasses.dataclass(frozen=True, kw_only=True)
class Goal:
    """When a cell has been measured enough: an interval that is narrow enough, or a question that is answered.

    Attributes:
        margin: half-width of the ratio's interval to reach, as a share, with a verdict.
        tolerance: ask instead whether the cell is slower than its baseline by more than this share; None for the
            margin alone.
        min_launches: fewest launches of a cell.
        max_launches: most launches of a cell, when neither is reached.
        budget_s: seconds for all measuring; None is no limit.
    """

    margin: float = 0.02
    tolerance: float | None = None
    min_launches: int = 3
    max_launches: int = 6
    budget_s: float | None = None

    def is_met(self, comparison: Comparison, num_launches: int) -> bool:
        """Whether a cell with this comparison needs no further launch after `num_launches` launches."""
        if comparison.ratio is None or num_launches < self.min_launches:
            return False
        if num_launches >= self.max_launches:
            return True
        if self.tolerance is not None:
            return num_launches in self.looks() and self.regression(comparison) != stats.UNDECIDED
        return comparison.verdict(self.margin) != stats.UNDECIDED and comparison.ratio.half_width <= self.margin

    def looks(self) -> tuple[int, ...]:
        """Numbers of launches after which the question is asked: each look may be wrong, so they are few."""
        found = []
        launches = self.min_launches
        while launches < self.max_launches:
            found.append(launches)
            launches *= 2
        return (*found, self.max_launches)

    def regression(self, comparison: Comparison) -> str:
        """Whether the cell is slower by more than the tolerance: `regression`, `fine` or `undecided`.

        The whole interval must lie on one side of the tolerance and of the noise that the A/A control shows. It is the
        interval of 95 % over all looks together (Bonferroni), so wider than that of `Comparison.ratio`.
        """
        if comparison.effect is None or comparison.control is None or comparison.num_launches < self.min_launches:
            return stats.UNDECIDED
        assert self.tolerance is not None
        ratio = comparison.effect.ratio(stats.ALPHA / len(self.looks()))
        if ratio.low > max(1 + self.tolerance, comparison.control.high, 1 + stats.NOISE_FLOOR):
            return REGRESSION
        return FINE if ratio.high < 1 + self.tolerance else stats.UNDECIDED


@dataclasses.dataclass(kw_only=True)
class Ledger:
    """A subject with its launches, those of earlier runs included.

    Attributes:
        failed: whether the subject failed in a block, and gets no further launches.
        num_stale: launches that count for the figures but not towards the goal, because the subject is to be measured
            again.
    """

    subject: Subject
    launches: list[Launch] = dataclasses.field(default_factory=list)
    failed: bool = False
    num_stale: int = 0


@dataclasses.dataclass(kw_only=True)
class Group:
    """Cells that answer the same request, and their common baseline, which may be among them."""

    baseline: Ledger
    ledgers: list[Ledger]

    _known: dict[tuple[str, int, int], Comparison] = dataclasses.field(default_factory=dict, repr=False)

    def comparison(self, ledger: Ledger) -> Comparison:
        """A cell against the group's baseline, by the launches so far."""
        # Launches are only ever added, so the same numbers of launches are the same launches.
        state = (ledger.subject.key, len(ledger.launches), len(self.baseline.launches))
        if state not in self._known:
            self._known[state] = compare.against_baseline(ledger.launches, self.baseline.launches)
        return self._known[state]

    def settled(self, ledger: Ledger, goal: Goal) -> bool:
        """Whether a cell needs no further launch."""
        if ledger.failed or self.baseline.failed:
            return True
        comparison = self.comparison(ledger)
        return goal.is_met(comparison, comparison.num_launches - ledger.num_stale)

    def num_wanted(self, ledger: Ledger, goal: Goal) -> int:
        """An estimate of the number of launches that a cell still needs."""
        if self.settled(ledger, goal):
            return 0
        return max(1, goal.min_launches - self.comparison(ledger).num_launches + ledger.num_stale)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of measuring.

    Attributes:
        num_round: number of the round, from 1; 0 before the first block.
        num_settled: number of cells that need no further launch.
        num_cells: number of all cells.
        seconds_left: estimate from the durations of the blocks so far; at most the rest of the budget.
    """

    num_round: int
    num_settled: int
    num_cells: int
    seconds_left: float


def measure(
    groups: Sequence[Group],
    method: Method,
    goal: Goal,
    *,
    keep: Callable[[Result], None],
    report: Callable[[Progress], None],
    cut_blocks: bool = True,
) -> None:
    """Run rounds of blocks until every cell is settled or the time is up.

    Args:
        groups: the cells and their baselines; their ledgers receive the new launches.
        method: how blocks are measured.
        goal: when a cell is settled, and how much time there is.
        keep: stores the launches and failures of a block as soon as the block ends.
        report: called with the progress before the first block and after each block.
        cut_blocks: end a running block when the time is up; otherwise only no further block begins.
    """
    start = time.monotonic()
    seconds_per_launch: list[float] = []

    def out_of_time() -> bool:
        return goal.budget_s is not None and time.monotonic() - start >= goal.budget_s

    def tell(num_round: int) -> None:
        pairs = [(group, ledger) for group in groups for ledger in group.ledgers]
        wanted = sum(group.num_wanted(ledger, goal) for group, ledger in pairs)
        left = wanted * (sum(seconds_per_launch) / max(1, len(seconds_per_launch)))
        if goal.budget_s is not None:
            left = min(left, max(0.0, goal.budget_s - (time.monotonic() - start)))
        settled = sum(group.settled(ledger, goal) for group, ledger in pairs)
        report(Progress(num_round=num_round, num_settled=settled, num_cells=len(pairs), seconds_left=left))

    tell(0)
    for num_round in itertools.count(1):
        plan = [(group, block) for group in groups for block in _blocks(group, goal)]
        if not plan:
            return
        plan.sort(key=_fewest_launches)  # cells for which an earlier run had no time come first
        for group, block in plan:
            if out_of_time():
                return
            block_start = time.monotonic()
            until = out_of_time if cut_blocks else lambda: False
            result = run_block(group.baseline.subject, [ledger.subject for ledger in block], method, out_of_time=until)
            _note(group, result)
            keep(result)
            seconds_per_launch.append((time.monotonic() - block_start) / max(1, len(block)))
            tell(num_round)


def _fewest_launches(planned: tuple[Group, list[Ledger]]) -> int:
    """Number of launches of the planned block's least measured cell."""
    group, block = planned
    return min((group.comparison(ledger).num_launches for ledger in block), default=0)


def _blocks(group: Group, goal: Goal) -> list[list[Ledger]]:
    """The unsettled cells of a group in random order, cut into blocks that fit the machine's memory."""
    waiting = [ledger for ledger in group.ledgers if not group.settled(ledger, goal)]
    others = [ledger for ledger in waiting if ledger is not group.baseline]
    budget = MEMORY_SHARE * psutil.virtual_memory().available
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


def _note(group: Group, result: Result) -> None:
    """Enter a block's launches and failures into the ledgers."""
    ledgers = {ledger.subject.key: ledger for ledger in (group.baseline, *group.ledgers)}
    for subject, launch in result.launches:
        ledgers[subject.key].launches.append(launch)
    for failure in result.failures:
        ledgers[failure.subject.key].failed = True
