"""What a search found, held against the fixed matrix on samples that the search never saw."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from bench.api import placed, versioned
from bench.api.cell import CHAIN, RAW, Cell
from bench.api.errors import InputError
from bench.decisions import pick
from bench.decisions.pick import Constraints
from bench.decisions.search.search import FIGURES, LATENCY, MEMORY, Proposal, front
from bench.measure import selection
from bench.measure.stats import Estimate
from bench.pipeline.quality import BROKEN
from bench.plugins import catalog
from bench.records import ranking
from bench.records.folder import Results
from bench.records.metric_loss import Lost
from bench.records.ranking import Group
from bench.records.rows import Row

QUIETER = 0.8
"""Of two finalists in a row, the quieter one has at most this share of the other one's noise."""
MOST_FINALISTS = 12


@dataclasses.dataclass(frozen=True, kw_only=True)
class Confirmed:
    """The end of a search.

    Attributes:
        objective: what was made small.
        finalists: rows of the finalists on the task itself, in the order in which they were proposed.
        losses: by path of a finalist, the share of the metric that it loses, on all samples that are held out.
        kept: paths of the finalists that keep the metric.
        fixed: the best row of the fixed matrix under the same constraints; None where no row keeps to them.
        winner: the best row of all; None where no row keeps to the constraints.
        over_fixed: latency of the best finalist that keeps the metric over that of `fixed`; None where one of them is
            missing or the two were not measured together. Where the finalist was selected for its latency, the interval
            holds all the same: see `measure.selection.selected_ratio`.
    """

    objective: str
    finalists: Sequence[Row]
    losses: Mapping[str, Lost]
    kept: Sequence[str]
    fixed: Row | None
    winner: Row | None
    over_fixed: Estimate | None

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


def finalists(
    proposals: Sequence[Proposal], objective: str, task: str, most: float = math.inf, number: int = MOST_FINALISTS
) -> list[Cell]:
    """The cells of the task itself to confirm, the one with least noise first: some of the front of all designs.

    Args:
        proposals: the proposals of all designs.
        objective: what is to be made small.
        task: the task itself.
        most: the cost of what the finalists are to beat, see `cost_to_beat`.
        number: how many there may be; the quietest and the best are always among them.
    """
    good = [one for one in front(proposals, objective) if one.choice != one.design.plain]
    good = [one for one in good if one.cost(objective) < most]
    share, found = 1.0, good
    number = min(max(2, number), MOST_FINALISTS)
    while len(found) > number or share == 1.0:
        share *= QUIETER
        found = good[:1]
        for one in good[1:]:  # the best first
            if one.tried.noise <= share * found[-1].tried.noise or one is good[-1]:
                found.append(one)
    return [dataclasses.replace(one.cell, task=task) for one in reversed(found)]


def cost_to_beat(rows: Sequence[Row], fixed: Row | None, base: Cell, objective: str) -> float:
    """What a proposal must cost less than to beat the best of the fixed matrix; infinite where that is not known.

    Args:
        rows: rows of the task itself.
        fixed: the best of the fixed matrix.
        base: the cell of the tuning task that latencies of proposals are over.
        objective: what is to be made small.
    """
    if fixed is None or objective == MEMORY:
        return math.inf
    if objective != LATENCY:
        return _figure(fixed, objective)
    plain = dataclasses.replace(base, task=fixed.task).path
    ratio = next((row.ratio for row in rows if row.cell == plain), None)
    return fixed.ratio / ratio if fixed.ratio and ratio else math.inf


def keeps(cell: Cell, stored: Results, more: Results | None, constraints: Constraints) -> bool:
    """Whether a finalist works and keeps the metric, by all samples that are held out.

    Finalists are asked about from the quietest on, until one does not keep it: so all that were found to do so do it
    with 95 % confidence together (a fixed sequence of tests, which need no correction).

    Source: Maurer, Hothorn and Lehmacher 1995, "Multiple comparisons in drug clinical trials and preclinical assays:
    a-priori ordered hypotheses".
    """
    row = next((row for row in stored.rows if row.cell == cell.path), None)
    limit = constraints.max_metric_loss
    if row is None or row.status != "ok" or row.fidelity == BROKEN:
        return False
    lost = (_losses(stored, [cell]) | ({} if more is None else _losses(more, [cell]))).get(cell.path)
    if limit is None:
        return True
    return lost.high() <= limit if lost is not None else (row.metric_loss or 0.0) <= limit


def fixed_best(stored: Results, request: tuple[str, int, int], limits: Constraints) -> list[Row]:
    """The rows of the fixed matrix that keep to the constraints, the fastest first."""
    group = _group(stored, request)
    return [] if group is None else [row for row in pick.qualifying(group, limits) if _is_fixed(row)]


def _is_fixed(row: Row) -> bool:
    """Whether a row is of the fixed matrix, and was not proposed by a search, be it an earlier one."""
    names = [versioned.plugin_of(name) for name in row.variant.split(CHAIN)]
    return not placed.split(row.provider)[1] and all(name == RAW or name in catalog.variants() for name in names)


def confirmed(
    stored: Results,
    request: tuple[str, int, int],
    cells: Sequence[Cell],
    kept: Sequence[str],
    constraints: Constraints,
    objective: str,
    more: Results | None = None,
) -> Confirmed:
    """Hold the finalists against the fixed matrix.

    Args:
        stored: the results of the task itself, with those of the finalists.
        request: task, batch and threads.
        cells: the finalists.
        kept: paths of those that keep the metric.
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
    rows = [row for row in group.rows if row.cell in paths]
    losses = _losses(stored, cells) | ({} if more is None else _losses(more, cells))
    sound = pick.qualifying(group, constraints)
    timed = pick.qualifying(group, dataclasses.replace(constraints, max_metric_loss=None))
    fixed = _best([row for row in sound if _is_fixed(row)], objective)
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
