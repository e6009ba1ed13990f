"""The words and the fields of an outcome, the same in `bench run`, `best` and `pick`."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.api import cache, loading, loss_units
from bench.api.cell import Cell
from bench.api.fidelity import FidelityTask
from bench.api.names import TaskName
from bench.decisions import open_sizes
from bench.decisions.answer import Answer, is_faster
from bench.decisions.constraints import METRIC
from bench.decisions.pick import Choice
from bench.decisions.standing import KEEP, WINNER
from bench.onnxfile.shapes import size_options
from bench.records import ranking
from bench.records.rows import Row
from bench.report import writing

RESULTS = Path("results")
"""Folder of the results that commands take by default."""
_LEAST_REGRET = 5e-4
"""A smaller regret is told as none."""
_MOST_GAIN = 0.995
"""A larger share that could be gained is not told: it says nothing."""
NOT_BY_LAUNCHES = "launches alone would not decide soon, for they differ too much from one process to the next"


def regret(answer: Answer) -> str:
    """How much slower than the fastest that qualifies the leading row may be, or that the data do not decide."""
    choice = answer.choice
    if choice.outcome == KEEP:
        return f"as it is: {why_as_it_is(answer)}"
    if choice.outcome == WINNER and choice.regret < _LEAST_REGRET:
        return "no other within the limits is faster"
    if choice.outcome == WINNER:
        return f"at most {100 * choice.regret:.2g} % slower than the fastest"
    if math.isinf(choice.regret):
        return "not decided"
    return f"not decided: it may be {100 * choice.regret:.2g} % slower than the fastest"


def why_as_it_is(answer: Answer) -> str:
    """Why the model is shipped as it is, and how much could be gained at most where that is known."""
    choice = answer.choice
    limits = [option for option in answer.constraints.limits() if option != METRIC]
    phrases = ["keeps the metric"] if answer.constraints.max_metric_loss is not None else []
    phrases += [f"keeps to {' and '.join(limits)}"] if limits else []
    phrases += ["takes any sizes"] if choice.qualified.of_guessed_sizes else []
    that = f" that {' and '.join(phrases)}" if phrases else ""
    threads = (
        f" at {_threads(choice.group.threads)}" if any(standing.qualified.ranked for standing in answer.beside) else ""
    )
    gain = f"; at most {100 * choice.gain:.2g} % of the time could be gained" if choice.gain < _MOST_GAIN else ""
    return f"nothing{that} is shown to be faster{threads}{gain}"


def may_be_as_fast(choice: Choice) -> str:
    """`3 others may be as fast`, the twins among them; empty where none may."""
    number = len(choice.others) + len(choice.twins)
    return f"{number} other{'s' if number > 1 else ''} may be as fast" if number else ""


def undecided(choice: Choice) -> str:
    """Why the data do not decide between the cells that qualify."""
    if len(choice.contenders) > 1:
        return f"{len(choice.contenders)} cells may be the fastest"
    (row,) = choice.contenders
    times = "once" if row.num_launches == 1 else f"{row.num_launches} times"
    return f"{ranking.short_name(row)} looks fastest, but it was launched {times} and that is not enough to be sure"


def shipped(choice: Choice) -> str:
    """The runtime and the latency of the row to ship: `onnxruntime, 0.24 ms`."""
    row = choice.shipped
    assert row is not None
    return f"{row.runtime}, {writing.milliseconds(row.latency_p50_ns, '.3g')} ms"


def of_other_threads(answer: Answer) -> Iterator[str]:
    """What is known of the other numbers of threads, a sentence each without its full stop.

    What was compared are the leading rows: that to ship, or else the one that looks fastest.
    """
    own = answer.choice
    for other in answer.beside:
        if not other.qualified.ranked:
            continue
        threads, number = _threads(other.group.threads), len(other.qualified.rows)
        if not number:
            yield f"{threads}: none of {len(other.qualified.ranked)} cells qualifies"
            continue
        cells = f"{threads}: {number} cell{'s qualify, the leading one' if number > 1 else ' qualifies, which'}"
        faster = [standing for standing in (own, *answer.beside) if is_faster(standing, other)]
        if faster:
            yield f"{cells} is shown to be slower than that at {_threads(faster[0].group.threads)}"
        elif is_faster(other, own):
            yield f"{cells} is shown to be faster than that at {_threads(own.group.threads)}, but not which to ship"
        else:
            yield f"{cells} is not shown to be faster than that at {_threads(own.group.threads)}"


def untimed(choice: Choice) -> str:
    """How many cells of the request have no latency for want of time; empty where each has one."""
    number = choice.num_untimed
    if not number:
        return ""
    return f"{number} more cell{'s were' if number > 1 else ' was'} prepared and not timed, and may be faster"


def glob(choice: Choice) -> str:
    """A pattern for all cells of the request, quoted for a shell."""
    group = choice.group
    return shlex.quote(f"{group.task}/*/b{group.batch}t{group.threads}")


def of_made_up_inputs(choice: Choice) -> str:
    """That the inputs are made up, and how to give others; empty where they are not."""
    if not open_sizes.has_made_up_inputs(choice.group.task_name):
        return ""
    return "its inputs are made up; `bench run --model` with --dataset takes real ones"


def _threads(number: int) -> str:
    return f"{number} thread{'s' if number > 1 else ''}"


def faster(choice: Choice) -> str | None:
    """What would be faster if it were known to keep the metric, and what would show that; None where nothing would."""
    row, own = choice.faster, choice.shipped
    if row is None or own is None or not row.ratio or not own.ratio:
        return None
    text = f"{ranking.short_name(row)} is {own.ratio / row.ratio:.2g}x as fast"
    if row.size_bytes and own.size_bytes and row.size_bytes < 0.9 * own.size_bytes:
        text += f", {row.size_bytes / own.size_bytes:.2g} of the size"
    if row.metric_name == FidelityTask.metric_name:
        text += f"; its outputs differ by {_loss(row.metric_loss, row)} of the signal"
        if _is_own(row.task):
            text += " on these inputs, and --dataset with labelled samples would tell whether its answers are right"
        return text
    most = f", at most {_loss(choice.faster_loss_high, row)}" if choice.faster_loss_high is not None else ""
    return f"{text}; it loses {_loss(row.metric_loss, row)} of {row.metric_name}{most}"


def metric_bound(row: Row) -> str:
    """How much worse than the reference's the metric of a row may be, or why that is not known; empty for no loss."""
    high = row.metric_loss_high
    if high is None:
        return f"no bound: {row.metric_loss_note}" if row.metric_loss_note else ""
    if not high:
        return ""
    text = loss_units.text(abs(high), row.metric_loss_unit)
    by_convention = f" if {row.convention}" if row.convention else ""
    return f"{'at most' if high > 0 else 'at least'} {text} {'worse' if high > 0 else 'better'}{by_convention}"


