"""The words and the fields of an outcome, the same in `bench run`, `best` and `pick`."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.api import cache, loading
from bench.api.cell import Cell
from bench.api.fidelity import FidelityTask
from bench.api.sized import family_of
from bench.decisions import open_sizes
from bench.decisions.answer import Answer
from bench.decisions.constraints import human
from bench.decisions.pick import KEEP, WINNER, Choice
from bench.records import ranking
from bench.report import writing

RESULTS = Path("results")
"""Folder of the results that commands take by default."""
LEAST_REGRET = 5e-4
"""A smaller regret is told as none."""
MOST_GAIN = 0.995
"""A larger share that could be gained is not told: it says nothing."""


def regret(choice: Choice) -> str:
    """How much slower than the fastest the leading row may be, or that the data do not decide."""
    if choice.outcome == KEEP:
        return f"as it is: {kept(choice)}"
    if choice.outcome == WINNER and choice.regret < LEAST_REGRET:
        return "no other is faster"
    if choice.outcome == WINNER:
        return f"at most {100 * choice.regret:.2g} % slower than the fastest"
    if math.isinf(choice.regret):
        return "not decided"
    return f"not decided: it may be {100 * choice.regret:.2g} % slower than the fastest"


def kept(choice: Choice) -> str:
    """Why the model is shipped as it is."""
    gain = f"; at most {100 * choice.gain:.2g} % of the time could be gained" if choice.gain < MOST_GAIN else ""
    return f"nothing that keeps the metric is shown to be faster{gain}"


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


def beside(answer: Answer) -> Iterator[str]:
    """What is known of the other numbers of threads, a sentence each without its full stop."""
    own = answer.choice.group.threads
    for choice in answer.beside:
        if not choice.qualified.ranked:
            continue
        threads, number = _threads(choice.group.threads), len(choice.qualified.rows)
        cells = f"{threads}: {number} cell{'s qualify' if number > 1 else ' qualifies'}"
        if not number:
            yield f"{threads}: none of {len(choice.qualified.ranked)} cells qualifies"
        elif choice.group.threads > own:
            yield f"{cells}, none of which is shown to beat {_threads(own)}"
        else:
            yield f"{cells}, the fastest of which is slower than that at {_threads(own)}"


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
        text += f"; its outputs differ by {_share(row.metric_loss)} of the signal"
        if _is_own(row.task):
            text += " on these inputs, and --dataset with labelled samples would tell whether its answers are right"
        return text
    least = f"; it loses {_share(row.metric_loss)} of {row.metric_name}"
    return text + least + (f", at most {_share(row.metric_loss_high)}" if row.metric_loss_high is not None else "")


def _is_own(task: str) -> bool:
    """Whether a task is of a model of one's own: it is in the cache, or not here any more."""
    path = loading.find("models").get(family_of(task))
    return path is None or path.is_relative_to(cache.folder())


def _share(value: float | None) -> str:
    return writing.DASH if value is None else human("metric_loss", value)


def sizes(cell: str) -> str:
    """That the file of a cell takes guessed sizes alone, and how to ask for these."""
    guessed = open_sizes.guessed(Cell.from_path(cell).task)
    dims = " ".join(f"--dim {dim}={size}" for dim, size in guessed.items())
    return f"its file takes guessed sizes alone, which `bench run --model` with {dims} asks for"


def missing(answer: Answer, command: str, option: str) -> Iterator[str]:
    """What would find a winner: a command that takes a larger tolerance, and launches that would decide.

    Args:
        answer: an answer whose outcome is no winner.
        command: the command that gave it, without its tolerance.
        option: the option of the folder of results.
    """
    choice = answer.choice
    if answer.tolerance is not None:
        share = f"{100 * answer.tolerance:g}"
        yield f"{command} --tolerance {share}%{option} takes one that is at most {share} % slower than the fastest"
    if choice.further is not None and choice.further.launches is not None:
        cells = shlex.join(choice.further.cells)
        yield f"bench run {cells} --launches {choice.further.launches}{option}"
    elif choice.further is not None:
        yield "launches alone would not decide soon: they differ too much from one process to the next"


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
        "twins": list(choice.twins.get(row.cell, ())) if row else [],
        "other_threads": [*beside(answer)],
        "lacking": choice.lacking,
        "tolerance_for_a_winner": answer.tolerance,
        "launches_for_a_winner": choice.further.launches if choice.further else None,
        "faster_but_for_the_metric": choice.faster.cell if choice.faster else None,
    }
