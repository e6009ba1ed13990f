"""The answer for each task, against the frameworks' defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from bench.api import loading
from bench.api.cell import Cell
from bench.api.loss_units import AllowedLoss
from bench.decisions.answer import Answer, answers
from bench.decisions.constraints import TOLERANCE, Constraints
from bench.measure import selection
from bench.measure.stats import Estimate
from bench.pipeline import sweeps
from bench.records import ranking
from bench.records.measurements import Measurements
from bench.records.ranking import Group
from bench.records.rows import Row


@dataclasses.dataclass(frozen=True, kw_only=True)
class Best:
    """The deployment to ship for one task and batch.

    Attributes:
        answer: the answer, of which at least one cell qualifies.
        row: the row of the cell to ship; where the data do not decide, the one that looks fastest.
        over: by framework, the latency of the row's cell over the latency of the framework's default cell at as many
            threads, with an interval that holds although the cell was selected as the fastest; None where the two
            cannot be compared.
        defaults: by framework, that default cell.
    """

    answer: Answer
    row: Row
    over: Mapping[str, Estimate | None]
    defaults: Mapping[str, Cell]

    @property
    def others(self) -> tuple[str, ...]:
        """Paths of the other cells that may be as fast."""
        return tuple(row.cell for row in self.answer.choice.others)


def sources_of(deployments: Iterable[Best]) -> list[str]:
    """The frameworks to whose default a deployment was compared: each stands in a column, and no column is empty."""
    return list(
        dict.fromkeys(
            source for deployment in deployments for source, over in deployment.over.items() if over is not None
        )
    )


def best(
    measurements: Measurements, rows: Sequence[Row], *, max_metric_loss: AllowedLoss, tolerance: float = TOLERANCE
) -> list[Best]:
    """The answer for each task and batch that has a cell that qualifies.

    Args:
        measurements: the model of the measurement, fitted to the records that the rows were made of.
        rows: the rows of the cells to choose among.
        max_metric_loss: the most that may be lost of the reference's metric.
        tolerance: largest share by which a winner may be slower than the fastest.
    """
    constraints = Constraints(max_metric_loss=max_metric_loss)
    return best_of(measurements, answers(measurements, rows, constraints, tolerance=tolerance))


def best_of(measurements: Measurements, answered: Iterable[Answer]) -> list[Best]:
    """The same of answers that are there already; an answer of which no cell qualifies has none."""
    deployments = []
    for answer in answered:
        choice, row = answer.choice, answer.choice.leading
        if row is not None:
            cells = [other.cell for other in choice.candidates]
            defaults = {
                cell.source: cell
                for cell in reversed(_defaults(row, choice.group))  # the first cell of a source replaces the later ones
                if measurements.of(cell.path) is not None
            }
            over = {
                source: _over(measurements, row.cell, cell.path, cells, choice.tolerance)
                for source, cell in defaults.items()
            }
            deployments.append(Best(answer=answer, row=row, over=over, defaults=defaults))
    return deployments


def _defaults(row: Row, group: Group) -> Sequence[Cell]:
    """The plain native cells of the task's frameworks, for the row's request.

    Where the task is not here, as a model of the user's is not after the run: the baseline of the request.
    """
    if row.task_name.model not in loading.find("models"):
        return [Cell.from_path(baseline.cell) for baseline in group.rows if ranking.is_baseline(baseline)]
    return sweeps.baselines(row.task, row.batch, row.threads)


def _over(
    measurements: Measurements, winner: str, other: str, cells: Sequence[str], tolerance: float
) -> Estimate | None:
    if winner == other:
        return Estimate(value=1.0, low=1.0, high=1.0)
    fitted = measurements.of(winner)
    assert fitted is not None
    return selection.selected_ratio(fitted, winner, other, cells, within=tolerance)
