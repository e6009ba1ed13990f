"""The one answer for a task and a batch: `bench run`, `best` and `pick` all give it.

Each number of threads is a request of its own, with a choice of its own. More threads take more cores, so the answer is
that of the fewest, unless more were shown to be faster.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
from collections.abc import Sequence

from bench.api.errors import InputError
from bench.decisions.constraints import MAX_METRIC_LOSS, Constraints
from bench.decisions.pick import TOLERANCE, WINNER, Choice, choose
from bench.records import ranking
from bench.records.folder import Results
from bench.records.measurements import Measurements
from bench.records.rows import Row


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """What to ship for a task, or what is missing to tell.

    Attributes:
        choice: the choice for the number of threads that is the answer.
        beside: the choices for the other numbers of threads.
        constraints: the limits that they keep to.
        tolerance: the smallest whole percentage, as a share, at which there would be a winner, where there is none;
            None where there is one, and where no such share below 1 is.
    """

    choice: Choice
    beside: tuple[Choice, ...]
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
    found = _answer(measurements, rows, constraints, tolerance)
    if found.choice.outcome == WINNER or not found.choice.contenders:
        return found
    percent, needed = 0, min(1.0, max(tolerance, found.choice.least_regret))
    while (percent := max(percent + 1, math.ceil(100 * needed - 1e-9))) < 100:
        tried = _answer(measurements, rows, constraints, percent / 100).choice
        if tried.outcome == WINNER:
            return dataclasses.replace(found, tolerance=percent / 100)
        needed = min(1.0, tried.least_regret)
    return found


def _answer(measurements: Measurements, rows: Sequence[Row], constraints: Constraints, tolerance: float) -> Answer:
    by_threads = itertools.groupby(sorted(rows, key=lambda row: row.threads), key=lambda row: row.threads)
    choices = [choose(measurements, list(own), constraints, tolerance=tolerance) for _, own in by_threads]
    first = choices[0]
    for other in choices[1:]:
        if _is_faster(other.leading, first.leading):
            first = other
    beside = tuple(choice for choice in choices if choice is not first)
    return Answer(choice=first, beside=beside, constraints=constraints)


def _is_faster(row: Row | None, other: Row | None) -> bool:
    """Whether a row was shown to be faster than another, or there is no other."""
    if row is None or other is None:
        return row is not None
    high, low = row.latency_p50_high_ns, other.latency_p50_low_ns
    return high is not None and low is not None and high < low


def answers(
    measurements: Measurements, rows: Sequence[Row], constraints: Constraints, *, tolerance: float = TOLERANCE
) -> list[Answer]:
    """The answer for each task and batch of rows of which some cell was timed and is right, in their order."""
    found: dict[tuple[str, int], list[Row]] = {}
    for group in ranking.select(rows).groups:
        if any(map(ranking.is_ranked, group.rows)):
            found.setdefault((group.task, group.batch), []).extend(group.rows)
    return [answer(measurements, own, constraints, tolerance=tolerance) for own in found.values()]


def of_run(stored: Results, task: str) -> Answer | None:
    """The answer for a task after a run, as `bench pick` gives it without options; None where nothing was timed."""
    rows = [row for row in stored.rows if row.task == task]
    if not any(map(ranking.is_ranked, rows)):
        return None
    return answer(stored.measurements, of_one_batch(rows), Constraints(max_metric_loss=MAX_METRIC_LOSS))


def of_one_batch(rows: Sequence[Row], batch: int | None = None, threads: int | None = None) -> list[Row]:
    """The rows of one batch; where several remain, those with most timed rows. All rows where none was timed.

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
    for (one, other), number in timed.items():
        if batch in (None, one) and threads in (None, other):
            fitting[one] += number
    if not fitting:
        known = ", ".join(f"--batch {one} --threads {other}" for one, other in sorted(timed))
        raise InputError(f"no cell was timed and is right for that request; there are: {known}")
    chosen = max(fitting, key=lambda one: (fitting[one], -one))
    return [row for row in rows if row.batch == chosen and threads in (None, row.threads)]
