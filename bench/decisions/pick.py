"""The outcome for one request: the cell to ship under constraints, or what is missing to choose one.

The contenders are the cells that qualify and that were not shown to be slower than the fastest cell by more than a
tolerance. A contender may be shipped when it was shown to be no slower than any other contender by more than the
tolerance, with 95 % confidence over all contenders together; the one that is shipped is the `winner`. Among several,
the smallest file is taken, of files of one size the least memory, and of these the simplest. Where there is no winner
and no cell that qualifies was shown to be faster than the baseline, which is the model as it is, the outcome is to
`keep` that. Otherwise the data do not decide, the outcome is `none`, and the launches are named that would decide. See
`bench.measure.selection`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from bench.api import sized
from bench.api.errors import InputError
from bench.decisions import constraints as limiting
from bench.decisions import twins
from bench.decisions.constraints import TOLERANCE as TOLERANCE
from bench.decisions.constraints import Constraints, Qualified
from bench.decisions.further import Further, further
from bench.measure import selection, stats
from bench.measure.questions import Aims
from bench.measure.selection import Selection, select
from bench.measure.stats import FASTER, Estimate
from bench.records import ranking
from bench.records.measurements import Measurements
from bench.records.pareto import uncovered
from bench.records.ranking import Group
from bench.records.rows import Row

WINNER, KEEP, NONE = "winner", "keep", "none"
WITHIN = Aims().within
"""A cell that is slower than the best by no more than this share is as good as the best."""
ALIKE = 0.1
"""Share by which a file or a process may be larger than the smallest and count as small: less is worth no step."""
NOISE = (WITHIN, 0.01, 0.05, 0.001)
"""Differences that count as none on the front: shares of the latency, of the size of the file and of the memory, and of
the metric that is lost."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice:
    """The outcome for one request.

    Attributes:
        outcome: `winner`, `keep` or `none`.
        group: all rows of the request.
        tolerance: largest share by which a winner may be slower than the fastest cell that qualifies.
        qualified: the rows that meet the constraints, and those that do not.
        front: qualified rows that no other row covers in latency, size, memory and metric at once, up to `NOISE`; one
            row of each set of twins.
        contenders: qualified rows that were not shown to be slower than the fastest row by more than the tolerance, the
            fastest first; one row of each set of twins.
        twins: by path of a cell that qualifies and stands for its twins, their paths; see `bench.decisions.twins`.
        shipped: the row of the cell to ship; None where the outcome is `none`.
        num_sure: number of contenders that were shown to be fast enough.
        regret: largest share by which the shipped row may be slower than the fastest; of the outcome `none`, the
            smallest such share of all contenders, infinite without any.
        least_regret: the smallest such share of all contenders.
        over_baseline: a winner's ratio to the baseline, with an interval that holds although the row was selected;
            None for the baseline itself, and where there is no winner.
        all_slower: whether every other qualified row was shown to be slower than the fastest by more than the
            tolerance.
        further: launches that would find a winner; None where there is one, and where no row qualifies.
        lacking: why no row qualifies; None where one does.
        too_few: see `constraints.too_few_samples`.
        faster: the fastest of the rows that were shown to be faster than the shipped one and may lose too much of the
            metric; None where there is none.
    """

    outcome: str
    group: Group
    tolerance: float
    qualified: Qualified
    front: tuple[Row, ...] = ()
    contenders: tuple[Row, ...] = ()
    twins: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    shipped: Row | None = None
    num_sure: int = 0
    regret: float = math.inf
    least_regret: float = math.inf
    over_baseline: Estimate | None = None
    all_slower: bool = False
    further: Further | None = None
    lacking: str | None = None
    too_few: str | None = None
    faster: Row | None = None

    @property
    def leading(self) -> Row | None:
        """The row to ship, or else the one that looks fastest."""
        return self.shipped or next(iter(self.contenders), None)

    @property
    def others(self) -> list[Row]:
        """The contenders beside the leading row: they may be as fast."""
        first = self.leading
        return [row for row in self.contenders if first and first.cell not in (row.cell, *self.twins[row.cell])]

    @property
    def gain(self) -> float:
        """The largest share of its latency that the shipped row may take longer than the fastest."""
        return 1 - 1 / (1 + self.regret)


def choose(measurements: Measurements, rows: Sequence[Row], constraints: Constraints, *, tolerance: float) -> Choice:
    """Choose among rows of one request.

    Args:
        measurements: the model of the measurement, fitted to the records that the rows were made of.
        rows: the rows to choose among.
        constraints: the limits that the chosen cell must keep to.
        tolerance: largest share by which a winner may be slower than the fastest cell.

    Raises:
        InputError: the rows are of several requests, or a constraint has no meaning for them.
    """
    group = _only_group(rows)
    _check(group, constraints)
    found = limiting.qualified(measurements, group, constraints, tolerance=tolerance)
    too_few = limiting.too_few_samples(measurements, found, constraints)
    if not found.rows:
        why = f"no cell of {group.title} was timed and is right"
        if found.ranked:
            why = "; ".join(filter(None, (limiting.none_qualifies(group, found, constraints), too_few)))
        return Choice(outcome=NONE, group=group, tolerance=tolerance, qualified=found, lacking=why, too_few=too_few)
    alike = twins.simplest(measurements, found.rows, within=tolerance)
    candidates = [row for row in found.rows if row.cell in alike]
    race = selected(measurements, candidates, within=tolerance)
    by_cell = {row.cell: row for row in candidates}
    contenders = [by_cell[name] for name in (race.first, *race.rivals)]
    good = [row for row in contenders if race.regrets[row.cell] <= tolerance]
    regret = least_regret = min(race.regrets.values())
    outcome, shipped = NONE, None
    if good:
        outcome, shipped = WINNER, _preferred(good)
        regret = race.regrets[shipped.cell]
    elif (kept := _kept(measurements, found.rows, alike)) is not None:
        outcome, (shipped, regret) = KEEP, kept
    return Choice(
        outcome=outcome,
        group=group,
        tolerance=tolerance,
        qualified=found,
        front=_front([row for row in found.rows if row.cell in alike or row is shipped], shipped),
        contenders=tuple(contenders),
        twins=alike,
        shipped=shipped,
        num_sure=len(good),
        regret=regret,
        least_regret=least_regret,
        over_baseline=_over_baseline(measurements, shipped, candidates, tolerance) if outcome == WINNER else None,
        all_slower=bool(race.others) and len(race.slower) == len(race.others),
        further=None if outcome == WINNER else further(measurements, contenders, race, tolerance),
        too_few=too_few,
        faster=_faster(measurements, found.lossy, shipped),
    )


