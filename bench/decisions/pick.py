"""The choice of the cell to ship under constraints, which the data may not decide.

The contenders are the cells that qualify and that were not shown to be slower than the fastest cell by more than a
tolerance. A contender may be picked when it was shown to be no slower than any other contender by more than the
tolerance, with 95 % confidence over all contenders together. Among several such contenders the smallest file wins,
because file sizes are known exactly. When no contender may be picked, the data do not decide, and the choice names the
launches that would. See `bench.measure.selection`.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Sequence

from bench.api import sized
from bench.api.cell import Cell
from bench.api.errors import InputError
from bench.measure import selection
from bench.measure.comparison import Comparison
from bench.measure.questions import Aims
from bench.measure.selection import Selection, select
from bench.measure.stats import Estimate
from bench.records import ranking
from bench.records.measurements import Measurements
from bench.records.metric_loss import Lost
from bench.records.pareto import undominated
from bench.records.ranking import Group
from bench.records.rows import Row

FIRST_LAUNCHES = 6
"""Launches to ask for where there are too few launches to estimate how many would decide."""
WITHIN = Aims().within
"""A cell that is slower than the best by no more than this share is as good as the best."""
TOLERANCE = Aims().regret
"""Largest share by which the picked cell may be slower than the fastest cell, by default."""
MOST_LAUNCHES = 60
"""Largest number of launches that a choice asks for."""
METRIC = "--max-metric-drop"
RATE = "--min-tokens-per-s"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Constraints:
    """Limits that a deployment must keep to; None is no limit.

    Attributes:
        max_metric_loss: largest share of the reference's metric that may be lost, with 95 % confidence; of a row whose
            loss has no bound (see `Row.metric_loss_note`), largest share that its held-out samples lose.
        max_size_bytes: largest size of the file.
        max_memory_bytes: largest peak resident set of the process, its packages included.
        max_latency_ns: largest median latency.
        max_ttft_ns: largest median time to first token, of cells that generate text.
        min_tokens_per_s: least rate of output tokens after the first, likewise.
    """

    max_metric_loss: float | None = None
    max_size_bytes: int | None = None
    max_memory_bytes: int | None = None
    max_latency_ns: float | None = None
    max_ttft_ns: float | None = None
    min_tokens_per_s: float | None = None

    @property
    def is_of_generation(self) -> bool:
        """Whether a limit has a meaning for cells alone that generate text."""
        return self.max_ttft_ns is not None or self.min_tokens_per_s is not None

    def limits(self) -> dict[str, tuple[str, float]]:
        """By command-line option, the key of `Row` that it limits, and the limit."""
        found = {
            METRIC: ("metric_loss_high", self.max_metric_loss),
            "--max-size": ("size_bytes", self.max_size_bytes),
            "--max-memory": ("peak_rss_bytes", self.max_memory_bytes),
            "--max-latency": ("latency_p50_ns", self.max_latency_ns),
            "--max-ttft": ("ttft_ns", self.max_ttft_ns),
            RATE: ("latency_p50_ns", 1e9 / self.min_tokens_per_s if self.min_tokens_per_s else None),
        }
        return {option: (key, limit) for option, (key, limit) in found.items() if limit is not None}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Further:
    """The launches that would decide a choice.

    Attributes:
        cells: paths of the cells to launch, any of which may be the fastest.
        launches: number of launches of each cell, with its present ones; None where `MOST_LAUNCHES` are not enough.
    """

    cells: tuple[str, ...]
    launches: int | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice:
    """The cell to ship, or the launches that would decide.

    Attributes:
        group: all rows of the request.
        qualified: rows that meet the constraints, fastest first.
        front: qualified rows that no other row beats in latency, size, memory and metric at once.
        contenders: qualified rows that were not shown to be slower than the fastest row by more than the tolerance, the
            fastest first.
        picked: the row of the cell to ship; None when the data do not decide.
        num_sure: number of contenders, the picked row among them, that may be picked; the picked file is the smallest.
        regret: largest share by which the picked row may be slower than the fastest row; where no row was picked, the
            smallest such share of all contenders.
        over_baseline: the picked row's ratio to the baseline, with an interval that holds although the row was
            selected; None where no row was picked.
        equal: paths of the other cells that were shown to be as good as the best within `WITHIN`.
        untold: paths of the other cells that were neither shown to be as good nor shown to be slower by more.
        all_slower: whether every other qualified row was shown to be slower than the fastest by more than the
            tolerance.
        further: launches that would decide; None when a row was picked.
        too_few: see `too_few_samples`.
    """

    group: Group
    qualified: tuple[Row, ...]
    front: tuple[Row, ...]
    contenders: tuple[Row, ...]
    picked: Row | None
    num_sure: int
    regret: float
    over_baseline: Estimate | None
    equal: tuple[str, ...]
    untold: tuple[str, ...]
    all_slower: bool
    further: Further | None
    too_few: str | None = None


def choose(measurements: Measurements, rows: Sequence[Row], constraints: Constraints, *, tolerance: float) -> Choice:
    """Choose among rows of one request.

    Args:
        measurements: the model of the measurement, fitted to the records that the rows were made of.
        rows: the rows to choose among.
        constraints: the limits that the chosen cell must keep to.
        tolerance: largest share by which the picked cell may be slower than the fastest cell.

    Raises:
        InputError: the rows are of several requests, or no row meets the constraints; the message names the nearest
            figures.
    """
    groups = ranking.select(rows).groups
    if len(groups) != 1:
        raise InputError(f"choose among one request, not {len(groups)}: {'; '.join(group.title for group in groups)}")
    group = groups[0]
    if constraints.is_of_generation and not sized.is_generating(group.task):
        raise InputError(f"{group.task} generates no text: it has no time to first token and no rate of tokens")
    if constraints.min_tokens_per_s and sized.request_of(group.task)[1] == 1:
        raise InputError(f"{group.task} times first tokens alone; pick among cells with more new tokens")
    ranked = qualifying(group, Constraints())
    if not ranked:
        raise InputError(f"no cell of {group.title} has been timed and is right; `bench show` says why")
    qualified = qualifying(group, constraints)
    if not qualified:
        few = too_few_samples(measurements, group, constraints)
        raise InputError("; ".join(filter(None, (_none_qualifies(group, ranked, constraints), few))))
    race = selected(measurements, qualified, within=tolerance)
    by_cell = {row.cell: row for row in qualified}
    contenders = [by_cell[name] for name in (race.first, *race.rivals)]
    good = [row for row in contenders if race.regrets[row.cell] <= tolerance]
    picked = min(good, key=_preference) if good else None
    near = selected(measurements, qualified, within=WITHIN)
    named = picked.cell if picked else race.first
    others = [name for name in (near.first, *near.others) if name != named]
    equal = [name for name in others if near.regrets.get(name, math.inf) <= WITHIN]
    return Choice(
        group=group,
        qualified=tuple(qualified),
        front=tuple(qualified[index] for index in undominated([_figures(row) for row in qualified])),
        contenders=tuple(contenders),
        picked=picked,
        num_sure=len(good),
        regret=race.regrets[picked.cell] if picked else min(race.regrets.values()),
        over_baseline=_over_baseline(measurements, picked, qualified, tolerance) if picked else None,
        equal=tuple(equal),
        untold=tuple(name for name in others if name not in {*equal, *near.slower}),
        all_slower=len(race.slower) == len(race.others),
        further=None if picked else _further(measurements, contenders, race, tolerance),
        too_few=too_few_samples(measurements, group, constraints),
    )


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


def _over_baseline(measurements: Measurements, picked: Row, rows: Sequence[Row], tolerance: float) -> Estimate | None:
    fitted = measurements.of(picked.cell)
    assert fitted is not None
    names = [row.cell for row in rows]
    return selection.selected_ratio(fitted, picked.cell, fitted.baseline, names, within=tolerance)


def of_one_request(rows: Sequence[Row], batch: int | None, threads: int | None) -> list[Row]:
    """The rows of one batch and number of threads; where several remain, those with most timed rows.

    Args:
        rows: the rows of one task.
        batch: batch of the request; None for any batch.
        threads: number of threads of the request; None for any number.

    Raises:
        InputError: the rows are of several tasks, or no cell was timed and is right for that request.
    """
    tasks = sorted({row.task for row in rows})
    if len(tasks) > 1:
        raise InputError(f"pick for one task at a time; these cells are of {', '.join(tasks)}")
    timed = collections.Counter((row.batch, row.threads) for row in rows if ranking.is_ranked(row))
    fitting = {key: number for key, number in timed.items() if batch in (None, key[0]) and threads in (None, key[1])}
    if not fitting:
        known = ", ".join(f"--batch {one} --threads {other}" for one, other in sorted(timed)) or "none"
        raise InputError(f"no cell was timed and is right for that request; there are: {known}")
    chosen = max(fitting, key=lambda key: (fitting[key], -key[0], -key[1]))
    return [row for row in rows if (row.batch, row.threads) == chosen]


def qualifying(group: Group, constraints: Constraints) -> list[Row]:
    """The rows of a group that were timed, are right and keep to constraints, the fastest first."""
    # Over two baselines ratios have no common meaning.
    by = "ratio" if sum(map(ranking.is_baseline, group.rows)) < 2 else "latency_p50_ns"
    found = [row for row in group.rows if ranking.is_ranked(row) and row.ratio is not None]
    found = [row for row in found if all(_meets(row, *limit) for limit in constraints.limits().values())]
    return sorted(found, key=lambda row: (getattr(row, by), row.cell))


def too_few_samples(measurements: Measurements, group: Group, constraints: Constraints) -> str | None:
    """How many samples would show that cells keep the metric which lose no more than they may on those that there are.

    Args:
        measurements: has the records that the rows were made of.
        group: the rows to choose among.
        constraints: the limits, of which only that of the metric counts.

    Returns:
        A sentence without its full stop; None where there is no such cell.
    """
    limit = constraints.max_metric_loss
    if limit is None:
        return None
    unsure = [
        lost
        for row in group.rows
        if ranking.is_ranked(row) and not _meets(row, "metric_loss_high", limit)
        if row.metric_loss is not None and row.metric_loss <= limit
        if (quality := measurements.records[row.cell].quality) is not None and isinstance(lost := quality.lost, Lost)
    ]
    if not unsure:
        return None
    many = f"{len(unsure)} cell{'s' if len(unsure) > 1 else ''}"
    drop = _human("metric_loss", limit)
    part = [lost for lost in unsure if lost.is_part]
    if part and len(part) == len(unsure):
        return (
            f"{min(lost.num_samples for lost in part):,} samples of the held-out split are too few to say that {many} "
            f"would lose at most {drop} of the metric; `bench run --whole-split` runs all of them"
        )
    unsure = [lost for lost in unsure if not lost.is_part]
    enough = [number for lost in unsure if (number := lost.enough(limit)) is not None]
    many = f"{len(unsure)} cell{'s' if len(unsure) > 1 else ''}"
    best = " for the best of them" if len(unsure) > 1 else ""
    would = f"; about {_round_up(min(enough)):,} would do{best}" if enough else ""
    return (
        f"{unsure[0].num_samples:,} held-out samples are too few to say that {many} would lose at most "
        f"{drop} of the metric{would}"
    )


def _round_up(number: int) -> int:
    """The number with two significant digits, not below it."""
    unit = 10 ** max(0, len(str(number)) - 2)
    return -(-number // unit) * unit


def _meets(row: Row, key: str, limit: float) -> bool:
    value = _value(row, key)
    return value is not None and value <= limit


def _value(row: Row, key: str) -> float | None:
    """A figure of a row; in place of a bound that the metric's loss does not have, the loss itself."""
    value: float | None = getattr(row, key)
    return row.metric_loss if key == "metric_loss_high" and value is None else value


