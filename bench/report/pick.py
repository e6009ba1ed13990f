"""The text of `bench pick`: the front of the cells that qualify, and the outcome."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping

from bench.api import loss_units
from bench.api.loss_units import AllowedLoss
from bench.api.printable import printable
from bench.decisions.answer import Answer
from bench.decisions.constraints import METRIC
from bench.decisions.pick import Choice
from bench.decisions.standing import NONE, WINNER
from bench.records import machines, ranking
from bench.report import outcome, writing
from bench.report.templates import fill


@dataclasses.dataclass(frozen=True, kw_only=True)
class Addition:
    """What a feature adds to a pick.

    Attributes:
        text: a text between the front and the outcome; empty for none.
        service: how what is shipped is best served, which its recipe keeps, too; None for nothing.
    """

    text: str = ""
    service: Mapping[str, object] | None = None


def front(answer: Answer) -> str:
    """How many cells qualify, and a table of the cells on the front, which no other cell beats; empty without any."""
    choice, constraints = answer.choice, answer.constraints
    if not choice.front:
        return ""
    rows, ranked = choice.qualified.rows, choice.qualified.ranked
    limits = f" and keep to {', '.join(constraints.limits())}" if constraints.limits() else ""
    title = (
        f"{choice.group.title}: {len(rows)} of {len(ranked)} timed cells are right{limits}.\n"
        f"Of these, no other beats {len(choice.front)} in latency, size, memory and metric at once:"
    )
    notes = list(dict.fromkeys(row.metric_loss_note for row in rows if row.metric_loss_note))
    if METRIC in constraints.limits() and notes:
        why = printable("; ".join(notes))
        title = f"{METRIC} is held against the loss on the held-out samples, without a bound: {why}.\n{title}"
    lines = [
        [
            writing.milliseconds(row.latency_p50_ns),
            writing.share(row.ratio),
            writing.megabytes(row.size_bytes),
            writing.megabytes(row.peak_rss_bytes),
            writing.DASH if row.metric is None else f"{row.metric:.4g}",
        ]
        for row in choice.front
    ]
    metric_name = printable(next((row.metric_name for row in choice.front if row.metric_name), "metric"))
    titles = ["latency p50\n(ms)", "over the\nbaseline", "size\n(MB)", "peak memory\n(MB)", metric_name]
    names = [ranking.short_name(row) for row in choice.front]
    longest = writing.narrowest(names)
    if writing.room_for_names(titles, lines) < longest:  # then titles take more lines
        titles = [title.replace(" ", "\n") for title in titles]
    few = f"{choice.too_few}.\n" if choice.too_few else ""
    few += "".join(f"{row.cell} is left out: {outcome.sizes(row.cell)}.\n" for row in choice.qualified.of_guessed_sizes)
    where = writing.paragraph(machines.sentences(rows, writing.terminal_width()), "table")
    return f"{few}{where}{title}\n\n{writing.named_table('cell', names, titles, lines)}\n"


def verdict(answer: Answer, command: str, option: str, sizes: str = "") -> str:
    """The outcome: the cell to ship and how it compares with the others, and the commands that find a winner.

    Args:
        answer: the answer.
        command: the command that gave it, without its tolerance.
        option: the option of the folder of results.
        sizes: the sizes that the file of the shipped cell takes, where it takes these alone; else empty.
    """
    choice = answer.choice
    commands: list[tuple[str, str]] = []
    if choice.lacking is not None:
        commands = [("to see why", f"bench show {shlex.quote(choice.group.task)}{option}")]
    elif choice.outcome != WINNER:
        commands = [*outcome.missing(answer, command, option)]
    untimed = outcome.untimed(choice)
    if untimed:
        commands.append(("to time those", f"bench run {outcome.glob(choice)}{option}"))
    return fill(
        "templates/pick.j2",
        choice=choice,
        over_baseline=writing.interval(choice.over_baseline) if choice.over_baseline else None,
        regret=outcome.regret(answer),
        why_as_it_is=outcome.why_as_it_is(answer),
        undecided=outcome.undecided(choice) if choice.outcome == NONE and choice.lacking is None else "",
        shipped=outcome.shipped(choice) if choice.shipped else "",
        lost=_lost(choice),
        is_as_it_is=choice.shipped is not None and ranking.is_baseline(choice.shipped),
        is_alone=len(choice.candidates) == 1,
        sizes=sizes,
        notes=[
            *filter(None, [outcome.faster(choice), untimed, outcome.of_made_up_inputs(choice)]),
            *outcome.of_other_threads(answer),
        ],
        commands=commands,
    )


def _lost(choice: Choice) -> str:
    """What the shipped cell loses, where that is more than the default limit: `0.2 dB`; else empty."""
    row = choice.shipped
    if row is None or (row.metric_loss or 0.0) <= AllowedLoss().of(row.metric_loss_unit):
        return ""
    return loss_units.text(row.metric_loss or 0.0, row.metric_loss_unit)
