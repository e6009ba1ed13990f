"""The last lines of `bench run`: the outcome and then the next command, or why nothing was timed and what to do."""

from __future__ import annotations

import collections
import math
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.api.cell import RAW
from bench.decisions.answer import Answer
from bench.decisions.standing import KEEP, NONE, WINNER
from bench.decisions.threads import Scaling
from bench.measure.goal import Goal
from bench.measure.stats import UNDECIDED
from bench.onnxfile.file.training import ADVICE, KERAS_ADVICE, MODE
from bench.onnxfile.shapes import size_options
from bench.records import ranking
from bench.records.ranking import is_timed, short_name
from bench.records.rows import Row
from bench.report import outcome, writing
from bench.report.writing import one_line

_LONGER_MIN = 5
"""Minutes of measuring to propose, at least."""
HEAD, TAIL = 50, 110
"""Characters of a reason's beginning and end that are shown."""
_OUT_OF_TIME, _OUT_OF_MEMORY = "no answer within", "out of memory"
"""Words in the reasons of `bench.measure.process`."""
_MISSING = ("not a registered", "NOT_IMPLEMENTED", "No Op registered", "NotImplemented")
"""Words in reasons that say that a runtime lacks an operator."""


def is_measured(rows: Sequence[Row]) -> bool:
    """Whether a cell was timed, or is the same as another that is not among these."""
    return any(is_timed(row) or (row.same_as and row.same_as not in {other.cell for other in rows}) for row in rows)


def is_without_times(rows: Sequence[Row]) -> bool:
    """Whether a run did all that it could and no cell has a time: all are verified, and their times would say nothing.

    Cells that were skipped count as little as where others are timed.
    """
    tried = [row for row in rows if row.status != "skipped"]
    are_right = all(row.status == "ok" and row.fidelity not in (None, "broken") for row in tried)
    return are_right and any(row.untimed for row in tried) and all(row.untimed or row.same_as for row in tried)


def after(
    rows: Sequence[Row], *, sizes: Mapping[str, int], results: Path, answers: Sequence[Answer | None], goal: Goal
) -> list[str]:
    """Lines on what a run of these rows decided, of which the last has the next command.

    Args:
        rows: the rows of the run.
        sizes: sizes of the dimensions that a model of the user's leaves open, by name; empty where it leaves none open.
        results: folder of the results.
        answers: what `bench pick` would answer now for each task of the rows; None where none is timed and right.
        goal: the limits of the run.
    """
    if is_without_times(rows):
        return [_why_without_times(rows)]
    if not is_measured(rows):
        return [_failure(rows, sizes, budget_s=goal.budget_s)]
    lines = _next(rows, results=results, answers=answers, goal=goal)
    reasons = [text for row in rows if MODE in (text := row.reason or row.warning or "")]
    if reasons:
        advice = KERAS_ADVICE if any(f"; {KERAS_ADVICE}" in text for text in reasons) else ADVICE
        return [f"first {advice}, for these rows are of a model in {MODE}", *lines]
    return lines


def _next(rows: Sequence[Row], *, results: Path, answers: Sequence[Answer | None], goal: Goal) -> list[str]:
    """The outcome of a run that timed some of these rows, and what to do next; see `after`."""
    option = outcome.results_option(results)
    undecided = [row.num_launches for row in rows if row.verdict == UNDECIDED]
    launches = goal.max_launches * (2 if max(undecided, default=0) >= goal.max_launches else 1)
    num_left = sum(ranking.lacks_time(row) for row in rows)
    counts_left = ((len(undecided), "undecided"), (num_left, "not timed yet"))
    left = ", ".join(f"{number} {what}" for number, what in counts_left if number)
    longer = [f"{left}: {_same_command(goal, launches)} goes on"] if left else []
    if len(answers) == 1:
        return _of_one(answers[0], rows[0].task, goal, option, longer)
    counts = collections.Counter(NONE if answer is None else answer.choice.outcome for answer in answers)
    said = ", ".join(f"{counts[name]} {name}" for name in (WINNER, KEEP, NONE) if counts[name])
    is_led = any(answer is not None and answer.choice.leading for answer in answers)
    command = "bench best" if is_led else "bench show"
    return [f"{said} of {len(answers)} tasks", *(longer if is_led else []), f"next: {command}{option}"]


def _of_one(answer: Answer | None, task: str, goal: Goal, option: str, longer: Sequence[str]) -> list[str]:
    """The outcome for one task, and the command that goes on from there.

    Args:
        answer: what `bench pick` would answer; None where no cell was timed and is right.
        task: name of the task.
        goal: the limits of the run.
        option: the option of the folder of results.
        longer: a line on the rows that have no verdict, and on how the run goes on.
    """
    command = f"bench pick {shlex.quote(task)}"
    if answer is None or answer.choice.lacking is not None:
        why = answer.choice.lacking if answer else f"no cell of {task} was timed and is right"
        return [f"none: {why}", f"next: bench show {shlex.quote(task)}{option}"]
    choice = answer.choice
    if choice.outcome == NONE:
        assert choice.further is not None, "what has no winner needs launches"
        said, again = outcome.undecided(choice), "the same command with --force, at a quieter hour"
        if choice.further.launches is None:
            said += f"; {outcome.NOT_BY_LAUNCHES}"
        else:
            again = _same_command(goal, choice.further.launches)
        now = []
        if answer.tolerance is not None:
            share = f"{100 * answer.tolerance:g}"
            now = [
                f"{command} --tolerance {share}%{option} takes one that is at most {share} % slower than the fastest"
            ]
        return [f"none: {said}", *now, f"next: {again}"]
    if choice.outcome == WINNER:
        assert choice.shipped is not None
        name = short_name(choice.shipped)
        name += " (the model as it is)" if ranking.is_baseline(choice.shipped) else ""
        latency = f"{writing.milliseconds(choice.shipped.latency_p50_ns, '.3g')} ms"
        said = f"winner: {name}, {latency}, {outcome.regret(answer)}"
    else:
        said = f"keep: ship it as it is ({outcome.shipped(choice)}): {outcome.why_as_it_is(answer)}"
    notes = filter(None, [outcome.faster(choice), outcome.of_made_up_inputs(choice)])
    return [said, *notes, *longer, f"next: {command}{option}"]