def _none_qualifies(group: Group, ranked: Sequence[Row], constraints: Constraints) -> str:
    """The message when no row meets all constraints: how many rows meet each alone, or else the nearest figure."""
    parts = []
    for option, (key, limit) in constraints.limits().items():
        number = sum(_meets(row, key, limit) for row in ranked)
        values = [value for row in ranked if (value := _value(row, key)) is not None]
        nearest = ""
        if not values:
            nearest = "; of none it was measured"
        elif not number:
            is_rate = option == RATE
            best = f"{1e9 / min(values):.4g} tokens/s" if is_rate else _human(key, min(values))
            nearest = f"; the {'most' if is_rate else 'least'} is {best}"
        parts.append(f"{option} {number} of {len(ranked)}{nearest}")
    return f"no cell of {group.title} meets all of it; alone, {', '.join(parts)}"


def _human(key: str, value: float) -> str:
    if key.endswith("_ns"):
        return f"{value / 1e6:.3g} ms"
    return f"{value / 1e6:.3g} MB" if key.endswith("_bytes") else f"{100 * value:.2g} %"


def _figures(row: Row) -> tuple[float, ...]:
    """The figures that the front is over; less is better, and a figure that is not known counts as the worst."""
    values = (row.ratio, row.size_bytes, row.peak_rss_bytes, row.metric_loss)
    return tuple(math.inf if value is None else value for value in values)


