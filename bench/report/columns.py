"""Columns of a table of rows, with one unit for a whole task, and the sentences below the table."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import statistics
from collections.abc import Iterable, Sequence

from bench.api.loss_units import DB
from bench.api.printable import printable
from bench.records.columns import COUNT, ColumnSpec, Steps, Unit
from bench.records.parameters import SOURCE
from bench.records.ranking import Group, Selection, is_baseline, short_name
from bench.records.rows import COLUMNS, Row
from bench.report.writing import DASH, one_line

_DEFAULT_COLUMNS = (
    *("cell", "latency_p50_ns", "ratio", "verdict"),
    *("precision", "model_rss_bytes", "size_bytes", "num_params", "metric", "metric_loss_high", "fidelity"),
)
WRAPPED = ("reason", "same_as", "placement", "warning")
"""Keys of long texts, which a terminal wraps."""
_WIDEST_TEXT = 32
"""Characters of such a text on a line of a terminal, where there is no room for more."""
_BREAKS = re.compile(r" (?![^\[(]*[\])])")
"""A blank at which a title may be broken: not one within brackets."""
_OF_SOURCE = "*"
"""Behind a number of parameters that was not counted in the row's own file."""
_OF_SOURCE_MEANS = "*: parameters of the source, for they cannot be counted in the file."
_INTERVAL = " [95 %]"
"""The end of the title of a column whose figures have intervals."""
TEXT = {"notes", *(column.key for column in COLUMNS.values() if column.type is str)}
"""Keys of columns of texts, which are aligned to the left."""


def scale(values: Iterable[float], steps: Steps) -> tuple[float, str]:
    """The factor and the name of the unit in which the median of the values reads best."""
    known = [abs(value) for value in values if value and math.isfinite(value)]
    middle = statistics.median(known) if known else 0.0
    return max((step for step in steps if step[0] <= middle), default=steps[0])


def unit_of(key: str, rows: Iterable[Row]) -> tuple[float, str]:
    """The factor and the name of the unit in which the values of a row's key read best."""
    return scale((getattr(row, key) or 0 for row in rows), COLUMNS[key].unit.steps or COUNT[:1])


@dataclasses.dataclass(frozen=True)
class Column:
    """A column's key, its title with the unit, and a text for each row of the group."""

    key: str
    title: str
    values: tuple[str, ...]

    @property
    def is_text(self) -> bool:
        """Whether the values are texts, which are aligned to the left, and not figures."""
        return self.key in TEXT

    @property
    def is_unknown(self) -> bool:
        """Whether no row has a value."""
        return set(self.values) == {DASH}

    @property
    def has_interval(self) -> bool:
        """Whether the figures have intervals."""
        return self.title.endswith(_INTERVAL)

    def without_interval(self) -> Column:
        """The column without its intervals."""
        values = tuple(value.partition(" [")[0].rstrip() for value in self.values)
        return dataclasses.replace(self, title=self.title.removesuffix(_INTERVAL), values=values)

    def aligned(self) -> Column:
        """The column with its figures below one another, whether they have an interval or not."""
        room = max((len(value) - value.index(" [") for value in self.values if " [" in value), default=0)
        values = tuple(value if " [" in value or self.is_text else value + " " * room for value in self.values)
        return dataclasses.replace(self, values=values)

    @functools.cached_property
    def heading(self) -> tuple[str, ...]:
        """The title on one line, or on two that are as even as they can be where it is wider than the values."""
        blanks = [match.start() for match in _BREAKS.finditer(self.title)]
        if not blanks or len(self.title) <= max(map(len, self.values), default=0):
            return (self.title,)
        middle = min(blanks, key=lambda blank: max(blank, len(self.title) - blank - 1))
        return self.title[:middle], self.title[middle + 1 :]

    @functools.cached_property
    def width(self) -> int:
        """Width in characters in a terminal's table; longer texts of some columns are wrapped at `_WIDEST_TEXT`."""
        values = max(map(len, self.values), default=0)
        return max(*map(len, self.heading), min(values, _WIDEST_TEXT) if self.key in WRAPPED else values)


def columns_of(group: Group, selection: Selection, *, notes: bool) -> list[Column]:
    """The columns that the selection asks for, or the default columns where it asks for none.

    Args:
        group: the group that the columns are for; each column has a text for each row of the group.
        selection: all groups, and the keys of the columns.
        notes: whether a column of reasons and warnings follows the default columns.
    """
    # A task has one unit for each column, so that its groups can be compared with one another.
    task = [row for row in selection.rows if row.task == group.task]
    numbers = tuple(str(group.numbers.get(row.cell, "")) for row in group.rows)
    keys = (*(selection.columns or _DEFAULT_COLUMNS), *(["notes"] if notes and selection.columns is None else []))
    return [Column("#", "#", numbers), *(_column(key, group, task) for key in keys)]


