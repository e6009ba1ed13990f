"""The last line of `bench run`: the command that goes on from here, or why nothing was timed and what changes that."""

from __future__ import annotations

import collections
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.measure.stats import UNDECIDED
from bench.records.ranking import is_timed
from bench.records.rows import Row
from bench.report.writing import one_line

RESULTS = Path("results")
"""Folder of the results that commands take by default."""
HEAD, TAIL = 50, 110
"""Characters of a reason's beginning and end that are shown."""
OUT_OF_TIME, OUT_OF_MEMORY = "no answer within", "out of memory"
"""Words in the reasons of `bench.measure.process`."""
MISSING = ("not a registered", "NOT_IMPLEMENTED", "No Op registered", "NotImplemented")
"""Words in reasons that say that a runtime lacks an operator."""


def is_measured(rows: Sequence[Row]) -> bool:
    """Whether a cell was timed, or is the same as another."""
    return any(is_timed(row) or row.same_as for row in rows)


def after(rows: Sequence[Row], *, sizes: Mapping[str, int], results: Path) -> str:
    """What to do after a run of these rows.

    Args:
        rows: the rows of the run.
        sizes: sizes of the dimensions that a model of the user's leaves open, by name; empty where it leaves none open.
        results: folder of the results.
    """
    if not is_measured(rows):
        return _failure(rows, sizes)
    option = "" if results == RESULTS else f" --results {shlex.quote(str(results))}"
    undecided = sum(row.verdict == UNDECIDED for row in rows)
    longer = f" ({undecided} undecided: the same command with --budget 5m goes on)" if undecided else ""
    tasks = sorted({row.task for row in rows})
    if len(tasks) > 1:
        return f"next: bench best{option}{longer}"
    return f"next: bench pick {tasks[0]} --max-metric-drop 1%{option}{longer}"


def _failure(rows: Sequence[Row], sizes: Mapping[str, int]) -> str:
    """Why no row has a latency: the most frequent reason, and the option that changes it."""
    ended = [row for row in rows if row.status == "failed" or row.fidelity == "broken"]
    ended = ended or [row for row in rows if row.status == "skipped"]
    if not ended:
        return "no cell could be timed before the time was up; the same command with --budget 5m goes on"
    counts = collections.Counter(one_line(row.reason or "no reason was given") for row in ended)
    (reason, count) = counts.most_common(1)[0]
    how = "skipped" if ended[0].status == "skipped" else "failed"
    fix = _fix(reason, sizes, rows[0].task)
    return f"no cell could be timed; {count} of {len(rows)} {how} with: {_shortened(reason)}; {fix}"


def _shortened(reason: str) -> str:
    """A reason without its middle, which holds paths: it begins with the step and ends with the culprit."""
    first, last = textwrap.shorten(reason, HEAD, placeholder=""), reason[-TAIL:].partition(" ")[2]
    return reason if len(reason) <= HEAD + TAIL else f"{first} ... {last}"


def _fix(reason: str, sizes: Mapping[str, int], task: str) -> str:
    if OUT_OF_TIME in reason:
        return "--timeout 30m gives each step more time"
    if OUT_OF_MEMORY in reason:
        return "--memory 8GiB sets what each process may take"
    if any(words in reason for words in MISSING):
        return "a runtime of your own can register that operator: docs/troubleshooting.md, Custom operators"
    if sizes:
        now = ", ".join(f"{dim}={size}" for dim, size in sizes.items())
        return f"the sizes were {now}; --dim {next(iter(sizes))}=SIZE sets another"
    return f"bench show '{task}/*' --columns cell,reason lists all reasons"
