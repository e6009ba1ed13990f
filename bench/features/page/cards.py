"""The cards at the top of the page: for each task what to ship, what it costs and how sure that is, in words."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator, Mapping, Sequence

from bench.api import loss_units
from bench.api.cell import Cell, matching
from bench.decisions.answer import Answer
from bench.decisions.best import Best
from bench.decisions.constraints import unit_of
from bench.decisions.standing import KEEP, NONE, WINNER
from bench.features.page.strips import Strip, strip
from bench.measure.stats import Estimate
from bench.records.columns import BYTES
from bench.records.folder import in_order
from bench.records.ranking import Group
from bench.records.rows import Row
from bench.records.warnings import warnings
from bench.report import outcome
from bench.report.columns import scale
from bench.report.figures.canvas import digits
from bench.report.words import in_words, metric_in_words, title_of

_NEARLY_ALIKE = 1.1
"""A smaller factor is told to three digits."""
_MOST_NAMED = 3
"""Deployments that may be as fast and are named in the sentence; the list below it has all."""
_NOTHING_TIMED = "no cell was timed and is right"

_Phrase = tuple[str, str]
"""What stands out of a text, and the rest of it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Card:
    """What to ship for one task and batch.

    Attributes:
        task: the task.
        title: the task in words, with its batch where that is not 1.
        outcome: `winner`, `keep` or `none`.
        advice: what to do, and the deployment in words.
        row: the row of the cell to ship, or that looks fastest; None where no cell qualifies.
        speed: its latency, and how many times as fast it is as each framework's default.
        metric: its metric with what is lost of it; empty phrases where it has none.
        room: the size of its file, and the peak of its memory.
        sure: how sure that is, or what is missing; without its full stop.
        as_fast: how many others may be as fast, and some of their names; empty where none may.
        others: the rows of these.
        faster: what would be faster, and what it loses; None where nothing is known to be.
        commands: what each command is for, and the command; the first has no purpose where it picks.
        warnings: what is wrong with the measurement or with the metric.
        strip: all deployments of the task; None where nothing was timed.
    """

    task: str
    title: str
    outcome: str
    advice: _Phrase
    row: Row | None
    speed: tuple[_Phrase, ...]
    metric: _Phrase
    room: tuple[_Phrase, ...]
    sure: str
    as_fast: str
    others: tuple[Row, ...]
    faster: str | None
    commands: tuple[_Phrase, ...]
    warnings: tuple[str, ...]
    strip: Strip | None


def cards(
    groups: Sequence[Group],
    best: Sequence[Best],
    lacking: Sequence[Answer],
    *,
    option: str = "",
    globs: Sequence[str] = (),
) -> list[Card]:
    """A card for each task and batch, in the order of the groups.

    Args:
        groups: the rows that the page shows.
        best: the deployments to ship.
        lacking: the answers for tasks of which no cell qualifies.
        option: the option of the folder of results, with a space before it; empty for the usual folder.
        globs: globs that chose the rows; none where they are all.
    """
    deployments = {(deployment.row.task, deployment.row.batch): deployment for deployment in best}
    without = {(answer.choice.group.task, answer.choice.group.batch): answer for answer in lacking}
    rows: dict[tuple[str, int], list[Row]] = {}
    for group in groups:
        rows.setdefault((group.task, group.batch), []).extend(group.rows)
    cards = []
    for key, own in rows.items():
        picking = _picking(key, rows, globs)
        if key in deployments:
            cards.append(_card(deployments[key], own, picking, option))
        else:
            cards.append(_without(without.get(key), own, picking, option))
    return cards


def _card(deployment: Best, rows: Sequence[Row], picking: str | None, option: str) -> Card:
    choice, shown = deployment.answer.choice, {row.cell: row for row in rows}
    row = shown.get(deployment.row.cell, deployment.row)
    alike = [shown[cell] for cell in (*deployment.others, *choice.twins) if cell in shown]
    named = [*dict.fromkeys(in_words(shown[cell]) for cell in deployment.others if cell in shown)]
    as_fast = outcome.may_be_as_fast(choice)
    if named:
        as_fast += f": {'; '.join(named[:_MOST_NAMED])}{'; ...' if len(named) > _MOST_NAMED else ''}"
    full = f"{in_words(row)}, {row.threads} thread{'s' if row.threads > 1 else ''}"
    advice = {
        WINNER: ("ship ", full),
        KEEP: ("ship the model as it is, ", full),
        NONE: ("no pick yet; this looks fastest: ", full),
    }
    certain = "" if choice.outcome == NONE else " (95 %)"
    return Card(
        task=row.task,
        title=_title(row),
        outcome=choice.outcome,
        advice=advice[choice.outcome],
        row=row,
        speed=((f"{digits((row.latency_p50_ns or 0.0) / 1e6, 3)} ms", ""), *_speeds(deployment, row)),
        metric=metric_in_words(row),
        room=tuple(_room(row)),
        sure=f"{outcome.regret(deployment.answer)}{certain}",
        as_fast=as_fast,
        others=tuple(alike),
        faster=outcome.faster(choice),
        commands=tuple(_commands(deployment.answer, picking, option)),
        warnings=tuple(warnings(rows)),
        strip=strip(rows, pick=row.cell, lossy=_lossy(deployment.answer), names=_labels(deployment, row)),
    )