def _column(key: str, group: Group, task: Sequence[Row]) -> Column:
    if key in TEXT:
        title = COLUMNS[key].title if key in COLUMNS else key
        return Column(key, title, tuple(_text(key, row, group) for row in group.rows))
    spec = COLUMNS[key]
    factor, decimals, unit = _scaled(spec, task)
    values = []
    for row in group.rows:
        value = _number(getattr(row, key), factor, decimals)
        if key == "num_params" and row.num_params_from == SOURCE:
            value += _OF_SOURCE
        if spec.brackets:
            low, high = (_number(getattr(row, end), factor, decimals) for end in spec.brackets)
            if DASH not in (value, low, high) and not (key == "ratio" and low == high):
                value = f"{value} [{low}, {high}]"
        values.append(value)
    title = spec.title + (f" ({unit})" if unit else "")
    return Column(key, title + (_INTERVAL if any("[" in value for value in values) else ""), tuple(values))


def _scaled(spec: ColumnSpec, task: Sequence[Row]) -> tuple[float, int, str]:
    """The factor of a column's unit, the decimals (-1: for each value its own), and the name of the unit."""
    if spec.unit.steps:
        factor, unit = unit_of(spec.like, task)
        return factor, _decimals([getattr(row, spec.like) / factor for row in task if getattr(row, spec.like)]), unit
    if spec.unit is Unit.SHARE:
        return 0.01, spec.decimals, "%"
    if spec.unit is Unit.LOSS:
        return (1.0, 4, "dB") if any(row.metric_loss_unit == DB for row in task) else (0.01, 3, "%")
    if spec.unit is Unit.RATIO:
        return 1.0, max(3, _decimals([row.ratio for row in task if row.ratio], digits=1)), ""
    names = {row.metric_name for row in task if row.metric_name} if spec.key == "metric" else set()
    return 1.0, -1, printable(names.pop()) if len(names) == 1 else ""


def with_bound(columns: Sequence[Column]) -> list[Column]:
    """The columns with the bound on what is lost of the metric behind the metric, such as `0.9877 (0.446)`."""
    bound = next((column for column in columns if column.key == "metric_loss_high"), None)
    metric = next((column for column in columns if column.key == "metric"), None)
    if bound is None or metric is None:
        return [*columns]
    ends = [f"({value})" if value != DASH else "" for value in bound.values]
    room = max(map(len, ends), default=0)
    both = Column(
        metric.key,
        f"{metric.title} ({bound.title.replace('(', '').replace(')', '')})",
        tuple(
            f"{value} {end:>{room}}" if value != DASH else DASH for value, end in zip(metric.values, ends, strict=True)
        ),
    )
    return [both if column is metric else column for column in columns if column is not bound]


def _decimals(values: Sequence[float], digits: int = 4) -> int:
    """The number of decimals that gives the median `digits` significant digits, and the smallest value two."""
    known = [abs(value) for value in values if value and math.isfinite(value)]
    if not known:
        return 0
    middle, least = (math.floor(math.log10(value)) for value in (statistics.median(known), min(known)))
    return min(6, max(0, digits - 1 - middle, 1 - least))


def _number(value: float | None, factor: float, decimals: int) -> str:
    if value is None:
        return DASH
    if isinstance(value, int) and factor == 1.0:
        return f"{value:,}"
    if decimals < 0:  # a figure of its own, to four significant digits
        if value and math.isfinite(value) and abs(value) < 1e-3:
            return f"{value:.3e}"
        decimals = _decimals([value])
    return f"{value / factor:.{decimals}f}"


def _text(key: str, row: Row, group: Group) -> str:
    if key == "cell":
        return short_name(row)
    if key == "verdict":
        return verdict_of(row, group)
    value = notes_of(row, group) if key == "notes" else getattr(row, key)
    return one_line(value) if value else ("" if key == "notes" else DASH)


def verdict_of(row: Row, group: Group) -> str:
    """The verdict on a row, or its status where it has none, in one or two words."""
    if row.status == "ok" and row.same_as is not None:
        return f"same as {group.numbers[row.same_as]}" if row.same_as in group.numbers else "same"
    return outcome_of(row) or DASH