def _only_group(rows: Sequence[Row]) -> Group:
    groups = ranking.select(rows).groups
    if len(groups) != 1:
        raise InputError(f"choose among one request, not {len(groups)}: {'; '.join(group.title for group in groups)}")
    return groups[0]


def _check(group: Group, constraints: Constraints) -> None:
    if constraints.is_of_generation and not sized.is_generating(group.task):
        raise InputError(f"{group.task} generates no text: it has no time to first token and no rate of tokens")
    if constraints.min_tokens_per_s and sized.request_of(group.task)[1] == 1:
        raise InputError(f"{group.task} times first tokens alone; pick among cells with more new tokens")


def selected(measurements: Measurements, rows: Sequence[Row], *, within: float) -> Selection:
    """Select the fastest of some rows of one request, which are in order.

    A row that was timed beside another baseline than the first cannot be compared, so it stays a rival.
    """
    fitted = measurements.of(rows[0].cell)
    assert fitted is not None, "a row with a ratio was timed beside its baseline"
    found = select(fitted, [row.cell for row in rows], within=within)
    assert found is not None
    apart = [row.cell for row in rows if row.cell not in fitted.names]
    if not apart:
        return found
    regrets = dict.fromkeys((*found.regrets, *apart), math.inf)
    others = (*found.others, *apart)
    return dataclasses.replace(found, others=others, rivals=(*found.rivals, *apart), regrets=regrets)


def _kept(
    measurements: Measurements, rows: Sequence[Row], alike: Mapping[str, tuple[str, ...]]
) -> tuple[Row, float] | None:
    """The baseline, if it is to be kept, and the largest share by which it may be slower than the fastest row.

    Args:
        measurements: the model of the measurement.
        rows: the rows that qualify.
        alike: the cells that stand for their twins, and these.
    """
    baselines = [row for row in rows if ranking.is_baseline(row)]
    if len(baselines) != 1 or any(row.verdict == FASTER for row in rows):
        return None
    (baseline,) = baselines
    fitted = measurements.of(baseline.cell)
    own = next(cells for one, more in alike.items() if baseline.cell in (cells := {one, *more}))
    others = [cell for cell in alike if cell not in own]
    if fitted is None or any(cell not in fitted.names for cell in others):
        return None
    alpha = stats.ALPHA / max(1, len(others))
    highest = [selection.highest(fitted.effect(baseline.cell, cell), alpha) for cell in others]
    return baseline, max([0.0, *(stats.exp(one) - 1 for one in highest)])


def _over_baseline(
    measurements: Measurements, shipped: Row | None, rows: Sequence[Row], tolerance: float
) -> Estimate | None:
    if shipped is None or ranking.is_baseline(shipped):
        return None
    fitted = measurements.of(shipped.cell)
    assert fitted is not None
    names = [row.cell for row in rows]
    return selection.selected_ratio(fitted, shipped.cell, fitted.baseline, names, within=tolerance)


def _faster(measurements: Measurements, lossy: Sequence[Row], shipped: Row | None) -> Row | None:
    """The fastest of some rows, if it was shown to be faster than the shipped row."""
    first = next(iter(lossy), None)
    compared = measurements.between(first.cell, shipped.cell) if first and shipped else None
    is_faster = compared is not None and compared.ratio is not None and compared.ratio.high < 1 - stats.NOISE_FLOOR
    return first if is_faster else None


def _figures(row: Row) -> tuple[float, ...]:
    """The figures that the front is over; less is better, and a figure that is not known counts as the worst."""
    values = (row.ratio, row.size_bytes, row.peak_rss_bytes, row.metric_loss)
    return tuple(math.inf if value is None else value for value in values)


def _front(rows: Sequence[Row], shipped: Row | None) -> tuple[Row, ...]:
    """The rows that no other covers, and the shipped row, the fastest first."""

    def covers(one: Row, other: Row) -> bool:
        pairs = zip(_figures(one), _figures(other), NOISE, strict=True)
        *shares, (own_loss, other_loss, noise) = pairs
        return own_loss <= other_loss + noise and all(own <= its * (1 + share) for own, its, share in shares)

    ordered = sorted(rows, key=lambda row: row is not shipped)  # of those that differ by noise, the shipped row stays
    found = {ordered[index].cell for index in uncovered(ordered, covers)}
    return tuple(row for row in rows if row.cell in found or row is shipped)


def _preferred(good: Sequence[Row]) -> Row:
    """Of cells that are as good, the simplest of the smallest files and of these of the least memory, up to `ALIKE`."""
    for key in ("size_bytes", "peak_rss_bytes"):
        values = {row.cell: math.inf if (value := getattr(row, key)) is None else value for row in good}
        least = min(values.values())
        good = [row for row in good if values[row.cell] <= least * (1 + ALIKE)]
    return min(good, key=lambda row: twins.simplicity(row.cell))
