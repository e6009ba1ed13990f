"""The fastest deployment that keeps its metric, for each task, against the default of each framework."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bench.api import loss_units
from bench.api.errors import InputError
from bench.api.files import read_text
from bench.api.loss_units import AllowedLoss
from bench.api.printable import printable
from bench.decisions.best import Best, sources_of
from bench.decisions.constraints import unit_of
from bench.decisions.standing import NONE
from bench.measure.stats import Estimate
from bench.records import machines, ranking
from bench.records.ranking import Group
from bench.records.rows import Row
from bench.report import outcome, writing
from bench.report.words import default_in_words, in_words, metric_in_words, request_in_words, times_as_fast

NOTHING = "no cell that was timed keeps its metric for sure; `bench show` lists them all, `bench pick` says why"


def render(deployments: Sequence[Best], *, format: str) -> str:
    """The best deployments as a Markdown table (`md`), or as a few lines for each request (`table`).

    Raises:
        InputError: nothing qualifies.
    """
    if not deployments:
        raise InputError(NOTHING)
    where = writing.paragraph(machines.sentences([row for each in deployments for row in _rows(each)]), format)
    return where + (_table(deployments) if format == "md" else _lines(deployments))


def _rows(deployment: Best) -> list[Row]:
    """The rows of the deployment and of the defaults that it is compared with."""
    compared = {cell.path for source, cell in deployment.defaults.items() if deployment.over.get(source) is not None}
    return [deployment.row, *(row for row in deployment.answer.choice.group.rows if row.cell in compared)]


def _table(deployments: Sequence[Best]) -> str:
    """Names in words, and below the table the path of each cell."""
    sources = sources_of(deployments)
    faster = [f"times as fast as {default_in_words(deployments, source)}" for source in sources]
    titles = ("task", "best deployment", "latency", *faster, "metric", "how sure")
    lines, paths = [], []
    for deployment in deployments:
        row = deployment.row
        name = f"{in_words(row)}, {row.threads} thread{'s' if row.threads > 1 else ''}"
        sure = "; ".join(
            filter(None, (outcome.regret(deployment.answer), outcome.may_be_as_fast(deployment.answer.choice)))
        )
        name_of_task = request_in_words(row.task)
        task = name_of_task if row.batch == 1 else f"{name_of_task}, batch {row.batch}"
        metric = "".join(metric_in_words(row)) or writing.DASH
        times = [times_as_fast(deployment.over.get(source)) for source in sources]
        lines.append([task, name, _latency(row), *times, metric, sure])
        paths.append(f"{task}: {ranking.short_name(row)}")
    is_text = [True, True, False, *(False for _ in sources), True, True]
    return f"{writing.markdown(titles, lines, is_text)}\n{writing.escape_markdown('; '.join(paths))}\n"


def _lines(deployments: Sequence[Best]) -> str:
    texts = []
    for deployment in deployments:
        row, choice = deployment.row, deployment.answer.choice
        first = "\n  ".join((choice.group.title, *outcome.of_other_threads(deployment.answer)))
        name = ranking.short_name(row)
        if row.precision not in (None, "float32"):
            name += f" in {row.precision}"
        if as_fast := outcome.may_be_as_fast(choice):
            name += f" ({as_fast})"
        figures = [_latency(row)]
        if row.metric is not None:
            lost = ", ".join(filter(None, (outcome.metric_change(row), outcome.metric_bound(row))))
            figures.append(f"{row.metric:.4g} {row.metric_name}" + (f" ({lost})" if lost else ""))
        over = [
            f"{_ratio(ratio)} over {source}'s default" for source, ratio in deployment.over.items() if ratio is not None
        ]
        how = f"; `bench pick {shlex.quote(row.task)}` says what would decide" if choice.outcome == NONE else ""
        lines = (first, name, outcome.regret(deployment.answer) + how, ", ".join(figures), ", ".join(over))
        texts.append(printable("\n  ".join(filter(None, lines)), keep="\n"))
    return "\n".join(texts) + "\n"


def missing(deployments: Iterable[Best], groups: Iterable[Group], *, max_metric_loss: AllowedLoss) -> Iterator[str]:
    """A note for each request of which no cell qualifies, though some were timed and are right."""
    requests = {(deployment.row.task, deployment.row.batch) for deployment in deployments}
    for group in groups:
        ranked = [row for row in group.rows if ranking.is_ranked(row)]
        if ranked and (ranked[0].task, ranked[0].batch) not in requests:
            unit = unit_of(ranked)
            most = loss_units.text(max_metric_loss.of(unit), unit, digits=4)
            why = f"`bench pick {ranked[0].task} --max-metric-drop {max_metric_loss.option(unit)}` says why"
            yield f"{group.title}: no cell loses at most {most} of its metric for sure; {why}"


def put_into(path: Path, table: str, *, name: str = "best") -> str:
    """The text of a Markdown file with a table put between the file's two marks, in place of the text there.

    Args:
        path: the file.
        table: the table.
        name: what the marks name: `<!-- bench best: begin -->`.

    Raises:
        InputError: the marks are not there, once each and in order.
    """
    first, last = (f"<!-- bench {name}: {end} -->" for end in ("begin", "end"))
    head, begin, rest = read_text(path).partition(first)
    _, end, tail = rest.partition(last)
    if not begin or not end or first in rest or last in tail:
        raise InputError(f"{path} must hold the lines {first} and {last}, once each and in this order")
    return f"{head}{first}\n{table}{last}{tail}"


def _latency(row: Row) -> str:
    return f"{writing.milliseconds(row.latency_p50_ns, '.3g')} ms"


def _ratio(estimate: Estimate | None) -> str:
    if estimate is None:
        return writing.DASH
    return "itself" if estimate.low == estimate.high == 1.0 else writing.interval(estimate)