def outcome_of(row: Row) -> str | None:
    """One word or a few for the status and the verdict of a row; None where there is no verdict."""
    if row.status != "ok":
        return row.status
    if row.same_as is not None:
        return "same as another"
    if row.fidelity == "broken":
        return "broken"
    if row.untimed is not None:
        return "not timed"
    return "baseline" if is_baseline(row) else row.verdict


def notes_of(row: Row, group: Group) -> str:
    """The reason why a row has no figures, or a warning about its figures; empty where there is neither."""
    if row.same_as is not None and row.same_as not in group.numbers:
        return f"the same graph and weights as {row.same_as}"
    if row.status == "ok" and row.fidelity == "broken":
        return row.reason or "its outputs are too far from the reference"
    return row.reason or "; ".join(filter(None, (row.untimed, row.warning, row.num_params_note)))


def caption(group: Group, columns: Iterable[Column]) -> str:
    """The baseline, the A/A control and the number of launches of a group, in plain sentences.

    Args:
        group: the group.
        columns: the columns that are shown.
    """
    return " ".join([_caption(group), *([_OF_SOURCE_MEANS] if is_marked(columns) else [])])


def is_marked(columns: Iterable[Column]) -> bool:
    """Whether the columns show a number of parameters that was not counted in the row's own file."""
    return any(
        value.endswith(_OF_SOURCE) for column in columns if column.key == "num_params" for value in column.values
    )


def _caption(group: Group) -> str:
    ranked = [row for row in group.rows if row.cell in group.numbers and row.num_launches]
    if not ranked:
        return "Nothing was timed."
    baselines = [row for row in group.rows if is_baseline(row)]
    names = "; ".join(short_name(row) for row in baselines)
    is_elsewhere = any(row.ratio is not None for row in ranked)
    missing = "The baseline is not among these rows." if is_elsewhere else "The baseline was not timed."
    parts = [f"Baseline{'s' if len(baselines) > 1 else ''}: {names}." if names else missing]
    spans = controls(baselines or ranked)
    if not spans and is_elsewhere:
        parts.append("No alarm is possible: fewer than three blocks held the baseline's second copy.")
    else:
        parts.append(f"The baseline's second copy over its first, truly 1: {'; '.join(spans) or 'not measured'}.")
    parts.append(f"{launches(ranked)} of each cell; brackets: 95 % interval of each row alone.")
    compared = dict.fromkeys((row.metric_name, row.judged_as) for row in ranked if row.judged_as)
    parts += [f"Judged by {name}: {judged_as}." for name, judged_as in compared]
    if any(row.metric_loss_high is not None for row in ranked):
        taken = "".join(f"; by convention, {convention}" for convention in conventions(ranked))
        what = "the most dB" if any(row.metric_loss_unit == DB for row in ranked) else "the largest share"
        parts.append(f"Max drop: {what} of the metric that may be lost, with 95 % confidence{taken}.")
    if counts_of_part := [row.metric_samples for row in ranked if row.metric_samples is not None]:
        fewest = min(counts_of_part)
        cells = f"{len(counts_of_part)} cell{'s' if len(counts_of_part) > 1 else ''}"
        parts.append(
            f"Metric: of {cells} by the first {fewest:,} held-out samples or more; --whole-split runs them all."
        )
    reasons = dict.fromkeys(row.metric_loss_note for row in ranked if row.metric_loss_note)
    parts += [f"No bound on the lost metric: {reason}." for reason in reasons]
    return " ".join(parts)


def controls(rows: Iterable[Row]) -> list[str]:
    """The intervals of the A/A control that rows have, such as `0.991 to 1.012`."""
    floors = dict.fromkeys((row.aa_low, row.aa_high) for row in rows if row.aa_low and row.aa_high)
    return [f"{low:.3f} to {high:.3f}" for low, high in floors if low is not None and high is not None]


def launches(ranked: Iterable[Row]) -> str:
    """The numbers of launches of rows, such as `3 to 5 launches`."""
    counts = sorted({row.num_launches for row in ranked})
    if len(counts) > 1:
        return f"{counts[0]} to {counts[-1]} launches"
    return f"{counts[0]} launch{'' if counts[0] == 1 else 'es'}"


def conventions(ranked: Iterable[Row]) -> list[str]:
    """What bounds on the lost metric take for granted."""
    return [one_line(convention) for convention in dict.fromkeys(row.convention for row in ranked) if convention]
