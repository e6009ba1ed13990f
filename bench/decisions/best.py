"""The best deployment of each task, against the frameworks' defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from bench.api import loading
from bench.api.cell import Cell
from bench.decisions import pick
from bench.measure.stats import Estimate
from bench.pipeline import sweeps
from bench.records import assemble, ranking
from bench.records.rows import Row
from bench.records.store import Record

MAX_METRIC_LOSS = 0.01
"""Largest share of the reference's metric that may be lost, by default."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Best:
    """The deployment to ship for one request.

    Attributes:
        row: the row of the fastest cell that loses no more of the metric than is allowed.
        over: by framework, the latency of the row's cell over the latency of the framework's default cell; None where
            the two cannot be compared.
        rivals: paths of the other cells that are right and that are not known to be slower.
    """

    row: Row
    over: Mapping[str, Estimate | None]
    rivals: tuple[str, ...]


def best(
    records: Mapping[str, Record], *, max_metric_loss: float, margin: float, rows: Sequence[Row] | None = None
) -> list[Best]:
    """The best deployment for each task, batch and number of threads that has a cell that qualifies.

    Args:
        records: the current record of each cell path.
        max_metric_loss: the largest share of the reference's metric that may be lost.
        margin: largest difference that counts as noise, as a share.
        rows: the rows of the cells to choose among; None for the rows of all records.
    """
    found = []
    for group in ranking.select(assemble.rows(records, margin=margin) if rows is None else rows).groups:
        sound = pick.qualifying(group, pick.Constraints(max_metric_loss=max_metric_loss))
        if not sound:
            continue
        winner = sound[0]
        over = {
            cell.source: _over(records, winner.cell, cell.path)
            for cell in reversed(_defaults(winner))  # the first cell of a source replaces the later ones
            if cell.path in records
        }
        rivals = [row.cell for row in sound[1:] if not pick.is_slower(records, row, winner, margin)]
        found.append(Best(row=winner, over=over, rivals=tuple(rivals)))
    return found


def _defaults(row: Row) -> Sequence[Cell]:
    """The plain native cells of the task's frameworks, for the row's request; none where the task is not here."""
    if row.task not in loading.find("models"):
        return ()
    return sweeps.baselines(row.task, row.batch, row.threads)


def _over(records: Mapping[str, Record], one: str, other: str) -> Estimate | None:
    if one == other:
        return Estimate(value=1.0, low=1.0, high=1.0)
    found = assemble.between(records, one, other)
    return found.ratio if found else None
