"""What a search found, held against the fixed matrix on samples that the search never saw."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from bench.api.cell import Cell
from bench.api.errors import InputError
from bench.decisions import pick
from bench.decisions.pick import Constraints
from bench.decisions.search.search import FIGURES, LATENCY, Proposal, front
from bench.measure import selection
from bench.measure.stats import Estimate
from bench.records import ranking
from bench.records.folder import Results
from bench.records.metric_loss import ALPHA, Lost
from bench.records.ranking import Group
from bench.records.rows import Row

QUIETER = 0.5
"""Of two finalists in a row, the second has at most this share of the first one's noise."""
MOST_FINALISTS = 4
"""Finalists of a search: each is one more chance to seem right by luck, for which the bound of all is wider."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Confirmed:
    """The end of a search.

    Attributes:
        objective: what was made small.
        finalists: rows of the finalists on the task itself, in the order in which they were proposed.
        losses: by path of a finalist, the share of the metric that it loses, on all samples that are held out.
        kept: paths of the finalists that keep the metric, at the confidence that is left to each.
        fixed: the best row of the fixed matrix under the same constraints; None where no row keeps to them.
        winner: the best row of all; None where no row keeps to the constraints.
        over_fixed: latency of the best finalist that keeps the metric over that of `fixed`; None where one of them is
            missing or the two were not measured together. Where the finalist was selected for its latency, the interval
            holds all the same: see `measure.selection.selected_ratio`.
        alpha: probability that a finalist loses more than its bound, for each.
    """

    objective: str
    finalists: Sequence[Row]
    losses: Mapping[str, Lost]
    kept: Sequence[str]
    fixed: Row | None
    winner: Row | None
    over_fixed: Estimate | None
    alpha: float

    @property
    def is_searched(self) -> bool:
        """Whether the winner is a finalist; of latency, one that was shown to be faster than the fixed matrix."""
        if self.winner is None or self.winner.cell not in self.kept:
            return False
        return (
            self.objective != LATENCY
            or self.fixed is None
            or (self.over_fixed is not None and self.over_fixed.high < 1)
        )

    @property
    def best_finalist(self) -> Row | None:
        """The finalist that keeps the metric and does best."""
        found = [row for row in self.finalists if row.cell in self.kept]
        return min(found, key=lambda row: _figure(row, self.objective), default=None)


def finalists(proposals: Sequence[Proposal], objective: str, task: str) -> list[Cell]:
    """The cells of the task itself to confirm: on the front of all designs, from the best on, each with less noise."""
    found: list[Proposal] = []
    for one in front(proposals, objective):
        is_new = one.choice != one.design.plain and len(found) < MOST_FINALISTS
        if is_new and (not found or one.tried.noise <= QUIETER * found[-1].tried.noise):
            found.append(one)
    return [dataclasses.replace(one.cell, task=task) for one in found]


def fixed_best(
    stored: Results, request: tuple[str, int, int], searched: Sequence[str], limits: Constraints
) -> list[Row]:
    """The rows of the fixed matrix that keep to the constraints, the fastest first."""
    group = _group(stored, request)
    return [] if group is None else [row for row in pick.qualifying(group, limits) if row.cell not in searched]


def confirmed(
    stored: Results,
    request: tuple[str, int, int],
    cells: Sequence[Cell],
    constraints: Constraints,
    objective: str,
    more: Results | None = None,
) -> Confirmed:
    """Hold the finalists against the fixed matrix.

    Args:
        stored: the results of the task itself, with those of the finalists.
        request: task, batch and threads.
        cells: the finalists.
        constraints: what a deployment must keep to.
        objective: what is to be made small.
        more: the results of the finalists on all samples that are held out; None where the test split has them all.

    Raises:
        InputError: nothing of the task was timed.
    """
    group = _group(stored, request)
    if group is None:
        raise InputError(f"no cell of {request[0]} was timed")
    paths = [cell.path for cell in cells]
    alpha = ALPHA / max(1, len(paths))
    rows = [row for row in group.rows if row.cell in paths]
    losses = _losses(stored, cells) | ({} if more is None else _losses(more, cells))
    sound = pick.qualifying(group, constraints)
    timed = pick.qualifying(group, dataclasses.replace(constraints, max_metric_loss=None))
    kept = [
        row.cell
        for row in timed
        if row.cell in paths and (_keeps(losses[row.cell], constraints, alpha) if row.cell in losses else row in sound)
    ]
    fixed = _best([row for row in sound if row.cell not in paths], objective)
    best = _best([row for row in timed if row.cell in kept], objective)
    winner = _best([row for row in (best, fixed) if row is not None], objective)
    return Confirmed(
        objective=objective,
        finalists=sorted(rows, key=lambda row: paths.index(row.cell)),
        losses=losses,
        kept=kept,
        fixed=fixed,
        winner=winner,
        over_fixed=None if best is None or fixed is None else _over(stored, best.cell, fixed.cell, kept, objective),
        alpha=alpha,
    )


def _over(stored: Results, best: str, fixed: str, kept: Sequence[str], objective: str) -> Estimate | None:
    """Latency of the best of the finalists over that of a cell of the fixed matrix."""
    if objective != LATENCY:
        compared = stored.measurements.between(best, fixed)
        return None if compared is None else compared.ratio
    fitted = stored.measurements.of(best)
    is_beside = fitted is not None and fixed in fitted.names
    return selection.selected_ratio(fitted, best, fixed, kept) if fitted is not None and is_beside else None


def _best(rows: Sequence[Row], objective: str) -> Row | None:
    return min(rows, key=lambda row: (_figure(row, objective), row.ratio or math.inf, row.cell), default=None)


def _figure(row: Row, objective: str) -> float:
    value = getattr(row, FIGURES[objective])
    return math.inf if value is None else float(value)


def _group(stored: Results, request: tuple[str, int, int]) -> Group | None:
    groups = ranking.select(stored.rows).groups
    return next((group for group in groups if (group.task, group.batch, group.threads) == request), None)


def _losses(stored: Results, cells: Sequence[Cell]) -> dict[str, Lost]:
    """By path of a cell of the task itself, what is known of the share of the metric that it loses."""
    task = next(iter({cell.task for cell in map(Cell.from_path, stored.records)}), "")
    found = {}
    for cell in cells:
        record = stored.records.get(dataclasses.replace(cell, task=task).path)
        if record is not None and record.quality is not None and isinstance(record.quality.lost, Lost):
            found[cell.path] = record.quality.lost
    return found


def _keeps(lost: Lost, constraints: Constraints, alpha: float) -> bool:
    """Whether a finalist keeps the metric at the confidence that is left to it."""
    limit = constraints.max_metric_loss
    return limit is None or lost.high(alpha=alpha) <= limit
