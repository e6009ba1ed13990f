"""Changes between two runs, for a terminal, as Markdown and as JSON."""

from __future__ import annotations

import functools
import math
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from bench.api.printable import printable
from bench.features.compare.changes import ORDER, Change, Compared
from bench.measure import stats
from bench.measure.corrections import FEWEST_CELLS, Judged
from bench.records.rows import Row
from bench.report import writing
from bench.report.templates import Block, fill

_MOST_LINES = 20
"""Lines shown of each list of cells that were not compared; the JSON has all of them."""
_LEAST_NAME, _OTHER_COLUMNS = 24, 58
"""Smallest width of the column of names in a terminal, and the width of all other columns, in characters."""
_LEAST_METRIC, _LEAST_SIZE, _LEAST_MEMORY = 1e-6, 1e-3, 0.05
"""Smallest relative differences of a metric, of a file's size and of memory that are shown as changes."""
_SIDE_KEYS = (
    *("status", "reason", "fidelity", "same_as", "latency_p50_ns", "num_launches"),
    *("metric", "metric_name", "metric_loss", "metric_loss_high", "metric_loss_unit"),
    *("size_bytes", "peak_rss_bytes"),
)


def render(compared: Compared, *, format: str) -> str:
    """The comparison as `table`, `md` or `json`; the text ends in a newline."""
    if format == "json":
        return writing.as_json(_content(compared))
    sides = (("A", compared.before), ("B", compared.after))
    figures = [change for change in compared.changes if change.judged is not None]
    baselines = [change for change in compared.changes if change.is_baseline]
    tested = [change.judged for change in figures if change.judged and change.judged.p_value is not None]
    return fill(
        "features/compare/compare.j2",
        filters={
            "escape": writing.escape_markdown if format == "md" else str,
            "wrap": str if format == "md" else functools.partial(textwrap.fill, width=writing.terminal_width()),
        },
        compared=compared,
        is_markdown=format == "md",
        table=lambda *lines, **named: Block(writing.plain(*lines, **named, format=format)),
        sides=[(letter, *map(printable, (side.name, side.machine)), str(side.num_cells)) for letter, side in sides],
        measured=[printable(f"{letter}: {side.measured}") for letter, side in sides if side.measured],
        figures=[
            (_name(change.cell, format), change.judged.verdict, _ratio(change.judged), *_medians(change))
            for change in figures
            if change.judged
        ],
        tested=tested,
        wider=[judged for judged in tested if judged.alpha < stats.ALPHA],
        baselines=[
            (_name(baseline.cell, format), *_medians(baseline), *_moved(baseline, compared)) for baseline in baselines
        ],
        lists=[Block(text) for text in _lists(compared, format) if text],
        counts=counts(compared),
        num_compared=len(figures),
        order=ORDER,
    )


def _name(cell: str, format: str) -> str:
    """A cell's path, broken into lines where a terminal is narrow."""
    width = max(_LEAST_NAME, writing.terminal_width() - _OTHER_COLUMNS)
    return cell if format == "md" else writing.wrap_name(cell, width)


def _ratio(judged: Judged) -> str:
    ratio = judged.ratio
    return writing.interval(ratio) if math.isfinite(ratio.high) else f"{writing.share(ratio.value)} [no interval]"


def _medians(change: Change) -> list[str]:
    return [writing.milliseconds(row.latency_p50_ns if row else None) for row in (change.before, change.after)]


def _lists(compared: Compared, format: str) -> Iterator[str]:
    changes = compared.changes
    otherwise = [(_name(change.cell, format), *what) for change in changes for what in _otherwise(change)]
    yield _list("Changed otherwise", ("cell", "what", "A", "B"), otherwise, format)
    untold: dict[str, list[str]] = {}
    for change in changes:
        if change.note and not _status(change):
            untold.setdefault(change.note, []).append(change.cell)
    reasons = [(why, str(len(cells)), cells[0] + ", ..." * (len(cells) > 1)) for why, cells in sorted(untold.items())]
    num_untold = sum(map(len, untold.values()))
    yield _list("Not compared", ("why", "cells", "which"), reasons, format, number=num_untold)
    pairs = [(change.before, change.after) for change in changes]
    for letter, rows in (("A", [a for a, b in pairs if b is None]), ("B", [b for a, b in pairs if a is None])):
        alone = [(_name(row.cell, format), _standing(row)) for row in rows if row is not None]
        yield _list(f"Only in {letter}", ("cell", "status"), alone, format)


def _moved(baseline: Change, compared: Compared) -> tuple[str, str, str]:
    """The number of cells that were compared with a baseline, the median of their ratios, and their drift."""
    num_cells, median = compared.moved(baseline.cell)
    if median is None:
        return "0", writing.DASH, writing.DASH
    drift = compared.drifts.get(baseline.cell, 0.0)
    known = num_cells >= FEWEST_CELLS
    return str(num_cells), f"{median:.3f}", f"{100 * drift:.2g} %" if known else writing.DASH