def _preference(row: Row) -> tuple[float, float, int, str]:
    """Among cells that are as good: the smallest file, the least memory, the fewest steps."""
    _, size, memory, _ = _figures(row)
    return (size, memory, len(Cell.from_path(row.cell).chain), row.cell)


def _further(measurements: Measurements, contenders: Sequence[Row], race: Selection, tolerance: float) -> Further:
    """The launches that would show that the fastest is no slower than any other by more than the tolerance."""
    fastest, *others = contenders
    open_to, more = [fastest], 0
    for row in others:
        found = measurements.between(fastest.cell, row.cell)
        is_sure = found is not None and found.effect and _is_within(found, race.alpha, tolerance)
        if is_sure and row.num_launches >= selection.LEAST_LAUNCHES:
            continue
        open_to.append(row)
        needed = _needed(found, race.alpha, tolerance)
        if needed is None:
            return Further(cells=tuple(row.cell for row in contenders), launches=None)
        more = max(more, needed - (found.num_launches if found else 0))
    # A cell that has them already is not launched again, and what counts is what they run side by side.
    most = max(row.num_launches for row in open_to)
    return Further(cells=tuple(row.cell for row in open_to), launches=max(most + more, selection.LEAST_LAUNCHES))


def _needed(found: Comparison | None, alpha: float, tolerance: float) -> int | None:
    """Launches after which a comparison would show that the fastest cell is within the tolerance of the other cell.

    The estimate assumes that further launches vary as the present ones do; None where `MOST_LAUNCHES` are not enough.
    """
    if found is None or found.effect is None:
        return FIRST_LAUNCHES
    number = max(1, found.num_launches)
    towards = dataclasses.replace(found.effect, value=min(0.0, found.effect.value))
    for launches in range(number + 1, max(number, MOST_LAUNCHES) + 2):
        if selection.highest(towards.after(launches / number), alpha) <= math.log1p(tolerance):
            return launches
    return None


def _is_within(found: Comparison, alpha: float, tolerance: float) -> bool:
    assert found.effect is not None
    return selection.highest(found.effect, alpha) <= math.log1p(tolerance)