def _without(answer: Answer | None, rows: Sequence[Row], picking: str | None, option: str) -> Card:
    """The card of a task of which nothing can be shipped."""
    row = rows[0]
    command = f"bench show {shlex.quote(row.task)}" if answer is None or picking is None else picking
    return Card(
        task=row.task,
        title=_title(row),
        outcome=NONE,
        advice=("nothing to ship yet", ""),
        row=None,
        speed=(),
        metric=("", ""),
        room=(),
        sure=_lacking(answer) if answer else _NOTHING_TIMED,
        as_fast="",
        others=(),
        faster=None,
        commands=(("to see why", f"{command}{option}"),),
        warnings=tuple(warnings(rows)),
        strip=strip(rows, pick=None, lossy=_lossy(answer) if answer else (), names={}),
    )


def _lacking(answer: Answer) -> str:
    """Why nothing qualifies, as `bench best` says it; where it is not for the metric alone, as `bench pick` does."""
    choice, allowed = answer.choice, answer.constraints.max_metric_loss
    if choice.qualified.of_guessed_sizes or allowed is None:
        return choice.lacking or ""
    unit = unit_of(choice.qualified.ranked)
    most = loss_units.text(allowed.of(unit), unit, digits=4)
    return "; ".join(filter(None, (f"no cell loses at most {most} of its metric for sure", choice.too_few)))


def _title(row: Row) -> str:
    return row.task if row.batch == 1 else f"{row.task}, batch {row.batch}"


def _speeds(deployment: Best, row: Row) -> Iterator[_Phrase]:
    """How the latency compares with that of each framework's default: `7.2x`, ` as fast as PyTorch`."""
    for source, estimate in sorted(deployment.over.items(), key=lambda item: item[1].value if item[1] else 0.0):
        default = deployment.defaults[source]
        name = title_of(str(default.runtime))
        if default.path == row.cell:
            yield "", f"the default of {name}"
        elif estimate is not None:
            yield _speed(estimate, f"the default of {name}" if name == title_of(row.runtime) else name)


def _speed(over: Estimate, name: str) -> _Phrase:
    if over.low <= 1 <= over.high:
        return "", f"not shown to differ from {name}"
    times = over.value if over.value > 1 else 1 / over.value
    factor = f"{digits(times, 3 if times < _NEARLY_ALIKE else 2)}\N{MULTIPLICATION SIGN}"
    return factor, f" as {'long' if over.value > 1 else 'fast'} as {name}"


def _room(row: Row) -> Iterator[_Phrase]:
    if row.size_bytes is not None:
        yield _size(row.size_bytes), " file"
    if row.peak_rss_bytes is not None:
        yield _size(row.peak_rss_bytes), " peak memory"


def _size(size_bytes: int) -> str:
    if abs(size_bytes) < BYTES[0][0]:
        return f"{size_bytes} B"
    factor, unit = scale([size_bytes], BYTES)
    return f"{digits(size_bytes / factor, 2)} {unit}"


def _lossy(answer: Answer) -> set[str]:
    """Paths of the cells that lose more of the metric than is allowed, at any number of threads."""
    return {row.cell for standing in (answer.choice, *answer.beside) for row in standing.qualified.lossy}


def _labels(deployment: Best, row: Row) -> Mapping[str, str]:
    """The names in the strip: of the one to ship, and of each framework's default."""
    return {
        **{cell.path: title_of(str(cell.runtime)) for cell in deployment.defaults.values()},
        row.cell: in_words(row),
    }


def _picking(key: tuple[str, int], rows: Mapping[tuple[str, int], Sequence[Row]], globs: Sequence[str]) -> str | None:
    """The command that picks for a task and a batch; None where no globs of `bench pick` choose the same rows."""
    task, batch = key
    names = [task]
    if globs:
        cells = {request: {Cell.from_path(row.cell) for row in own} for request, own in rows.items()}
        every = [cell for own in cells.values() for cell in own]
        of_globs = {glob: {*matching(every, in_order(glob))} for glob in globs}
        names = [glob for glob, own in of_globs.items() if own & cells[key]]
        others = {cell for (other, _), own in cells.items() if other != task for cell in own}
        if any(of_globs[glob] & others for glob in names):
            return None
    has_several = sum(other == task for other, _ in rows) > 1
    return shlex.join(["bench", "pick", *names, *(["--batch", str(batch)] if has_several else [])])


def _commands(answer: Answer, picking: str | None, option: str) -> Iterator[_Phrase]:
    """The command that picks, or those that would decide."""
    if answer.choice.outcome == NONE:
        open_answer = answer if picking else dataclasses.replace(answer, tolerance=None)
        yield from outcome.missing(open_answer, picking or "", option)
    elif picking:
        yield "", f"{picking}{option}"