def of_threads(scalings: Sequence[Scaling]) -> list[str]:
    """The same after a run that compared cells with themselves at several numbers of threads.

    Args:
        scalings: cells that were compared, one at least.
    """
    counts = collections.Counter(scaling.best for scaling in scalings)
    texts = []
    for best, number in counts.most_common():
        threads = f"{' or '.join(map(str, best))} thread{'s' * (best != (1,))}"
        texts.append(f"{threads} for {number} cell{'s' * (number > 1)}")
    (fewest, *_), _ = counts.most_common(1)[0]
    requests = {(str(scaling.cell.task), scaling.cell.batch) for scaling in scalings}
    task, batch = next(iter(requests)) if len(requests) == 1 else ("*", 1)
    glob = shlex.quote(f"{task}/*/{RAW}/*/b{batch}t{fewest}".replace("*/*", "*"))
    return [f"best: {', '.join(texts)}", f"next: bench run {glob}"]


def _same_command(goal: Goal, launches: int) -> str:
    """How a run goes on until its cells have so many launches: with more time, more launches or both."""
    more = [] if goal.budget_s is None else [f"--budget {_longer_min(goal.budget_s)}m"]
    more += [f"--launches {launches}"] if launches > goal.max_launches else []
    return f"the same command{' with ' * bool(more)}{' '.join(more)}"


def _longer_min(budget_s: float | None) -> int:
    """Minutes of measuring to propose after a run that had so many seconds."""
    return max(_LONGER_MIN, math.ceil(2 * (budget_s or 0.0) / 60))


def is_at_one_thread(rows: Sequence[Row]) -> bool:
    """Whether all cells of a run have one thread, and one of them is right: numbers of threads cannot be compared."""
    is_right = any(row.status == "ok" and row.fidelity != "broken" for row in rows)
    return is_right and all(row.threads == 1 for row in rows)


def unscaled(rows: Sequence[Row], sizes: Mapping[str, int], *, has_launches: bool) -> str:
    """Why no cell has a latency at several numbers of threads, and what changes that.

    Args:
        rows: as for `after`.
        sizes: as for `after`.
        has_launches: whether a cell was timed at some number of threads.
    """
    if is_without_times(rows):
        return _why_without_times(rows)
    if is_at_one_thread(rows):
        return "nothing to compare: these cells have one thread; --sweep threads has more where there are more cores"
    if has_launches:
        return _failure(rows, sizes, "no cell could be timed at one thread and at several")
    return _failure(rows, sizes)


def _why_without_times(rows: Sequence[Row]) -> str:
    return f"no time is stored, for {next(row.untimed for row in rows if row.untimed is not None)}"


def _failure(
    rows: Sequence[Row],
    sizes: Mapping[str, int],
    lacking: str = "no cell could be timed",
    budget_s: float | None = None,
) -> str:
    """Why rows have no latency: the most frequent reason, and the option that changes it.

    Args:
        rows: the rows of the run.
        sizes: as for `after`.
        lacking: the beginning of the sentence, which says what the run lacks.
        budget_s: the time that measuring had; None for no limit.
    """
    again = f"the same command with --budget {_longer_min(budget_s)}m goes on"
    if any(map(ranking.lacks_time, rows)):
        return f"{lacking} before the time was up, for preparing the cells took it; {again}"
    ended = [row for row in rows if row.status == "failed" or row.fidelity == "broken"]
    ended = ended or [row for row in rows if row.status == "skipped"]
    if not ended:
        return f"{lacking} before the time was up, for preparing the cells took it; {again}"
    counts = collections.Counter(one_line(row.reason or "no reason was given") for row in ended)
    (reason, count) = counts.most_common(1)[0]
    how = "skipped" if ended[0].status == "skipped" else "failed"
    fix = _fix(reason, sizes, rows[0].task)
    return f"{lacking}; {count} of {len(rows)} {how} with: {_shortened(reason)}; {fix}"


def _shortened(reason: str) -> str:
    """A reason without its middle, which holds paths: it begins with the step and ends with the culprit."""
    first, last = textwrap.shorten(reason, HEAD, placeholder=""), reason[-TAIL:].partition(" ")[2]
    return reason if len(reason) <= HEAD + TAIL else f"{first} ... {last}"


def _fix(reason: str, sizes: Mapping[str, int], task: str) -> str:
    if _OUT_OF_TIME in reason:
        return "--timeout 30m gives each step more time"
    if _OUT_OF_MEMORY in reason:
        return "--memory 8GiB sets what each process may take"
    if any(words in reason for words in _MISSING):
        return "a runtime of your own can register that operator: docs/troubleshooting.md, Custom operators"
    if sizes:
        now = ", ".join(f"{dim}={size}" for dim, size in sizes.items())
        return f"the sizes were {now}; {size_options.option(next(iter(sizes)), 'SIZE')} sets another"
    return f"bench show '{task}/*' --columns cell,reason lists all reasons"
