"""The cell to ship for one request under constraints, and what is to be told about it.

`bench.decisions.standing` says which cell that is. Where none is sure to be fast enough, the launches are named that
would decide.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from bench.api.errors import InputError
from bench.api.loss_units import AllowedLoss
from bench.api.names import Role
from bench.decisions import constraints as limiting
from bench.decisions import standing as standings
from bench.decisions import twins, unqualified
from bench.decisions.constraints import Constraints
from bench.decisions.deciding_launches import Further, further
from bench.decisions.standing import WINNER, Standing
from bench.measure import selection, stats
from bench.measure.questions import Aims
from bench.measure.stats import Estimate
from bench.records import ranking
from bench.records.measurements import Measurements
from bench.records.pareto import uncovered
from bench.records.ranking import Group
from bench.records.rows import Row

WITHIN = Aims().within
"""A cell that is slower than the best by no more than this share is as good as the best."""
NOISE = (WITHIN, 0.01, 0.05)
"""Differences that count as none on the front: shares of the latency, of the size of the file and of the memory."""
_LOSS_NOISE = AllowedLoss(share=0.001, db=0.01)
"""Differences of what is lost of the metric that count as none there."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice(Standing):
    """The outcome for one request, with what is to be told about it.

    Attributes:
        front: qualified rows that no other row covers in latency, size, memory and metric at once, up to `NOISE` and
            `_LOSS_NOISE`; twins of the leading row count as equally fast.
        twins: paths of the cells that are one deployment with the leading row, or its twins and contenders; see
            `bench.decisions.twins`.
        over_baseline: a winner's ratio to the baseline, with an interval that holds although the row was selected;
            None for the baseline itself, and where there is no winner.
        all_slower: whether every other candidate was shown to be slower than the fastest by more than the tolerance.
        others: the contenders beside the leading row and its twins that were not shown to be slower than that row, by
            more than the noise floor.
        num_untimed: number of cells of the request that were prepared and verified, and not timed.
        further: launches that would find a winner; None where there is one, and where no row qualifies.
        lacking: why no row qualifies; None where one does.
        too_few: see `unqualified.too_few_samples`.
        faster: the row that looks fastest of those that may lose too much of the metric, if it was shown to be faster
            than the shipped one; else None.
        faster_loss_high: the largest share of the metric that `faster` may lose, at the level at which it was held
            against the limit; None where that has no bound.
    """

    front: tuple[Row, ...] = ()
    twins: tuple[str, ...] = ()
    over_baseline: Estimate | None = None
    all_slower: bool = False
    others: tuple[Row, ...] = ()
    num_untimed: int = 0
    further: Further | None = None
    lacking: str | None = None
    too_few: str | None = None
    faster: Row | None = None
    faster_loss_high: float | None = None

    @property
    def gain(self) -> float:
        """The largest share of its latency that the shipped row may take longer than the fastest."""
        return 1 - 1 / (1 + self.regret)


def choose(measurements: Measurements, rows: Sequence[Row], constraints: Constraints, *, tolerance: float) -> Choice:
    """Choose the cell to ship among rows of one request.

    Args:
        measurements: the model of the measurement, fitted to the records that the rows were made of.
        rows: the rows to choose among.
        constraints: the limits that the chosen cell must keep to.
        tolerance: largest share by which a winner may be slower than the fastest cell.

    Raises:
        InputError: the rows are of several requests, or a constraint has no meaning for them.
    """
    chooser = Chooser(measurements, rows, constraints)
    return chooser.choice(chooser.standing(tolerance))


