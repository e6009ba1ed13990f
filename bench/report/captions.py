"""Sentences below a terminal's tables, in a few words each; `bench.report.columns.caption` has whole ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.measure.stats import ALPHA, FASTER, NOISE, SLOWER
from bench.records.ranking import Group, is_baseline
from bench.records.rows import Row
from bench.report.columns import Column, controls, conventions, is_marked, launches
from bench.report.names import Names
from bench.report.writing import one_line

_GUIDE = "docs/reading-the-table.md"


def brief(group: Group, names: Names, columns: Iterable[Column]) -> str:
    """What a reader must know of one group beside its table in a terminal; the rest is in `_GUIDE`.

    Args:
        group: the group.
        names: how its rows are named.
        columns: the columns that are shown.
    """
    ranked = [row for row in group.rows if row.cell in group.numbers and row.num_launches]
    if not ranked:
        return "Nothing was timed."
    baselines = [row for row in group.rows if is_baseline(row)]
    is_elsewhere = any(row.ratio is not None for row in ranked)
    parts = []
    if not baselines:
        parts.append("The baseline is not among these rows." if is_elsewhere else "The baseline was not timed.")
    elif len(baselines) > 1:
        parts.append(f"Baselines: {'; '.join(map(names, baselines))}.")
    spans = controls(baselines or ranked)
    control = f"A/A control, truly 1: {'; '.join(spans)}" if spans else "No A/A control yet: it takes three blocks"
    others = [row for row in ranked if row not in baselines]  # these have more: two in most blocks
    parts.append(f"{control}; {launches(others or ranked)} a cell.")
    parts += [f"{name}: {how}." for name, how in dict.fromkeys((r.metric_name, r.judged_as) for r in ranked) if how]
    parts += [f"Max drop: by convention, {convention}." for convention in conventions(ranked)]
    if counts := [row.metric_samples for row in ranked if row.metric_samples is not None]:
        cells = f"{len(counts)} cell{'s' if len(counts) > 1 else ''}"
        parts.append(f"Metric of {cells}: {min(counts):,} samples or more (--whole-split: all).")
    reasons = dict.fromkeys(row.metric_loss_note for row in ranked if row.metric_loss_note)
    parts += [f"No bound on the lost metric: {one_line(reason)}." for reason in reasons]
    parts += ["*: parameters of the source."] if is_marked(columns) else []
    return " ".join(parts)


def brief_legend(rows: Sequence[Row]) -> str:
    """What a ratio is, how many verdicts are expected to be false, and where the rest is explained."""
    parts = ["Ratio: latency over the baseline's; below 1 is faster."]
    if (calls := expected_false(rows)) is not None:
        num, false = calls
        parts.append(f"At most {false} of {num} verdict{'s' if num > 1 else ''} are expected to be false.")
    return " ".join([*parts, f"More: {_GUIDE}"])


def expected_false(rows: Sequence[Row]) -> tuple[int, str] | None:
    """The number of verdicts, and how many of them are expected to be false, at most; None without verdicts."""
    winners = [row.q_value for row in rows if row.verdict in (FASTER, SLOWER) and row.q_value is not None]
    num_tested = sum(row.q_value is not None for row in rows)
    equal = sum(row.verdict == NOISE for row in rows)
    if not winners and not equal:
        return None
    # A cell without a difference is called with a probability of at most the false discovery rate q, so some rows of
    # all may hold as many false calls as q of all that were tested; an interval of 95 % misses one end by 2.5 %.
    false = num_tested * max(winners, default=0.0) + equal * ALPHA / 2
    return len(winners) + equal, f"{false:.1f}" if false >= 0.1 else "0.1"