def _list(
    title: str, titles: Sequence[str], lines: Sequence[Sequence[str]], format: str, *, number: int | None = None
) -> str:
    """A table under its title and number of lines; empty where there are no lines."""
    if not lines:
        return ""
    texts = [["\n".join(map(writing.one_line, cell.split("\n"))) for cell in line] for line in lines]
    more = f"\n{len(lines) - _MOST_LINES} more; --format json has them all\n" if len(lines) > _MOST_LINES else ""
    table = writing.plain(titles, texts[:_MOST_LINES], format=format, num_names=len(titles))
    return f"{title} ({number or len(lines)}):\n\n{table}{more}"


def _status(change: Change) -> list[tuple[str, str, str]]:
    before, after = change.before, change.after
    if before is None or after is None or _standing(before, reason=False) == _standing(after, reason=False):
        return []
    return [("status", _standing(before), _standing(after))]


def _standing(row: Row, *, reason: bool = True) -> str:
    status = "broken" if row.status == "ok" and row.fidelity == "broken" else row.status
    return f"{status}: {row.reason}" if reason and row.reason and status != "ok" else status


def _otherwise(change: Change) -> list[tuple[str, str, str]]:
    """Changes of a cell other than its latency: the name of each property, its value in A, and in B."""
    before, after = change.before, change.after
    if before is None or after is None:
        return []
    differences = _status(change)
    is_alike = before.metric_samples == after.metric_samples  # else the figures are of other samples of the split
    if is_alike and before.fidelity and after.fidelity and before.fidelity != after.fidelity:
        differences.append(("fidelity", before.fidelity, after.fidelity))
    if is_alike and before.metric_name == after.metric_name and _differ(before.metric, after.metric, _LEAST_METRIC):
        differences.append((f"{before.metric_name}", f"{before.metric:.6g}", f"{after.metric:.6g}"))
    sizes = (
        (before.size_bytes, after.size_bytes, _LEAST_SIZE),
        (before.peak_rss_bytes, after.peak_rss_bytes, _LEAST_MEMORY),
    )
    for name, (first, other, least) in zip(("size", "peak memory"), sizes, strict=True):
        if _differ(first, other, least):
            differences.append((name, f"{writing.megabytes(first)} MB", f"{writing.megabytes(other)} MB"))
    if change.outputs:
        differences.append(("outputs", "", f"{change.outputs} beside A's"))
    return differences


def _differ(first: float | None, other: float | None, least: float) -> bool:
    return first is not None and other is not None and not math.isclose(first, other, rel_tol=least)


def counts(compared: Compared) -> dict[str, int]:
    """The number of cells of each verdict, and of those that failed, were mended, or were not compared."""
    changes = compared.changes
    verdicts = Counter(change.verdict for change in changes if change.verdict)
    return {
        **{verdict: verdicts[verdict] for verdict in ORDER},
        "newly_failed": sum(change.newly_failed for change in changes),
        "mended": sum(change.mended for change in changes),
        "not_compared": sum(change.note is not None for change in changes),
        "only_in_a": sum(change.after is None for change in changes),
        "only_in_b": sum(change.before is None for change in changes),
    }


def _content(compared: Compared) -> dict[str, Any]:
    sides = (("a", compared.before), ("b", compared.after))
    return {
        **{
            letter: {"name": side.name, "machine": side.machine, "measured": side.measured, "cells": side.num_cells}
            for letter, side in sides
        },
        "how": compared.how,
        "remarks": list(compared.remarks),
        "counts": counts(compared),
        "cells": [_record(change) for change in compared.changes],
    }


def _record(change: Change) -> dict[str, Any]:
    judged = change.judged
    control = change.comparison.control.ratio() if change.comparison and change.comparison.control else None
    known = judged if judged and math.isfinite(judged.ratio.high) else None
    return {
        "cell": change.cell,
        "verdict": change.verdict,
        "ratio": judged.ratio.value if judged else None,
        "ratio_low": known.ratio.low if known else None,
        "ratio_high": known.ratio.high if known else None,
        "confidence": 1 - known.alpha if known else None,
        "p_adjusted": judged.p_value if judged else None,
        "aa_low": writing.finite(control.low) if control else None,
        "aa_high": writing.finite(control.high) if control else None,
        "is_baseline": change.is_baseline,
        "same_file": change.same_file,
        "outputs": change.outputs,
        "newly_failed": change.newly_failed,
        "note": change.note,
        "before": _side(change.before),
        "after": _side(change.after),
    }


def _side(row: Row | None) -> dict[str, Any] | None:
    return None if row is None else {key: writing.finite(getattr(row, key)) for key in _SIDE_KEYS}
