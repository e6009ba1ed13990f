"""The best deployment of each task, against the frameworks' defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from bench.api import loading
from bench.api.cell import Cell
from bench.api.sized import family_of
from bench.decisions import pick
from bench.measure import selection
from bench.measure.stats import Estimate
from bench.pipeline import sweeps
from bench.records import ranking
from bench.records.measurements import Measurements
from bench.records.ranking import Group
from bench.records.rows import Row

MAX_METRIC_LOSS = 0.01
"""Largest share of the reference's metric that may be lost, by default."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Best:
    """The deployment to ship for one request.

    Attributes:
        row: the row of the fastest cell that loses no more of the metric than is allowed.
        over: by framework, the latency of the row's cell over the latency of the framework's default cell, with an
            interval that holds although the cell was selected as the fastest; None where the two cannot be compared.
        equal: paths of the other cells that are right and were shown to be as good within `pick.WITHIN`.
        untold: paths of the other cells that are right and were neither shown to be as good nor shown to be slower by
            more.
    """

    row: Row
    over: Mapping[str, Estimate | None]
    equal: tuple[str, ...]
    untold: tuple[str, ...]


def sources_of(found: Iterable[Best]) -> list[str]:
    """The frameworks to whose default a deployment was compared: each stands in a column, and no column is empty."""
    return list(dict.fromkeys(source for one in found for source, over in one.over.items() if over is not None))


def best(measurements: Measurements, rows: Sequence[Row], *, max_metric_loss: float) -> list[Best]:
    """The best deployment for each task, batch and number of threads that has a cell that qualifies.

    Args:
        measurements: the model of the measurement, fitted to the records that the rows were made of.
        rows: the rows of the cells to choose among.
        max_metric_loss: the largest share of the reference's metric that may be lost.
    """
    found = []
    for group in ranking.select(rows).groups:
        sound = pick.qualifying(group, pick.Constraints(max_metric_loss=max_metric_loss))
        if not sound:
            continue
        race = pick.selected(measurements, sound, within=pick.WITHIN)
        winner = next(row for row in sound if row.cell == race.first)
        over = {
            cell.source: _over(measurements, winner.cell, cell.path, sound)
            for cell in reversed(_defaults(winner, group))  # the first cell of a source replaces the later ones
            if measurements.of(cell.path) is not None
        }
        found.append(Best(row=winner, over=over, equal=race.equal, untold=race.untold))
    return found


def _defaults(row: Row, group: Group) -> Sequence[Cell]:
    """The plain native cells of the task's frameworks, for the row's request.

    Where the task is not here, as a model of the user's is not after the run: the baseline of the request.
    """
    if family_of(row.task) not in loading.find("models"):
        return [Cell.from_path(one.cell) for one in group.rows if ranking.is_baseline(one)]
    return sweeps.baselines(row.task, row.batch, row.threads)


def _over(measurements: Measurements, winner: str, other: str, sound: Sequence[Row]) -> Estimate | None:
    if winner == other:
        return Estimate(value=1.0, low=1.0, high=1.0)
    fitted = measurements.of(winner)
    assert fitted is not None
    return selection.selected_ratio(fitted, winner, other, [row.cell for row in sound])