class Chooser:
    """The rows of one request to choose among under constraints, at any tolerance.

    Raises:
        InputError: the rows are of several requests, or a constraint has no meaning for them.
    """

    def __init__(self, measurements: Measurements, rows: Sequence[Row], constraints: Constraints) -> None:
        self.group = _only_group(rows)
        _check(self.group, constraints)
        self._measurements = measurements
        self._constraints = constraints
        self._eligible = limiting.eligible(measurements, self.group, constraints)

    def standing(self, tolerance: float) -> Standing:
        """The outcome at a tolerance."""
        qualified = self._eligible.within(tolerance)
        return standings.standing(self._measurements, self.group, qualified, tolerance)

    def choice(self, standing: Standing) -> Choice:
        """One of the outcomes, with what is to be told about it."""
        measurements, qualified = self._measurements, standing.qualified
        too_few = unqualified.too_few_samples(measurements, qualified, self._constraints)
        shipped, first, race = standing.shipped, standing.leading, standing.race
        num_untimed = sum(map(ranking.lacks_time, self.group.rows))
        if first is None or race is None:
            why = f"no cell of {self.group.title} was timed and is right"
            if qualified.ranked:
                why = unqualified.none_qualifies(measurements, self.group, qualified, self._constraints)
                why = "; ".join(filter(None, (why, too_few)))
            return Choice(**vars(standing), lacking=why, too_few=too_few, num_untimed=num_untimed)
        is_winner = standing.outcome == WINNER
        alike = [
            *twins.same_program(measurements.records, first.cell, qualified.rows),
            *twins.of(measurements.records, first.cell, standing.contenders),
        ]
        names = tuple(dict.fromkeys(row.cell for row in alike))
        candidates = {row.cell for row in standing.candidates}
        rows = [row for row in qualified.rows if row.cell in candidates or row is shipped]
        faster = _faster(measurements, qualified.lossy, shipped)
        lost = self._eligible.lost.get(faster.cell) if faster else None
        bound = lost.high(alpha=qualified.alpha) if lost else faster.metric_loss_high if faster else None
        return Choice(
            **vars(standing),
            front=_front(rows, first, names),
            twins=names,
            over_baseline=_over_baseline(measurements, standing) if is_winner else None,
            all_slower=bool(race.others) and len(race.slower) == len(race.others),
            others=_as_fast(measurements, standing, first, names),
            num_untimed=num_untimed,
            further=None if is_winner else further(measurements, standing.contenders, race, standing.tolerance),
            too_few=too_few,
            faster=faster,
            faster_loss_high=bound,
        )


def _only_group(rows: Sequence[Row]) -> Group:
    groups = ranking.select(rows).groups
    if len(groups) != 1:
        raise InputError(f"choose among one request, not {len(groups)}: {'; '.join(group.title for group in groups)}")
    return groups[0]


def _check(group: Group, constraints: Constraints) -> None:
    task = group.task_name
    if constraints.is_of_generation and task.role is not Role.GENERATION:
        raise InputError(
            f"{group.task} generates no text: it has no time to first token and no rate of tokens",
            fix="leave out --max-ttft and --min-tokens-per-s",
        )
    if constraints.min_tokens_per_s and task.is_prefill:
        raise InputError(
            f"{group.task} times first tokens alone, and a rate needs more new tokens",
            fix="`bench show` lists tasks with more",
        )


def _over_baseline(measurements: Measurements, standing: Standing) -> Estimate | None:
    shipped = standing.shipped
    if shipped is None or ranking.is_baseline(shipped):
        return None
    fitted = measurements.of(shipped.cell)
    assert fitted is not None
    names = [row.cell for row in standing.candidates]
    return selection.selected_ratio(fitted, shipped.cell, fitted.baseline, names, within=standing.tolerance)


def _as_fast(measurements: Measurements, standing: Standing, first: Row, alike: Sequence[str]) -> tuple[Row, ...]:
    """The contenders that may be as fast as the leading row, without that row and its twins."""
    assert standing.race is not None
    alpha = standing.race.alpha

    def is_behind(row: Row) -> bool:
        compared = measurements.between(row.cell, first.cell)
        if compared is None or compared.effect is None:
            return False
        return selection.lowest(compared.effect, alpha) > math.log1p(stats.NOISE_FLOOR)

    others = [row for row in standing.contenders if row.cell not in (first.cell, *alike)]
    return tuple(row for row in others if not is_behind(row))


def _faster(measurements: Measurements, lossy: Sequence[Row], shipped: Row | None) -> Row | None:
    """The first of some rows, which looks fastest, if it was shown to be faster than the shipped row."""
    first = next(iter(lossy), None)
    compared = measurements.between(first.cell, shipped.cell) if first and shipped else None
    is_faster = compared is not None and compared.ratio is not None and compared.ratio.high < 1 - stats.NOISE_FLOOR
    return first if is_faster else None


def _front(rows: Sequence[Row], first: Row, alike: Sequence[str]) -> tuple[Row, ...]:
    """The rows that no other covers, the fastest first.

    Args:
        rows: the rows, the fastest first.
        first: the row that stays, of those that differ by noise.
        alike: paths of the cells that count as equally fast.
    """

    def figures(row: Row) -> tuple[float, ...]:
        """Less is better, and a figure that is not known counts as the worst."""
        ratio = first.ratio if row.cell in alike else row.ratio
        values = (ratio, row.size_bytes, row.peak_rss_bytes, row.metric_loss)
        return tuple(math.inf if value is None else value for value in values)

    def covers(row: Row, other: Row) -> bool:
        *own, own_loss = figures(row)
        *its, its_loss = figures(other)
        keeps = own_loss <= its_loss + _LOSS_NOISE.of(first.metric_loss_unit)
        return keeps and all(mine <= beside * (1 + share) for mine, beside, share in zip(own, its, NOISE, strict=True))

    ordered = sorted(rows, key=lambda row: row is not first)
    cells = {ordered[index].cell for index in uncovered(ordered, covers)}
    return tuple(row for row in rows if row.cell in cells or row is first)
