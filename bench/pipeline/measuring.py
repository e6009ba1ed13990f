"""The last stage: verified cells are measured in pairs, side by side, as `bench check` and `bench compare` ask."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.measure import rounds
from bench.measure.block import Method, Result
from bench.measure.goal import Goal
from bench.measure.ledgers import Group, Ledger
from bench.measure.open_work import Progress
from bench.pipeline import opening
from bench.pipeline.flow import Verified


def measure_pairs(
    pairs: Sequence[tuple[Verified, Verified]],
    method: Method,
    goal: Goal,
    *,
    keep: Callable[[Result], None],
    report: Callable[[Progress], None] = lambda _: None,
    cut_blocks: bool = True,
) -> list[Group]:
    """Measure the second cell of each pair beside the first.

    Args:
        pairs: verified cells; the first of each pair is the baseline.
        method: how blocks are measured.
        goal: when a pair has been measured enough.
        keep: called with the result of each block, failures included.
        report: called with the progress.
        cut_blocks: end a running block when the time is up; otherwise only no further block begins.

    Returns:
        A group for each pair, with the launches of both cells.
    """
    ledgers = [
        [Ledger(subject=opening.subject(value), tick_ns=value.quality.clock_tick_ns) for value in pair]
        for pair in pairs
    ]
    groups = [Group(baseline=baseline, ledgers=[other]) for baseline, other in ledgers]
    rounds.measure(groups, method, goal, keep=keep, report=report, cut_blocks=cut_blocks)
    return groups
