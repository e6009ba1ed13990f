"""What `bench pick` would answer after a run: a cell to ship, or what is missing for it."""

from __future__ import annotations

import dataclasses
import math

from bench.api.errors import InputError
from bench.decisions import pick
from bench.decisions.best import MAX_METRIC_LOSS
from bench.decisions.pick import Choice, Constraints
from bench.records import ranking
from bench.records.folder import Results


@dataclasses.dataclass(frozen=True, kw_only=True)
class NextPick:
    """The answer of `bench pick` for one task.

    Attributes:
        task: name of the task.
        max_metric_loss: the limit on the metric that is lost; None where no cell keeps to `MAX_METRIC_LOSS` for sure.
        choice: the choice under that limit; None where no cell qualifies without a limit either.
        tolerance: smallest whole percentage, as a share, by which the picked cell may be slower than the fastest, so
            that a cell is picked; None where `pick.TOLERANCE` is enough, and where no such share below 1 is.
        reason: why no cell keeps to `MAX_METRIC_LOSS` for sure, or qualifies at all; None where one does.
    """

    task: str
    max_metric_loss: float | None
    choice: Choice | None
    tolerance: float | None
    reason: str | None


def next_pick(stored: Results, task: str) -> NextPick:
    """Choose among the stored rows of a task as `bench pick` does, within 1 % of the metric and then without a limit.

    Args:
        stored: the results, with those of the task.
        task: name of the task.
    """
    if not any(row.task == task and ranking.is_ranked(row) for row in stored.rows):
        reason = f"no cell of {task} was timed and is right"
        return NextPick(task=task, max_metric_loss=None, choice=None, tolerance=None, reason=reason)
    refusals: list[str] = []
    for limit in (MAX_METRIC_LOSS, None):
        try:
            choice = _choice(stored, task, limit, pick.TOLERANCE)
        except InputError as error:
            refusals.append(str(error))
            continue
        share = math.ceil(100 * min(choice.regret, 1.0)) / 100
        would_do = choice.picked is None and share < 1 and _choice(stored, task, limit, share).picked is not None
        return NextPick(
            task=task,
            max_metric_loss=limit,
            choice=choice,
            tolerance=share if would_do else None,
            reason="; ".join(refusals) or None,
        )
    return NextPick(task=task, max_metric_loss=None, choice=None, tolerance=None, reason=refusals[0])


def _choice(stored: Results, task: str, limit: float | None, tolerance: float) -> Choice:
    rows = pick.of_one_request([row for row in stored.rows if row.task == task], None, None)
    return pick.choose(stored.measurements, rows, Constraints(max_metric_loss=limit), tolerance=tolerance)
