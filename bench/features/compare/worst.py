"""The part of a model that explains the worst change of a comparison: see `bench.pipeline.slowdown`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from bench.api import loading
from bench.api.cell import Cell
from bench.api.errors import BenchError, InputError
from bench.features.compare.changes import Compared
from bench.measure import stats
from bench.measure.limits import Limits
from bench.pipeline import slowdown
from bench.tasks import adopt

_BUDGET_S = 300.0


def blamed(compared: Compared, *, tell: Callable[[str], None]) -> Compared:
    """The comparison with a remark on which part makes the cell slower that became slowest, or on why that is unknown.

    Raises:
        InputError: both sides are the same cell, as of two folders of results: there is nothing to measure beside it.
    """
    slower = next((change for change in compared.changes if change.verdict == stats.SLOWER), None)
    if slower is None or slower.before is None or slower.after is None:
        return compared
    paths = (slower.before.cell, slower.after.cell)
    if paths[0] == paths[1]:
        raise InputError(
            f"{paths[0]} is one cell on both sides, and only what can be measured now is looked into",
            fix="leave --blame out, or name two cells, two revisions with --model, or versions with --with",
        )
    limits = Limits.of(step_s=None, memory_bytes=None)
    try:
        before, after = (slowdown.of_cell(_known(path), limits) for path in paths)
        question = slowdown.Question(
            before=before, after=after, names=paths, budget_s=_BUDGET_S, limits=limits, tell=tell
        )
        text = slowdown.explained(question)
    except (BenchError, OSError) as error:
        text = f"{slowdown.UNTOLD}: {error}"
    return dataclasses.replace(compared, remarks=(*compared.remarks, f"{slower.cell}: {text}"))


def _known(path: str) -> Cell:
    """A cell of stored results, whose task may be a model of one's own that was measured before.

    Raises:
        InputError: its model is not known here any more.
    """
    cell = Cell.from_path(path)
    if cell.task.model not in loading.find("models") and adopt.recall(cell.task.model) is None:
        raise InputError(f"no model {cell.task.model} is known here; `bench run --model FILE` makes it known")
    return cell
