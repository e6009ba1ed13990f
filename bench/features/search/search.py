"""The rounds of a search: proposals are measured, their effects fitted, and better ones proposed, until the time is up.

Proposals are cells of the task that `bench.plugins.tuning` makes, so each of them is a stored row, and a search that is
started again measures none of them twice. What is left in the end is confirmed on the task itself, by the test split.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence

from bench.api.cell import Cell
from bench.api.loss_units import ANY
from bench.features.search import assignment, effects
from bench.features.search.design import ON, Choice, Design
from bench.features.search.effects import Effects, Tried
from bench.features.search.proposals import LATENCY, MEMORY, SIZE, Proposal, in_words, tried_of
from bench.pipeline.sweep import Sweep
from bench.pipeline.sweep_options import Observer, Options
from bench.records import folder
from bench.records.store import Record, Store

BEST = {LATENCY: "fastest", SIZE: "smallest", MEMORY: "least memory"}
AT_ONCE = 10
"""Proposals of one round: after each round the time is looked at."""
REPLAYED_AT_ONCE = 50
"""Proposals of an earlier search that are tried together: most are stored."""
_LAUNCHES = 2
"""Launches of a proposal: many proposals tell more about the effects than many launches of each."""
_LAUNCH_S = 3.0
"""Time for a launch of a proposal, at most."""
_MOST_ROUNDS = 500
"""Rounds of a design, those of earlier searches included: time ends a search before."""
_KEPT, _NEAR = 2, 1.25
"""Designs that are searched further after all have begun, and what the best of them costs at most, over the least."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What is known of a design.

    Attributes:
        design: the design.
        tried: the proposals that ran, the base among them.
    """

    design: Design
    tried: tuple[Tried, ...]

    @property
    def proposals(self) -> list[Proposal]:
        """The proposals that ran, the base among them."""
        return [Proposal(design=self.design, choice=trial.choice, tried=trial) for trial in self.tried]

    def effects(self) -> Effects:
        """The effects of all letters, by the proposals."""
        base = next(trial for trial in self.tried if trial.choice == self.design.plain)
        return effects.fit(self.design, [trial for trial in self.tried if trial is not base], base)


def run(designs: Sequence[Design], make: Callable[[Design, Cell], Search], ends_s: float) -> list[Search]:
    """Search over several designs: all begin, and the best go on.

    Args:
        designs: the designs.
        make: makes the search over a design, whose latencies are over those of a cell: the base of the first design
            that runs.
        ends_s: time by `time.monotonic` at which no further round begins.

    Returns:
        The searches whose base runs.
    """
    begun: list[Search] = []
    for design in designs:
        if begun and time.monotonic() >= ends_s:
            break
        search = make(design, begun[0].design.base if begun else design.base)
        search.begin(ends_s)
        if search.is_sound:
            begun.append(search)
    by_file: dict[object, Search] = {}
    for search in sorted(begun, key=lambda each: each.best_cost):
        # a file has one size on every runtime
        by_file.setdefault(search.file if search.objective == SIZE else search, search)
    least = min((each.best_cost for each in begun), default=math.inf)
    chosen = [each for each in by_file.values() if each.best_cost <= _NEAR * least][:_KEPT]
    for _ in chosen:  # a search that ends early leaves its time to those before it
        waiting = [each for each in chosen if not each.is_done]
        for number, search in enumerate(waiting):
            search.go_on(time.monotonic() + (ends_s - time.monotonic()) / (len(waiting) - number))
    return begun


class Search:
    """The search over one design.

    Args:
        start: the design to begin with.
        baseline: the cell that the proposals of all designs are compared with.
        store: where rows are stored.
        options: how rows are measured.
        observer: told of every step.
        objective: what is to be made small, one of `FIGURES`.
        say: called with a line after each round.
        earlier: what an earlier search over the same design tried, which this one goes on from.
    """

    def __init__(
        self,
        start: Design,
        baseline: Cell,
        store: Store,
        options: Options,
        observer: Observer,
        objective: str,
        say: Callable[[str], None],
        earlier: Outcome | None = None,
    ) -> None:
        self._start, self._earlier = start, earlier
        self._numbers = {} if earlier is None else {trial.choice: trial.number for trial in earlier.tried}
        self.design = start if earlier is None else earlier.design
        self._store, self._observer = store, observer
        self._options = dataclasses.replace(options, baseline=baseline, max_metric_loss=ANY)
        self.objective, self._say = objective, say
        self._tried: dict[Choice, Tried | None] = {}
        self._waiting: list[Choice] = []
        self._num_rounds = 0
        self._is_exhausted = False
        self._reason = ""

    def begin(self, ends_s: float) -> None:
        """Try the base and each letter everywhere: what tells designs apart.

        Args:
            ends_s: time by `time.monotonic` at which measuring ends.
        """
        # Sizes add up whatever the neighbours are, but for the vectors that the first node in blocks makes smaller.
        first = self._start.first(with_neighbours=self.objective != SIZE)
        first = [self.design.translated(choice, self._start) for choice in first]
        uniform = [self.design.uniform(letter) for letter in dict.fromkeys("".join(self.design.letters))]
        self._round([self.design.plain, *(choice for choice in first if choice in uniform)], ends_s)
        self._waiting = [choice for choice in first if choice not in self._tried]

    def go_on(self, ends_s: float) -> None:
        """Try proposals until no better one is expected, or the time is up.

        Args:
            ends_s: time by `time.monotonic` at which no further round begins.
        """
        self._replay(ends_s)
        while not self.is_done and time.monotonic() < ends_s:
            waiting = [choice for choice in self._waiting if choice not in self._tried and self._is_allowed(choice)]
            self._waiting = waiting or self._next()
            batch, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
            if not batch:
                self._is_exhausted = True
                return
            self._round(batch, ends_s)

    @property
    def is_sound(self) -> bool:
        """Whether the base runs, without which nothing can be told of the proposals."""
        return self._tried.get(self.design.plain) is not None

    @property
    def is_done(self) -> bool:
        """Whether there is nothing more to try."""
        return self._is_exhausted or not self.is_sound or self._num_rounds >= _MOST_ROUNDS

    @property
    def file(self) -> tuple[str, str | None]:
        """Equal for designs whose proposals are the same files."""
        return self.design.base.artifact_path, self.design.variant

    @property
    def outcome(self) -> Outcome:
        """What is known so far."""
        return Outcome(design=self.design, tried=tuple(trial for trial in self._tried.values() if trial is not None))

    @property
    def proposals(self) -> list[Proposal]:
        """The proposals that ran, the base among them."""
        return self.outcome.proposals

    @property
    def best_cost(self) -> float:
        """The least cost of a proposal that ran."""
        return min((proposal.cost(self.objective) for proposal in self.proposals), default=math.inf)

    def _replay(self, ends_s: float) -> None:
        """Try what an earlier search tried, the best first: what is stored, and not stale, is not measured again."""
        if self._earlier is None:
            return
        proposals = sorted(self._earlier.proposals, key=lambda proposal: proposal.cost(self.objective))
        waiting = [proposal.choice for proposal in proposals if proposal.choice not in self._tried]
        self._num_rounds = max(self._numbers.values())
        for start in range(0, len(waiting), REPLAYED_AT_ONCE):
            if time.monotonic() >= ends_s:
                return
            self._measure(waiting[start : start + REPLAYED_AT_ONCE], ends_s)
        self._tell()

    def _round(self, batch: Sequence[Choice], ends_s: float) -> None:
        self._num_rounds += 1
        self._measure(batch, ends_s)
        self._tell()

    def _tell(self) -> None:
        best = min(self.proposals, key=lambda proposal: proposal.cost(self.objective), default=None)
        why = f" ({self._reason})" if self._reason else ""
        summary = f"nothing ran{why}" if best is None else f"{BEST[self.objective]} {in_words(best, self.objective)}"
        where = f"{self.design.base.exporter} on {self.design.base.runtime}/{self.design.base.provider}"
        ran = f"{len(self.proposals)} of {len(self._tried)} proposals ran"
        self._say(f"{where}, round {self._num_rounds}, {ran}; {summary}")

    def effects(self) -> Effects:
        """The effects of all letters, by what was tried so far."""
        return self.outcome.effects()

    def _next(self) -> list[Choice]:
        """The most promising choices that were not tried; of a finer design where the present one has no more."""
        while True:
            estimates = self.effects()
            costs = {LATENCY: estimates.ratio, SIZE: estimates.size_bytes, MEMORY: estimates.memory_bytes}[
                self.objective
            ]
            sound = self.design.without(self._banned())
            waiting = [choice for choice in assignment.ladder(sound, estimates, costs) if choice not in self._tried]
            if waiting:
                return waiting
            group = self._noisiest(estimates)
            if group is None:
                return []
            self._split(group)
            new = [choice for number, _, choice in self.design.singles() if number in (group, group + 1)]
            return [choice for choice in new if choice not in self._tried and self._is_allowed(choice)]

    def _noisiest(self, estimates: Effects) -> int | None:
        """The group of several parts whose letter adds most noise to the best choices; None where none can be cut."""
        sums: dict[int, float] = {}
        for (group, _), noise in estimates.noise.items():
            if len(self.design.groups[group]) > 1:
                sums[group] = max(sums.get(group, 0.0), noise)
        return max(sums, key=sums.__getitem__, default=None)

    def _split(self, group: int) -> None:
        coarse, self.design = self.design, self.design.split(group)
        self._tried = {
            coarse.refined(choice, group): tried and dataclasses.replace(tried, choice=coarse.refined(choice, group))
            for choice, tried in self._tried.items()
        }

    def _banned(self) -> dict[int, str]:
        """The letters not to try again, by group: a group failed with it alone, or another letter is always better."""
        banned: dict[int, str] = {}
        beaten = self._beaten()
        for group, letter, single in self.design.singles():
            is_beaten = any(other in self.design.letters[group] for other in beaten.get(letter, ""))
            if is_beaten or self._tried.get(single, ...) is None:
                banned[group] = banned.get(group, "") + letter
        return banned

    def _beaten(self) -> dict[str, str]:
        """Letters that everywhere save nothing, each with those that everywhere save something and add less noise."""
        uniform = {letter: self._tried.get(self.design.uniform(letter)) for letter in {*"".join(self.design.letters)}}
        costs = {
            letter: (Proposal(design=self.design, choice=trial.choice, tried=trial).cost(self.objective), trial.noise)
            for letter, trial in uniform.items()
            if trial is not None and trial.choice != self.design.plain and letter != ON
        }
        plain = next(
            proposal.cost(self.objective) for proposal in self.proposals if proposal.choice == self.design.plain
        )
        better = {letter: noise for letter, (cost, noise) in costs.items() if cost < plain}
        return {
            letter: "".join(other for other, less in better.items() if less <= noise)
            for letter, (cost, noise) in costs.items()
            if cost >= plain
        }

    def _is_allowed(self, choice: Choice) -> bool:
        return all(choice[group] not in letters for group, letters in self._banned().items())

    def _measure(self, choices: Sequence[Choice], ends_s: float) -> None:
        self._tried |= dict.fromkeys(choices)
        cells = {choice: self.design.cell(choice) for choice in choices if self.design.has_name(choice)}
        if not cells:
            return
        launches = _LAUNCHES if self.objective == LATENCY else 1  # size needs none, and memory is told by each
        budget_s = max(_LAUNCH_S, min(_LAUNCH_S * launches * len(cells), ends_s - time.monotonic()))
        goal = dataclasses.replace(self._options.goal, max_launches=launches, budget_s=budget_s)
        options = dataclasses.replace(self._options, goal=goal)
        Sweep(self._store, options, self._observer).run(list(cells.values()))
        # A search for another objective may have measured the same cells beside another baseline.
        beside = str(self._options.baseline)
        stored = folder.stored(self._store, margin=goal.aims.margin, tasks={str(self.design.base.task)}, beside=beside)
        rows = {row.cell: row for row in stored.rows}
        for choice, cell in cells.items():
            row = rows.get(cell.path)
            self._reason = (row.reason if row is not None else None) or self._reason
            tried = None if row is None else tried_of(choice, row, rows, _metrics(stored.records.get(cell.path)))
            number = self._numbers.get(choice, self._num_rounds)
            self._tried[choice] = None if tried is None else dataclasses.replace(tried, number=number)


def _metrics(record: Record | None) -> Mapping[str, float | None]:
    """Every metric of a stored cell by name."""
    return (record.quality.metrics if record is not None and record.quality is not None else None) or {}