def metric_change(row: Row) -> str:
    """How much worse or better than the reference's the metric of a row is; empty where it is rounding."""
    lost = row.metric_loss or 0.0
    if abs(lost) < loss_units.least_shown(row.metric_loss_unit):
        return ""
    return f"{loss_units.text(abs(lost), row.metric_loss_unit)} {'worse' if lost > 0 else 'better'}"


def _is_own(task: str) -> bool:
    """Whether a task is of a model of one's own: it is in the cache, or not here any more."""
    path = loading.find("models").get(TaskName.parse(task).model)
    return path is None or path.is_relative_to(cache.folder())


def _loss(value: float | None, row: Row) -> str:
    return writing.DASH if value is None else loss_units.text(value, row.metric_loss_unit)


def sizes(cell: str) -> str:
    """That the file of a cell takes guessed sizes alone, and how to ask for these."""
    guessed = open_sizes.guessed(Cell.from_path(cell).task)
    dims = " ".join(size_options.option(dim, size) for dim, size in guessed.items())
    return f"its file takes guessed sizes alone, which `bench run --model` with {dims} asks for"


def missing(answer: Answer, command: str, option: str) -> Iterator[tuple[str, str]]:
    """The commands that would find a winner: one that takes a larger tolerance, and launches that would decide.

    Where neither is known to, the launches that there are differ too much, and the command measures them anew.

    Args:
        answer: an answer whose outcome is no winner.
        command: the command that gave it, without its tolerance.
        option: the option of the folder of results.

    Yields:
        What a command is for, such as `to decide`, and the command, to be shown on a line of its own: a comment behind
        it would be an argument to zsh.
    """
    choice = answer.choice
    if answer.tolerance is not None:
        share = f"{100 * answer.tolerance:g}"
        yield (
            f"to take one that is at most {share} % slower than the fastest",
            f"{command} --tolerance {share}%{option}",
        )
    if choice.further is None:
        return
    cells = shlex.join(choice.further.cells)
    if choice.further.launches is not None:
        purpose = "to find a winner" if choice.outcome == KEEP else "to decide"
        yield purpose, f"bench run {cells} --launches {choice.further.launches}{option}"
    else:
        yield f"to measure again, at a quieter hour ({NOT_BY_LAUNCHES})", f"bench run {cells} --force{option}"


def results_option(results: Path) -> str:
    """The option of the folder of results, with a space before it; empty for the usual folder."""
    return "" if results == RESULTS else f" --results {shlex.quote(str(results))}"


def fields(answer: Answer) -> dict[str, Any]:
    """The answer as values that JSON can hold, for `--format json` and `deployment.json`.

    Times are in nanoseconds. `regret` is the largest share by which the cell may be slower than the fastest, `gain` the
    largest share of its latency that could be gained; null where there is no bound.
    """
    choice, row = answer.choice, answer.choice.shipped
    has_bound = row is not None and math.isfinite(choice.regret)
    return {
        "outcome": choice.outcome,
        "task": choice.group.task,
        "batch": choice.group.batch,
        "threads": choice.group.threads,
        "cell": row.cell if row else None,
        "latency_p50_ns": row.latency_p50_ns if row else None,
        "tolerance": choice.tolerance,
        "regret": choice.regret if has_bound else None,
        "gain": choice.gain if has_bound else None,
        "may_be_as_fast": [other.cell for other in choice.others],
        "not_timed": choice.num_untimed,
        "twins": list(choice.twins),
        "other_threads": [*of_other_threads(answer)],
        "lacking": choice.lacking,
        "tolerance_for_a_winner": answer.tolerance,
        "launches_for_a_winner": choice.further.launches if choice.further else None,
        "faster_but_for_the_metric": choice.faster.cell if choice.faster else None,
    }
