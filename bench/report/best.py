"""The fastest deployment that keeps its metric, for each task, against the default of each framework."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench import plugins, sweeps
from bench.cell import Cell
from bench.errors import InputError
from bench.measure import stats
from bench.measure.stats import Estimate
from bench.report import assemble, columns, order, tables
from bench.report.rows import Row
from bench.store import Record

LEAST_LOSS = 5e-5  # below it nothing is left of a share in per cent
BEGIN, END = "<!-- bench best: begin -->", "<!-- bench best: end -->"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Best:
    """What to ship for one request.

    Attributes:
        row: of the fastest cell that loses no more of the metric than is allowed.
        over: by framework, its latency over that of the framework's default; None where they cannot be compared.
        rivals: paths of the cells, as good, that it cannot be told apart from.
    """

    row: Row
    over: Mapping[str, Estimate | None]
    rivals: tuple[str, ...]


def best(
    records: Mapping[str, Record], *, max_metric_loss: float, margin: float, rows: Sequence[Row] | None = None
) -> list[Best]:
    """One for each task, batch and number of threads that has a cell that qualifies.

    Args:
        records: the current record of each cell path.
        max_metric_loss: the largest share of the reference's metric that may be lost.
        margin: what counts as no difference, as a share.
        rows: made of the records, where they are at hand or not all are meant.
    """
    found = []
    for group in order.select(assemble.rows(records, margin=margin) if rows is None else rows).groups:
        sound = [row for row in group.rows if order.is_ranked(row) and row.ratio is not None]
        sound = [row for row in sound if row.metric_loss is not None and row.metric_loss <= max_metric_loss]
        if not sound:
            continue
        # Over two baselines ratios have no common meaning.
        by = "ratio" if sum(map(order.is_baseline, group.rows)) < 2 else "latency_p50_ns"
        winner = min(sound, key=lambda row: (getattr(row, by), row.cell))
        over = {
            cell.source: _over(records, winner.cell, cell.path)
            for cell in reversed(_defaults(winner))  # the first of a source stands
            if cell.path in records
        }
        rivals = [row.cell for row in sound if row is not winner and not _is_slower(records, row, winner, margin)]
        found.append(Best(row=winner, over=over, rivals=tuple(rivals)))
    return found


def _defaults(row: Row) -> Sequence[Cell]:
    """The plain cells of the task's frameworks, for the same request."""
    if row.task not in plugins.find("models"):
        return ()
    return sweeps.baselines(row.task, row.batch, row.threads)


def _over(records: Mapping[str, Record], one: str, other: str) -> Estimate | None:
    if one == other:
        return Estimate(value=1.0, low=1.0, high=1.0)
    found = assemble.between(records, one, other)
    return found.ratio if found else None


def _is_slower(records: Mapping[str, Record], row: Row, winner: Row, margin: float) -> bool:
    found = assemble.between(records, row.cell, winner.cell)
    return found is not None and found.verdict(margin) == stats.SLOWER


def render(found: Sequence[Best], *, format: str) -> str:
    """A table as `md`, or a few lines for each request for a terminal (`table`).

    Raises:
        InputError: nothing qualifies.
    """
    if not found:
        raise InputError("no cell that was timed keeps its metric; `bench show` lists them all")
    sources = list(dict.fromkeys(source for one in found for source in one.over))
    titles = ("task", "best deployment", "latency p50", "metric", *(f"over {source}'s default" for source in sources))
    lines = []
    for one in found:
        row = one.row
        request = f"{row.task}, batch {row.batch}, {row.threads} thread{'s' if row.threads > 1 else ''}"
        name = order.short_name(row)
        if row.precision not in (None, "float32"):
            name += f" in {row.precision}"
        if one.rivals:
            name += f" (not told apart from {len(one.rivals)} more)"
        metric = columns.DASH if row.metric is None else f"{row.metric:.4g} {row.metric_name}"
        lost = row.metric_loss or 0.0
        if abs(lost) >= LEAST_LOSS:
            metric += f" ({100 * abs(lost):.2g} % {'worse' if lost > 0 else 'better'})"
        over = [_ratio(one.over.get(source)) for source in sources]
        lines.append((request, name, _milliseconds(row.latency_p50_ns), metric, *over))
    if format == "md":
        return tables.plain(titles, lines, format=format, num_names=2)
    texts = []
    for request, name, latency, metric, *over in lines:
        ratios = [f"{ratio} {title}" for title, ratio in zip(titles[4:], over, strict=True)]
        texts.append("\n  ".join((request, name, f"{latency}, {metric}", ", ".join(ratios))))
    return "\n".join(texts) + "\n"


def put_into(path: Path, table: str) -> str:
    """A Markdown file's text with a table in place of what stood between its two marks.

    Raises:
        InputError: the marks are not there, once each and in order.
    """
    text = path.read_text(encoding="utf-8")
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in tail:
        raise InputError(f"{path} must hold the lines {BEGIN} and {END}, once each and in this order")
    return f"{head}{BEGIN}\n{table}{END}{tail}"


def _milliseconds(latency_ns: float | None) -> str:
    return f"{(latency_ns or 0.0) / 1e6:.3g} ms"


def _ratio(estimate: Estimate | None) -> str:
    if estimate is None:
        return columns.DASH
    if estimate.low == estimate.high == 1.0:
        return "itself"
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"
