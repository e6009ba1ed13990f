"""A whole search: the fixed matrix, the proposals of all designs, and the finalists beside the best of the matrix."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.api import Task
from bench.api.cell import Cell
from bench.api.errors import InputError
from bench.api.loss_units import ANY
from bench.api.names import Role, TaskName
from bench.decisions.constraints import Constraints
from bench.features.search import confirm, initial_designs, saved, search
from bench.features.search.confirm import Confirmed
from bench.features.search.design import Design
from bench.features.search.saved import SavedSearch
from bench.features.search.search import Outcome
from bench.measure.goal import Goal
from bench.pipeline.sweep import Sweep
from bench.pipeline.sweep_options import Observer, Options
from bench.plugins import catalog
from bench.records import folder
from bench.records.folder import Results
from bench.records.store import Store

_SEARCH_SHARE, _MATRIX_SHARE = 0.7, 0.3
"""Shares of the time: until the last round begins, and for the fixed matrix where nothing is stored of it."""
RIVALS, ASKED = 2, 6
"""Cells of the fixed matrix that are measured beside the finalists in the end, and cells of the fixed matrix that are
asked whether they keep the metric by all held-out samples. Where none of these does, lossless ones are asked: what
is slower than the plain model is no winner."""
_MOST_LAUNCHES = 24
_LEAST_S = 20.0
"""Time to measure these, at least: what was found is lost if the fixed matrix took longer than its share."""
_RIVALS_SHARE = 0.3
"""Share of the time left after the last round, after which one cell of the matrix that keeps the metric is enough."""
_CONFIRMING_SHARE = 0.6
"""Share of the time left after the first finalist was confirmed, for confirming the others."""
_CONFIRMING_S = 5.0
"""Time for measuring a finalist while its metric is confirmed, which asks for no latency."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Searched:
    """What a search found.

    Attributes:
        confirmed: the finalists beside the fixed matrix.
        outcomes: the designs whose base ran, with their proposals.
        stored: the results of the task itself.
        is_cut: whether the time was up before there was nothing more to try.
    """

    confirmed: Confirmed
    outcomes: Sequence[Outcome]
    stored: Results
    is_cut: bool


class Keeping:
    """Keeps a search after each of its rounds, together with what an earlier one of the same question tried.

    Args:
        place: the folder of the machine's results.
        request: task, batch and threads.
        objective: one of `proposals.FIGURES`.
        designs: the designs to search over; what was tried of others is not kept any longer.
    """

    def __init__(self, place: Path, request: tuple[str, int, int], objective: str, designs: Sequence[Design]) -> None:
        self._place = place
        self._request, self._objective = request, objective
        saved_search = saved.earlier(place, request, objective)
        outcomes = saved_search.outcomes if saved_search is not None else ()
        self._earlier = [
            outcome for outcome in outcomes if any(outcome.design.chooses_like(design) for design in designs)
        ]
        proposed = {proposal.cell_of(request[0]) for outcome in self._earlier for proposal in outcome.proposals}
        self.winner = next(
            (cell for cell in proposed if saved_search is not None and cell.path == saved_search.winner), None
        )
        self.begun: list[search.Search] = []

    def earlier(self, design: Design) -> Outcome | None:
        """What an earlier search tried of a design."""
        return next((outcome for outcome in self._earlier if outcome.design.chooses_like(design)), None)

    def keep(self, *, is_over: bool = False, winner: Cell | None = None) -> None:
        """Keep what is known of all designs, as soon as that is as much as an earlier search knew, and in the end.

        Args:
            is_over: whether this is the end.
            winner: the proposal that won; without it the winner of the earlier search stays.
        """
        self.winner = winner or self.winner
        mine = [each.outcome for each in self.begun if each.is_sound]
        others = [
            outcome for outcome in self._earlier if not any(outcome.design.chooses_like(two.design) for two in mine)
        ]
        outcomes = (*mine, *others)
        if not is_over and _num_tried(outcomes) < _num_tried(self._earlier):
            return  # what that one tried is being tried again
        path = None if self.winner is None else self.winner.path
        whole = SavedSearch(
            schema=saved.SCHEMA, request=self._request, objective=self._objective, outcomes=outcomes, winner=path
        )
        saved.save(self._place, whole)


def has_further_samples(task: Task) -> bool:
    """Whether a task says that it has more held-out samples than its test split."""
    return getattr(task.confirmation, "__func__", None) is not Task.confirmation


def _num_tried(outcomes: Sequence[Outcome]) -> int:
    return sum(len(outcome.tried) for outcome in outcomes)


