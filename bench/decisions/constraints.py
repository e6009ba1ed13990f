"""What a deployment must keep to, and the rows of a request that do."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from bench.api import loss_units
from bench.api.cell import Cell
from bench.api.loss_units import AllowedLoss
from bench.decisions import open_sizes
from bench.measure.questions import Aims
from bench.pipeline import rounding
from bench.records import metric_loss, ranking
from bench.records.measurements import Measurements
from bench.records.metric_loss import Lost
from bench.records.ranking import Group
from bench.records.rows import Row

TOLERANCE = Aims().regret
"""Largest share by which a deployment that is shipped may be slower than the fastest, by default."""
METRIC, METRIC_KEY = "--max-metric-drop", "metric_loss_high"
"""The option that limits the loss of the metric, and the key of `Row` that it limits."""
RATE = "--min-tokens-per-s"
_LEAST_MB = 1e5
"""Bytes from which a size is told in megabytes, as the tables do; a smaller one in kilobytes."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Constraints:
    """Limits that a deployment must keep to; None is no limit.

    Attributes:
        max_metric_loss: the most that may be lost of the reference's metric, with 95 % confidence for all cells
            together that may be shipped; of a row whose loss has no bound (see `Row.metric_loss_note`), the most that
            its held-out samples lose.
        max_size_bytes: largest size of the file.
        max_memory_bytes: largest peak resident set of the process, its packages included.
        max_latency_ns: largest median latency.
        max_ttft_ns: largest median time to first token, of cells that generate text.
        min_tokens_per_s: least rate of output tokens after the first, likewise.
    """

    max_metric_loss: AllowedLoss | None = None
    max_size_bytes: int | None = None
    max_memory_bytes: int | None = None
    max_latency_ns: float | None = None
    max_ttft_ns: float | None = None
    min_tokens_per_s: float | None = None

    @property
    def is_of_generation(self) -> bool:
        """Whether a limit has a meaning for cells alone that generate text."""
        return self.max_ttft_ns is not None or self.min_tokens_per_s is not None

    def limits(self, unit: str | None = None) -> dict[str, tuple[str, float]]:
        """By command-line option, the key of `Row` that it limits, and the limit.

        Args:
            unit: that in which a loss of the metric is told, see `unit_of`.
        """
        options = {
            METRIC: (METRIC_KEY, None if self.max_metric_loss is None else self.max_metric_loss.of(unit)),
            "--max-size": ("size_bytes", self.max_size_bytes),
            "--max-memory": ("peak_rss_bytes", self.max_memory_bytes),
            "--max-latency": ("latency_p50_ns", self.max_latency_ns),
            "--max-ttft": ("ttft_ns", self.max_ttft_ns),
            RATE: ("latency_p50_ns", 1e9 / self.min_tokens_per_s if self.min_tokens_per_s else None),
        }
        return {option: (key, limit) for option, (key, limit) in options.items() if limit is not None}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Qualified:
    """The rows of a request that may be shipped, and what the others lack.

    Attributes:
        ranked: the rows that were timed and are right, the fastest first.
        rows: those of them that keep to all constraints.
        alpha: probability of error at which the loss of each lossy row was held against the limit; see
            `metric_loss.level`.
        lossy: rows that keep to all constraints but that of the metric.
        of_guessed_sizes: rows whose file takes sizes alone that nobody named; see `bench.decisions.open_sizes`.
    """

    ranked: Sequence[Row]
    rows: Sequence[Row]
    alpha: float
    lossy: Sequence[Row]
    of_guessed_sizes: Sequence[Row]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Eligible:
    """What the constraints say of a request's rows, whatever the tolerance; see `qualified`.

    Attributes:
        ranked: the rows that were timed and are right, the fastest first.
        rows: those of them that keep to all constraints but that of the metric, and take any size.
        of_guessed_sizes: see `Qualified`.
        max_metric_loss: see `Constraints`.
        lost: by cell, what the samples lose of those of `rows` that do not claim to lose nothing.
        by: the key of `Row` that ranks.
    """

    ranked: Sequence[Row]
    rows: Sequence[Row]
    of_guessed_sizes: Sequence[Row]
    max_metric_loss: AllowedLoss | None
    lost: Mapping[str, Lost]
    by: str

    def within(self, tolerance: float) -> Qualified:
        """The rows that qualify at a tolerance; see `qualified`."""
        cells, alpha = {row.cell for row in self.rows}, metric_loss.ALPHA
        if (allowed := self.max_metric_loss) is not None:
            limit = allowed.of(unit_of(self.rows))
            cells = {row.cell for row in self.rows if row.cell not in self.lost and _meets(row, METRIC_KEY, limit)}
            fastest = min((getattr(row, self.by) for row in self.rows if row.cell in cells), default=math.inf)
            near = [
                self.lost[row.cell]
                for row in self.rows
                if row.cell in self.lost and getattr(row, self.by) <= (1 + tolerance) * fastest
            ]
            alpha = metric_loss.level([lost for lost in near if lost.may_be_shown(limit)], limit)
            cells |= {cell for cell, lost in self.lost.items() if lost.high(alpha=alpha) <= limit}
        rows, lossy = ([row for row in self.rows if (row.cell in cells) == is_kept] for is_kept in (True, False))
        return Qualified(
            ranked=self.ranked, rows=rows, alpha=alpha, lossy=lossy, of_guessed_sizes=self.of_guessed_sizes
        )


