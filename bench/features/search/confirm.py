"""What a search found, held against the fixed matrix on samples that the search never saw."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from bench.api.cell import Cell, chain_of
from bench.api.errors import InputError
from bench.api.loss_units import ANY
from bench.api.names import ProviderName, Role
from bench.decisions.constraints import Constraints, qualified, unit_of
from bench.decisions.unqualified import too_few_samples
from bench.features.search.proposals import FIGURES, LATENCY, MEMORY, SIZE, Proposal, front
from bench.measure import selection
from bench.measure.questions import Aims
from bench.measure.stats import Estimate
from bench.pipeline import prepare
from bench.pipeline.quality import BROKEN
from bench.plugins import catalog
from bench.records import ranking
from bench.records.folder import Results
from bench.records.metric_loss import Lost
from bench.records.ranking import Group
from bench.records.rows import Row

_SAFER = 0.8
"""Of two finalists in a row, the less risky one has at most this share of the other one's risk."""
_MOST_FINALISTS = 12
TIMED = 3
"""Finalists that are measured beside the fixed matrix in the end; the last that keep the metric."""
_MEMORY_MARGIN = Aims().margin
"""Share by which peak memory must be less: the largest difference of latencies, too, that counts as noise."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Confirmed:
    """The end of a search.

    Attributes:
        objective: what was made small.
        finalists: rows of the finalists on the task itself, in the order in which they were proposed.
        losses: by path of a finalist, the share of the metric that it loses, on all samples that are held out.
        keepers: paths of the finalists that keep the metric.
        fixed: the best row of the fixed matrix that keeps the metric by the same samples; None where no row does.
        winner: the best row of all; None where no row keeps to the constraints.
        too_few: where there is no winner, that there are too few samples to tell; else None.
        over_fixed: latency of the best finalist that keeps the metric over that of `fixed`; None where one of them is
            missing or the two were not measured together. Where the finalist was selected for its latency, the interval
            holds all the same: see `measure.selection.selected_ratio`.
    """

    objective: str
    finalists: Sequence[Row]
    losses: Mapping[str, Lost]
    keepers: Sequence[str]
    fixed: Row | None
    winner: Row | None
    over_fixed: Estimate | None
    too_few: str | None = None

    @property
    def is_searched(self) -> bool:
        """Whether the winner is a finalist that was shown to beat the fixed matrix.

        Sizes are what they are. Memory must be less by more than a margin that is taken for noise.
        """
        if self.winner is None or self.winner.cell not in self.keepers:
            return False
        if self.fixed is None or self.objective == SIZE:
            return True
        if self.objective == MEMORY:
            return _figure(self.winner, MEMORY) < (1 - _MEMORY_MARGIN) * _figure(self.fixed, MEMORY)
        return self.over_fixed is not None and self.over_fixed.high < 1

    @property
    def timed(self) -> Sequence[str]:
        """Those of `keepers` of which the best may win."""
        return _timed(self.keepers, self.objective)

    @property
    def best_finalist(self) -> Row | None:
        """The finalist that keeps the metric and does best."""
        return _best([row for row in self.finalists if row.cell in self.timed], self.objective)


def finalists(
    proposals: Sequence[Proposal],
    objective: str,
    task: str,
    most: float = math.inf,
    number: int = _MOST_FINALISTS,
    max_metric_loss: float | None = None,
) -> list[Cell]:
    """The cells of the task itself to confirm, that with the least risk first: of the front of all designs.

    Args:
        proposals: the proposals of all designs.
        objective: what is to be made small.
        task: the task itself.
        most: the cost of what the finalists are to beat, see `cost_to_beat`.
        number: how many there may be. Where the front has more, they lie `_SAFER` apart in risk or further; the least
            risky and the best are always among them.
        max_metric_loss: what a deployment may lose, in the unit of the task; a proposal that loses more on the tuning
            samples is no finalist.
    """
    able = [
        proposal for proposal in proposals if proposal.cost(objective) < most and _may_keep(proposal, max_metric_loss)
    ]
    good = [proposal for proposal in front(able, objective) if proposal.choice != proposal.design.plain]
    share, picks = 1.0, good
    number = min(max(2, number), _MOST_FINALISTS)
    while len(picks) > number:
        share *= _SAFER
        picks = good[:1]
        for candidate in good[1:]:  # the best first
            if candidate.risk <= share * picks[-1].risk or candidate is good[-1]:
                picks.append(candidate)
    return [proposal.cell_of(task) for proposal in reversed(picks)]


def _may_keep(proposal: Proposal, max_metric_loss: float | None) -> bool:
    lost = proposal.tried.metric_loss
    return lost is None or max_metric_loss is None or lost <= max_metric_loss


def cost_to_beat(rows: Sequence[Row], fixed: str | None, base: Cell, objective: str) -> float:
    """What a proposal must cost less than to beat the best of the fixed matrix; infinite where that is not known.

    Args:
        rows: rows of the task itself.
        fixed: path of the best cell of the fixed matrix.
        base: the cell of the tuning task that latencies of proposals are over.
        objective: what is to be made small.
    """
    by_path = {row.cell: row for row in rows}
    best = by_path.get(fixed or "")
    if best is None:
        return math.inf
    if objective != LATENCY:
        return _figure(best, objective)
    plain = by_path.get(dataclasses.replace(base, task=best.task_name).path)
    return best.ratio / plain.ratio if plain is not None and best.ratio and plain.ratio else math.inf


def keeps(cell: Cell, stored: Results, more: Results | None, constraints: Constraints) -> bool | None:
    """Whether a deployment keeps the metric, by all samples that are held out; None where it does not work.

    Finalists are asked about from the least risky on, until one does not keep it: so all that were found to do so do it
    with 95 % confidence together (a fixed sequence of tests, which need no correction).

    Args:
        cell: the cell, of the task itself.
        stored: the results of the task itself.
        more: those of the task that has all held-out samples as its test split; None where there are no more.
        constraints: what a deployment must keep to.

    Source: Maurer, Hothorn and Lehmacher 1995, "Multiple comparisons in drug clinical trials and preclinical assays:
    a-priori ordered hypotheses".
    """
    rows = [_row(cell, stored)]
    if more is not None:
        confirming = dataclasses.replace(cell.task, role=Role.CONFIRMATION)
        rows.append(_row(dataclasses.replace(cell, task=confirming), more))
    judged = rows[-1]
    if any(row is None or row.status != "ok" or row.fidelity == BROKEN for row in rows) or judged is None:
        return None
    if constraints.max_metric_loss is None:
        return True
    limit = constraints.max_metric_loss.of(judged.metric_loss_unit)
    lost = _losses(stored if more is None else more, [cell]).get(cell.path)
    if lost is not None:
        return lost.high() <= limit
    return judged.metric_loss is not None and judged.metric_loss <= limit


def _row(cell: Cell, stored: Results) -> Row | None:
    return next((row for row in stored.rows if row.cell == cell.path), None)


def is_partial(stored: Results, fixed: Sequence[Cell]) -> bool:
    """Whether a cell of the fixed matrix that can be measured was not: the run that began it may have been stopped."""
    known = {row.cell for row in stored.rows if row.ratio is not None or row.same_as or not _can_be_timed(row)}
    return any(cell.path not in known and prepare.skip_reason(cell) is None for cell in fixed)


def _can_be_timed(row: Row) -> bool:
    return row.status == "ok" and row.fidelity != BROKEN and row.untimed is None


def rivals(stored: Results, request: tuple[str, int, int], limits: Constraints, objective: str) -> list[Cell]:
    """The cells of the fixed matrix that may keep to the constraints, the best first.

    They are those whose lost share of the metric on the test split is small enough, whatever its bound: more held-out
    samples may bound it.
    """
    group = _group(stored, request)
    if group is None:
        return []
    limit = (limits.max_metric_loss or ANY).of(unit_of(group.rows))
    rows = qualified(stored.measurements, group, dataclasses.replace(limits, max_metric_loss=None)).rows
    candidates = [row for row in rows if _is_fixed(row) and (row.metric_loss is None or row.metric_loss <= limit)]
    return [Cell.from_path(row.cell) for row in sorted(candidates, key=lambda row: _figure(row, objective))]


def _is_fixed(row: Row) -> bool:
    """Whether a row is of the fixed matrix, and was not proposed by a search, be it an earlier one."""
    known = catalog.variants()
    return not ProviderName.parse(row.provider).options and all(name.listed in known for name in chain_of(row.variant))


def confirmed(
    stored: Results,
    request: tuple[str, int, int],
    cells: tuple[Sequence[Cell], Sequence[Cell], Sequence[Cell]],
    constraints: Constraints,
    objective: str,
    more: Results | None = None,
) -> Confirmed:
    """Hold the finalists against the fixed matrix.

    Args:
        stored: the results of the task itself, with those of the finalists.
        request: task, batch and threads.
        cells: the finalists, those of them that keep the metric, and the cells of the fixed matrix that do.
        constraints: what a deployment must keep to.
        objective: what is to be made small.
        more: the results of the finalists on all samples that are held out; None where the test split has them all.

    Raises:
        InputError: nothing of the task was timed.
    """
    group = _group(stored, request)
    if group is None:
        raise InputError(
            f"no cell of {request[0]} was timed, and finalists are compared with those that were",
            fix=f"`bench show '{request[0]}/*'` says why",
        )
    paths, keepers, rivals = ([cell.path for cell in each] for each in cells)
    timed = _timed(keepers, objective)
    rows = [row for row in group.rows if row.cell in paths]
    contenders = {*cells[0], *cells[2]}
    sound = [row for row in group.rows if row.status == "ok" and (objective == SIZE or row.ratio is not None)]
    fixed = _best([row for row in sound if row.cell in rivals], objective)
    best = _best([row for row in sound if row.cell in timed], objective)
    winner = _best([row for row in (best, fixed) if row is not None], objective)
    return Confirmed(
        objective=objective,
        finalists=sorted(rows, key=lambda row: paths.index(row.cell)),
        losses=_losses(stored, contenders) | ({} if more is None else _losses(more, contenders)),
        keepers=keepers,
        fixed=fixed,
        winner=winner,
        over_fixed=None if best is None or fixed is None else _over(stored, best.cell, fixed.cell, timed, objective),
        too_few=_too_few(stored, group, constraints) if winner is None else None,
    )


def _too_few(stored: Results, group: Group, constraints: Constraints) -> str | None:
    measurements = stored.measurements
    return too_few_samples(measurements, qualified(measurements, group, constraints), constraints)


def _timed(paths: Sequence[str], objective: str) -> Sequence[str]:
    """Finalists that were measured beside the fixed matrix; few launches of the others would choose the luckiest."""
    return paths if objective == SIZE else paths[-TIMED:]


def _over(stored: Results, best: str, fixed: str, timed: Sequence[str], objective: str) -> Estimate | None:
    """Latency of the best of the finalists over that of a cell of the fixed matrix."""
    if objective != LATENCY:
        compared = stored.measurements.between(best, fixed)
        return None if compared is None else compared.ratio
    fitted = stored.measurements.of(best)
    is_beside = fitted is not None and fixed in fitted.names
    return selection.selected_ratio(fitted, best, fixed, timed) if fitted is not None and is_beside else None


def _best(rows: Sequence[Row], objective: str) -> Row | None:
    return min(rows, key=lambda row: (_figure(row, objective), row.ratio or math.inf, row.cell), default=None)


def _figure(row: Row, objective: str) -> float:
    value = getattr(row, FIGURES[objective])
    return math.inf if value is None else float(value)


def _group(stored: Results, request: tuple[str, int, int]) -> Group | None:
    groups = ranking.select(stored.rows).groups
    return next((group for group in groups if (group.task, group.batch, group.threads) == request), None)


def _losses(stored: Results, cells: Iterable[Cell]) -> dict[str, Lost]:
    """By path of a cell of the task itself, what is known of the share of the metric that it loses."""
    losses = {}
    for cell, task in itertools.product(cells, {Cell.from_path(path).task for path in stored.records}):
        record = stored.records.get(dataclasses.replace(cell, task=task).path)
        if record is not None and record.quality is not None and isinstance(record.quality.lost, Lost):
            losses[cell.path] = record.quality.lost
    return losses
