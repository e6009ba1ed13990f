"""The one answer for a task and a batch: `bench run`, `best` and `pick` all give it.

Each number of threads is a request of its own, with a choice of its own. More threads take more cores, so the answer is
that of the fewest whose cell to ship was not shown to be slower than that of another number. A number at which the data
do not decide is the answer only where they decide at none.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import TypeVar

from bench.api.errors import InputError
from bench.api.loss_units import AllowedLoss
from bench.decisions.constraints import TOLERANCE, Constraints
from bench.decisions.pick import Choice, Chooser
from bench.decisions.standing import WINNER, Standing
from bench.records import ranking
from bench.records.folder import Results
from bench.records.measurements import Measurements
from bench.records.rows import Row

S = TypeVar("S", bound=Standing)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """What to ship for a task, or what is missing to tell.

    Attributes:
        choice: the choice for the number of threads that is the answer.
        beside: the outcomes for the other numbers of threads.
        constraints: the limits that they keep to.
        tolerance: the smallest whole percentage, as a share, at which there would be a winner, where there is none;
            None where there is one, and where no such share below 1 is.
    """

    choice: Choice
    beside: tuple[Standing, ...]
    constraints: Constraints
    tolerance: float | None = None


def answer(
    measurements: Measurements, rows: Sequence[Row], constraints: Constraints, *, tolerance: float = TOLERANCE
) -> Answer:
    """The answer for rows of one task and one batch, at any numbers of threads.

    Args:
        measurements: the model of the measurement, fitted to the records that the rows were made of.
        rows: the rows to choose among.
        constraints: the limits that a deployment must keep to.
        tolerance: largest share by which a winner may be slower than the fastest cell of its number of threads.

    Raises:
        InputError: a constraint has no meaning for the task.
    """
    by_threads = itertools.groupby(sorted(rows, key=lambda row: row.threads), key=lambda row: row.threads)
    choosers = [Chooser(measurements, list(own), constraints) for _, own in by_threads]
    standings = [request.standing(tolerance) for request in choosers]
    standing = _answering(standings)
    chooser = next(request for request, own in zip(choosers, standings, strict=True) if own is standing)
    has_winner = standing.outcome == WINNER
    return Answer(
        choice=chooser.choice(standing),
        beside=tuple(other for other in standings if other is not standing),
        constraints=constraints,
        tolerance=None if has_winner else _tolerance_for_a_winner(choosers, standings, tolerance),
    )


def is_faster(standing: Standing, other: Standing) -> bool:
    """Whether the leading row of one number of threads was shown to be faster than that of another."""
    if standing.leading is None or other.leading is None:
        return False
    high, low = standing.leading.latency_p50_high_ns, other.leading.latency_p50_low_ns
    return high is not None and low is not None and high < low


def _answering(standings: Sequence[S]) -> S:
    """The one that is the answer, of those of several numbers of threads, the fewest first."""
    able = (
        [standing for standing in standings if standing.shipped]
        or [standing for standing in standings if standing.leading]
        or standings
    )
    return next(standing for standing in able if not any(is_faster(other, standing) for other in able))


def _tolerance_for_a_winner(
    choosers: Sequence[Chooser], standings: Sequence[Standing], tolerance: float
) -> float | None:
    """See `Answer`.

    A larger tolerance makes cells rivals that were none, and each comparison is held to more, so that regrets grow with
    it. So none below the least regret is tried.
    """

    def least_regret(standings: Sequence[Standing]) -> float:
        undecided = [standing.least_regret for standing in standings if standing.outcome != WINNER]
        return min(1.0, *undecided) if undecided else 1.0

    percent, needed = 0, max(tolerance, least_regret(standings))
    while (percent := max(percent + 1, math.ceil(100 * needed - 1e-9))) < 100:
        tried = [chooser.standing(percent / 100) for chooser in choosers]
        if _answering(tried).outcome == WINNER:
            return percent / 100
        needed = least_regret(tried)
    return None


def answers(
    measurements: Measurements, rows: Sequence[Row], constraints: Constraints, *, tolerance: float = TOLERANCE
) -> list[Answer]:
    """The answer for each task and batch of rows of which some cell was timed and is right, in their order."""
    by_request: dict[tuple[str, int], list[Row]] = {}
    for group in ranking.select(rows).groups:
        if any(map(ranking.is_ranked, group.rows)):
            by_request.setdefault((group.task, group.batch), []).extend(group.rows)
    return [answer(measurements, own, constraints, tolerance=tolerance) for own in by_request.values()]


def of_run(stored: Results, task: str) -> Answer | None:
    """The answer for a task after a run, as `bench pick` gives it without options; None where nothing was timed."""
    rows = [row for row in stored.rows if row.task == task]
    if not any(map(ranking.is_ranked, rows)):
        return None
    return answer(stored.measurements, of_one_batch(rows), Constraints(max_metric_loss=AllowedLoss()))


def of_one_batch(rows: Sequence[Row], batch: int | None = None, threads: int | None = None) -> list[Row]:
    """The rows of one batch; where several remain, those with most timed rows.

    Where none was timed and is right, the rows of the first row's batch and threads.

    Args:
        rows: the rows of one task.
        batch: batch of the request; None for any batch.
        threads: number of threads of the request; None for any number.

    Raises:
        InputError: the rows are of several tasks, or cells were timed and are right, but not for that request.
    """
    tasks = sorted({row.task for row in rows})
    if len(tasks) > 1:
        raise InputError(f"pick for one task at a time; these cells are of {', '.join(tasks)}")
    timed = collections.Counter((row.batch, row.threads) for row in rows if ranking.is_ranked(row))
    if not timed:
        return [row for row in rows if (row.batch, row.threads) == (rows[0].batch, rows[0].threads)]
    fitting = collections.Counter[int]()
    for (timed_batch, other), number in timed.items():
        if batch in (None, timed_batch) and threads in (None, other):
            fitting[timed_batch] += number
    if not fitting:
        known = ", ".join(f"--batch {size} --threads {other}" for size, other in sorted(timed))
        raise InputError(f"no cell was timed and is right for that request; there are: {known}")
    chosen = max(fitting, key=lambda size: (fitting[size], -size))
    return [row for row in rows if row.batch == chosen and threads in (None, row.threads)]
