"""Which row of a request to ship at a tolerance: the outcome, without what is told about it.

The candidates are the cells that qualify; cells that run the same program are one. The contenders are those that were
not shown to be slower than the fastest by more than the tolerance. A contender may be shipped when it was shown to be
no slower than any other contender by more than the tolerance, with 95 % confidence over all contenders together; the
one that is shipped is the `winner`. Among several, the simplest stands for its twins, and of these the smallest file is
taken, of files of one size the least memory, and of these the simplest. Where there is no winner and no cell that
qualifies was shown to be faster than the baseline, which is the model as it is, the outcome is to `keep` that, with
the most that could be gained. Otherwise the data do not decide, and the outcome is `none`.
See `bench.measure.selection`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from bench.decisions import twins
from bench.decisions.constraints import Qualified
from bench.measure import selection
from bench.measure.selection import Selection, select
from bench.measure.stats import FASTER
from bench.records import ranking
from bench.records.measurements import Measurements
from bench.records.ranking import Group
from bench.records.rows import Row

WINNER, KEEP, NONE = "winner", "keep", "none"
_ALIKE = 0.1
"""Share by which a file or a process may be larger than the smallest and count as small: less is worth no step."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Standing:
    """The outcome for one request at a tolerance.

    Attributes:
        outcome: `winner`, `keep` or `none`.
        group: all rows of the request.
        tolerance: largest share by which a winner may be slower than the fastest cell that qualifies.
        qualified: the rows that meet the constraints, and those that do not.
        candidates: the rows that qualify, one of each program, the fastest first.
        contenders: candidates that were not shown to be slower than the fastest row by more than the tolerance, the
            fastest first.
        race: the selection that found them; None where no row qualifies.
        shipped: the row of the cell to ship; None where the outcome is `none`.
        num_sure: number of contenders that were shown to be fast enough; twins count once.
        regret: largest share by which the leading row may be slower than the fastest; infinite where that is not known.
        least_regret: the smallest such share of all contenders.
    """

    outcome: str
    group: Group
    tolerance: float
    qualified: Qualified
    candidates: tuple[Row, ...] = ()
    contenders: tuple[Row, ...] = ()
    race: Selection | None = None
    shipped: Row | None = None
    num_sure: int = 0
    regret: float = math.inf
    least_regret: float = math.inf

    @property
    def leading(self) -> Row | None:
        """The row to ship, or else the one that looks fastest."""
        return self.shipped or next(iter(self.contenders), None)


def standing(measurements: Measurements, group: Group, qualified: Qualified, tolerance: float) -> Standing:
    """The outcome for the rows of a request that qualify.

    Args:
        measurements: the model of the measurement, fitted to the records that the rows were made of.
        group: all rows of the request.
        qualified: the rows that meet the constraints.
        tolerance: largest share by which a winner may be slower than the fastest cell.
    """
    if not qualified.rows:
        return Standing(outcome=NONE, group=group, tolerance=tolerance, qualified=qualified)
    candidates = twins.different(measurements.records, qualified.rows)
    race = selected(measurements, candidates, within=tolerance)
    by_cell = {row.cell: row for row in candidates}
    contenders = [by_cell[name] for name in (race.first, *race.rivals)]
    sure = [row for row in contenders if race.regrets[row.cell] <= tolerance]
    sure = twins.simplest(measurements.records, sure)
    outcome, shipped, regret = NONE, None, race.regrets[race.first]
    if sure:
        outcome, shipped = WINNER, _preferred(sure)
        regret = race.regrets[shipped.cell]
    elif (fallback := _kept(measurements, qualified.rows, candidates, race)) is not None:
        outcome, (shipped, regret) = KEEP, fallback
    return Standing(
        outcome=outcome,
        group=group,
        tolerance=tolerance,
        qualified=qualified,
        candidates=tuple(candidates),
        contenders=tuple(contenders),
        race=race,
        shipped=shipped,
        num_sure=len(sure),
        regret=regret,
        least_regret=min(race.regrets.values()),
    )


def selected(measurements: Measurements, rows: Sequence[Row], *, within: float) -> Selection:
    """Select the fastest of some rows of one request, which are in order.

    A row that was timed beside another baseline than the first cannot be compared, so it stays a rival.
    """
    fitted = measurements.of(rows[0].cell)
    assert fitted is not None, "a row with a ratio was timed beside its baseline"
    race = select(fitted, [row.cell for row in rows], within=within)
    assert race is not None
    apart = [row.cell for row in rows if row.cell not in fitted.names]
    if not apart:
        return race
    regrets = dict.fromkeys((*race.regrets, *apart), math.inf)
    others = (*race.others, *apart)
    return dataclasses.replace(race, others=others, rivals=(*race.rivals, *apart), regrets=regrets)


def _kept(
    measurements: Measurements, rows: Sequence[Row], candidates: Sequence[Row], race: Selection
) -> tuple[Row, float] | None:
    """The baseline, if it is to be kept, and the largest share by which it may be slower than the fastest row.

    Args:
        measurements: the model of the measurement.
        rows: the rows that qualify.
        candidates: the same rows, one of each program.
        race: the selection among these.

    Returns:
        None where a row was shown to be faster, also if it is not known which, and where too few launches bound what
        could be gained.
    """
    baselines = [row for row in rows if ranking.is_baseline(row)]
    if len(baselines) != 1 or any(row.verdict == FASTER for row in rows):
        return None
    (baseline,) = baselines
    fitted = measurements.of(baseline.cell)
    own = {baseline.cell, *(row.cell for row in twins.same_program(measurements.records, baseline.cell, candidates))}
    others = [row.cell for row in candidates if row.cell not in own]
    if fitted is None or any(cell not in fitted.names for cell in others) or own.isdisjoint((race.first, *race.rivals)):
        return None
    regret = selection.regret(fitted, baseline.cell, others)
    return (baseline, regret) if math.isfinite(regret) else None


def _preferred(good: Sequence[Row]) -> Row:
    """Of cells that are as good, the simplest of the smallest and of the least memory, up to `_ALIKE`."""
    for key in ("size_bytes", "peak_rss_bytes"):
        values = {row.cell: math.inf if (value := getattr(row, key)) is None else value for row in good}
        least = min(values.values())
        good = [row for row in good if values[row.cell] <= least * (1 + _ALIKE)]
    return min(good, key=lambda row: twins.simplicity(row.cell))
