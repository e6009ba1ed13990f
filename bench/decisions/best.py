"""The best deployment of each task, against the frameworks' defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from bench.api import loading
from bench.api.cell import Cell
from bench.measure import stats
from bench.measure.stats import Estimate
from bench.pipeline import sweeps
from bench.records import assemble, ranking
from bench.records.rows import Row
from bench.records.store import Record


@dataclasses.dataclass(frozen=True, kw_only=True)
class Best:
    """What to ship for one request.

    Attributes:
        row: of the fastest cell that loses no more of the metric than is allowed.
        over: by framework, its latency over that of the framework's default; None where they cannot be compared.
        rivals: paths of the cells, as good, that it cannot be told apart from.
    """

    row: Row
    over: Mapping[str, Estimate | None]
    rivals: tuple[str, ...]


def best(
    records: Mapping[str, Record], *, max_metric_loss: float, margin: float, rows: Sequence[Row] | None = None
) -> list[Best]:
    """One for each task, batch and number of threads that has a cell that qualifies.

    Args:
        records: the current record of each cell path.
        max_metric_loss: the largest share of the reference's metric that may be lost.
        margin: what counts as no difference, as a share.
        rows: made of the records, where they are at hand or not all are meant.
    """
    found = []
    for group in ranking.select(assemble.rows(records, margin=margin) if rows is None else rows).groups:
        sound = [row for row in group.rows if ranking.is_ranked(row) and row.ratio is not None]
        sound = [row for row in sound if row.metric_loss is not None and row.metric_loss <= max_metric_loss]
        if not sound:
            continue
        # Over two baselines ratios have no common meaning.
        by = "ratio" if sum(map(ranking.is_baseline, group.rows)) < 2 else "latency_p50_ns"
        winner = min(sound, key=lambda row: (getattr(row, by), row.cell))
        over = {
            cell.source: _over(records, winner.cell, cell.path)
            for cell in reversed(_defaults(winner))  # the first of a source stands
            if cell.path in records
        }
        rivals = [row.cell for row in sound if row is not winner and not _is_slower(records, row, winner, margin)]
        found.append(Best(row=winner, over=over, rivals=tuple(rivals)))
    return found


def _defaults(row: Row) -> Sequence[Cell]:
    """The plain cells of the task's frameworks, for the same request."""
    if row.task not in loading.find("models"):
        return ()
    return sweeps.baselines(row.task, row.batch, row.threads)


def _over(records: Mapping[str, Record], one: str, other: str) -> Estimate | None:
    if one == other:
        return Estimate(value=1.0, low=1.0, high=1.0)
    found = assemble.between(records, one, other)
    return found.ratio if found else None


def _is_slower(records: Mapping[str, Record], row: Row, winner: Row, margin: float) -> bool:
    found = assemble.between(records, row.cell, winner.cell)
    return found is not None and found.verdict(margin) == stats.SLOWER