def run(
    request: tuple[str, int, int],
    constraints: Constraints,
    objective: str,
    ends_s: float,
    store: Store,
    options: Options,
    observer: Observer,
    say: Callable[[str], None],
) -> Searched:
    """Search for a deployment.

    Args:
        request: task, batch and threads.
        constraints: what the deployment must keep to.
        objective: one of `proposals.FIGURES`.
        ends_s: time by `time.monotonic` at which the search is to end.
        store: where rows are stored.
        options: how rows are measured.
        observer: told of every step.
        say: called with a line after each round.

    Raises:
        InputError: nothing can be chosen for any export of the task here, or none of these exports runs.
    """
    task, batch, threads = request
    has_more = has_further_samples(catalog.task(task))
    held_out = dataclasses.replace(TaskName.parse(task), role=Role.CONFIRMATION) if has_more else None

    def left_s() -> float:
        return max(1.0, ends_s - time.monotonic())

    def measure(cells: Sequence[Cell], budget_s: float) -> Results:
        goal = Goal(max_launches=_MOST_LAUNCHES, budget_s=budget_s)
        Sweep(store, dataclasses.replace(options, goal=goal), observer).run(cells)
        return folder.stored(store, tasks={task})

    def judged(cell: Cell) -> tuple[Results, Results | None, bool | None]:
        """The results of the task and of its held-out samples, and whether a cell keeps the metric by these."""
        stored = measure([cell], _CONFIRMING_S)
        if held_out is None:
            return stored, None, confirm.keeps(cell, stored, None, constraints)
        measure([dataclasses.replace(cell, task=held_out)], _CONFIRMING_S)
        more = folder.stored(store, tasks={str(held_out)})
        return stored, more, confirm.keeps(cell, stored, more, constraints)

    stored, more = folder.stored(store, tasks={task}), None
    fixed = initial_designs.matrix(task, batch, threads)
    if confirm.is_partial(stored, fixed):
        stored = measure(fixed, _MATRIX_SHARE * left_s())
    designs = initial_designs.designs(request, objective, options.method.limits, stored.rows, say)
    if not designs:
        raise InputError(f"nothing can be chosen for an export of {task} here; `bench list` says why")

    keeping = Keeping(stored.folder, request, objective, designs)

    def begin(design: Design, baseline: Cell) -> search.Search:
        known = keeping.earlier(design)
        new_search = search.Search(design, baseline, store, options, observer, objective, said, known)
        keeping.begun.append(new_search)
        return new_search

    def said(line: str) -> None:
        say(line)
        keeping.keep()

    until_s = time.monotonic() + _SEARCH_SHARE * left_s()
    searches = search.run(designs, begin, until_s)
    is_cut = time.monotonic() >= until_s
    if not searches:
        raise InputError(f"no export of {task} that something can be chosen for runs here; `bench run {task}` says why")
    outcomes = tuple(each.outcome for each in searches)
    stored = folder.stored(store, tasks={task})
    rivals: list[Cell] = []
    rivals_until_s = time.monotonic() + _RIVALS_SHARE * left_s()
    ranked = confirm.rivals(stored, request, constraints, objective)
    plain = [cell for cell in ranked[ASKED:] if initial_designs.is_lossless(cell.variant)][:ASKED]
    for number, cell in enumerate([*ranked[:ASKED], *plain]):
        if len(rivals) == RIVALS or (rivals and (number >= ASKED or time.monotonic() >= rivals_until_s)):
            break
        stored, more, keeps_metric = judged(cell)
        rivals += [cell] if keeps_metric else []
    base = searches[0].design.base
    to_beat = confirm.cost_to_beat(stored.rows, rivals[0].path if rivals else None, base, objective)
    proposals = [proposal for outcome in outcomes for proposal in outcome.proposals]
    finalists: list[Cell] = []
    keepers: list[Cell] = []
    before = keeping.winner
    if before is not None:  # what is no better than what won before need not be asked, unless that is too bad now
        finalists.append(before)
        stored, more, keeps_metric = judged(before)
        if keeps_metric:
            keepers.append(before)
            costs = (proposal.cost(objective) for proposal in proposals if proposal.cell_of(task) == before)
            to_beat = min(to_beat, *costs, math.inf)
    allowed = constraints.max_metric_loss
    limit = None if allowed is None else allowed.of(catalog.task(task).metric_loss_unit)
    waiting = confirm.finalists(proposals, objective, task, to_beat, max_metric_loss=limit)
    is_first = True
    while waiting:
        began_s = time.monotonic()
        finalists.append(waiting.pop(0))
        stored, more, keeps_metric = judged(finalists[-1])
        if keeps_metric is False:
            break
        keepers += finalists[-1:] if keeps_metric else []
        if is_first:  # by how long it took, and not by what it told
            number = 1 + int(_CONFIRMING_SHARE * left_s() / (time.monotonic() - began_s))
            waiting = confirm.finalists(proposals, objective, task, to_beat, number, limit)[1:]
            is_first = False
    keepers.sort(key=lambda cell: cell == before)  # among the last, which are measured at length
    # All of these keep the metric, whatever the bound by the test split alone says: so all may win.
    options = dataclasses.replace(options, max_metric_loss=ANY)
    stored = measure([*keepers[-confirm.TIMED :], *rivals], max(_LEAST_S, left_s()))
    confirmed = confirm.confirmed(stored, request, (finalists, keepers, rivals), constraints, objective, more)
    winner = Cell.from_path(confirmed.winner.cell) if confirmed.winner is not None and confirmed.is_searched else None
    keeping.keep(is_over=True, winner=winner)
    return Searched(confirmed=confirmed, outcomes=outcomes, stored=stored, is_cut=is_cut)