def qualified(
    measurements: Measurements, group: Group, constraints: Constraints, *, tolerance: float = TOLERANCE
) -> Qualified:
    """The rows of a request that keep to constraints.

    Args:
        measurements: has the records that the rows were made of.
        group: the rows of the request.
        constraints: the limits.
        tolerance: largest share by which a row that is shipped may be slower than the fastest. A slower row cannot be
            shipped, so it takes no part of the probability of error; neither does a row that claims to lose nothing,
            for its outputs were held to what rounding explains.
    """
    return eligible(measurements, group, constraints).within(tolerance)


def eligible(measurements: Measurements, group: Group, constraints: Constraints) -> Eligible:
    """The part of `qualified` that does not depend on the tolerance."""
    # Over two baselines ratios have no common meaning.
    by = "ratio" if sum(map(ranking.is_baseline, group.rows)) < 2 else "latency_p50_ns"
    ranked = sorted(
        (row for row in group.rows if ranking.is_ranked(row) and row.ratio is not None),
        key=lambda row: (getattr(row, by), row.cell),
    )
    left_out = open_sizes.of_guessed_sizes(group.task_name, [row.cell for row in ranked])
    limits = {option: limit for option, limit in constraints.limits(None).items() if option != METRIC}
    rows = [row for row in ranked if row.cell not in left_out and all(_meets(row, *limit) for limit in limits.values())]
    return Eligible(
        ranked=ranked,
        rows=rows,
        of_guessed_sizes=[row for row in ranked if row.cell in left_out],
        max_metric_loss=constraints.max_metric_loss,
        lost=losses_of_lossy(measurements, rows) if constraints.max_metric_loss is not None else {},
        by=by,
    )


def losses_of_lossy(measurements: Measurements, rows: Collection[Row]) -> dict[str, Lost]:
    """By cell, what the samples lose of those rows that do not claim to lose nothing."""
    return {
        row.cell: lost
        for row, lost in losses(measurements, rows)
        if rounding.is_lossy(Cell.from_path(row.cell), row.precision)
    }


def losses(measurements: Measurements, rows: Collection[Row]) -> Iterator[tuple[Row, Lost]]:
    """What the samples of each row lose; without rows that lose nothing, or whose loss has no bound."""
    for row in rows:
        quality = measurements.records[row.cell].quality
        if row.metric_loss_high and quality is not None and isinstance(quality.lost, Lost):
            yield row, quality.lost


def unit_of(rows: Collection[Row]) -> str | None:
    """The unit in which a loss of the metric is told of rows of one task; None where none has a metric.

    It is one: rows of another version of the task are outdated, and not ranked beside the others.
    """
    return next((row.metric_loss_unit for row in rows if row.metric_loss_unit is not None), None)


def human(key: str, value: float, unit: str | None) -> str:
    """A value of a row's key, in the unit that people use; that of a loss of the metric has a unit of its own."""
    if key.endswith("_ns"):
        return f"{value / 1e6:.3g} ms"
    if key.endswith("_bytes"):
        return f"{value / 1e6:.3g} MB" if value >= _LEAST_MB else f"{value / 1e3:.3g} kB"
    return loss_units.text(value, unit)


def _meets(row: Row, key: str, limit: float) -> bool:
    value = figure(row, key)
    return value is not None and value <= limit


def figure(row: Row, key: str) -> float | None:
    """A figure of a row; in place of a bound that the metric's loss does not have, the loss itself."""
    value: float | None = getattr(row, key)
    return row.metric_loss if key == METRIC_KEY and value is None else value
