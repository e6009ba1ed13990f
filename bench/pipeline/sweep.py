"""A sweep: cells are prepared, verified, measured and stored. Nothing here prints; an observer is told of each step."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import time
from collections.abc import Callable, Sequence, Set
from typing import Any

import msgspec

from bench.api.cell import Cell
from bench.api.places import without_places
from bench.measure import rounds
from bench.measure.block import Result
from bench.measure.comparison import REFERENCE, by_block
from bench.measure.goal import Goal
from bench.measure.ledgers import Group, Ledger
from bench.pipeline import contenders, rounding, sweeps, waves
from bench.pipeline.expectations import Expected
from bench.pipeline.flow import Prepared, Verified
from bench.pipeline.looks import Until
from bench.pipeline.place import Begun, Here, Place
from bench.pipeline.quality import BROKEN
from bench.pipeline.replacements import Exports
from bench.pipeline.sweep_options import Observer, Options
from bench.pipeline.time_left import LEAST_SHARE, TimeLeft
from bench.records import metric_loss
from bench.records.lines import Failure, Header, Quality, Reset, ThreadLaunch
from bench.records.measured_cell import same_as, what_runs
from bench.records.store import LAUNCH, THREAD_LAUNCH, Record, Store

PORTION = 32
"""Spare cells that are begun before the sweep looks again whether there is time for more."""
SECOND_S = 10.0
"""Time beyond the budget, but no more than the least share of it, in which contenders get a second launch."""


class Sweep:
    """The policy of `bench run`: which cells take which stage, given the results that earlier runs stored.

    Args:
        store: where each stage's lines are kept.
        options: how the cells are prepared, verified and measured.
        observer: told of every step.
        place: where the cells run; None for this machine.
        measure: measures verified cells after their first launch, by request; None for launches until no question is
            open.

    Attributes:
        left_out: cells for which there was no time: those that compile for long, or are not expected to be the fastest.
        exports: which exports work, and the cells that were measured in place of those whose export fails.
    """

    def __init__(
        self,
        store: Store,
        options: Options,
        observer: Observer,
        place: Place | None = None,
        measure: Callable[[Sequence[Group]], None] | None = None,
    ) -> None:
        self._store = store
        self._place: Place = Here() if place is None else place
        self._measure = measure or self._answer_questions
        self._options = options
        self._observer = observer
        self._limits = options.method.limits
        self._records: dict[str, Record] = {}
        self._to_reset: set[str] = set()
        self._ledgers: dict[str, Ledger] = {}
        self._contenders: set[str] = set()
        self._values: dict[str, Verified] = {}
        self._time_left = TimeLeft(options.ends_s, options.goal.budget_s)
        self._expected: Expected
        self._cells: set[Cell] = set()
        self.left_out: list[Cell] = []
        self.exports = Exports()

    def run(self, cells: Sequence[Cell]) -> None:
        """Prepare, verify and measure the cells and the baselines that they are compared with.

        Raises:
            StoreError: results cannot be written; all finished results are kept.
        """
        wanted = [self._baselines(group) for group in dict.fromkeys(map(self._request, cells))]
        candidates = list(itertools.chain.from_iterable(wanted))
        reasons = dict(zip(candidates, self._place.skip_reasons(candidates), strict=True))
        baselines = [next((cell for cell in choices if reasons[cell] is None), None) for choices in wanted]
        extra = dict.fromkeys(cell for cell in baselines if cell is not None and cell not in cells)
        everything = [*cells, *extra]
        self._cells = set(cells)
        self._expected = Expected(self._store)
        is_whole = self._options.whole_split
        chosen = [waves.Wave(everything)] if is_whole else self._waves(everything, baselines)
        verified: list[Verified] = []
        with self._store.locked(), self._place.lease():
            num_begun = 0
            for wave in chosen:
                if not is_whole and self._is_too_late(wave):
                    self.left_out += [*wave.needed, *wave.spare]
                    continue
                before = len(self.left_out)
                if wave.needed:
                    verified += self._begin(wave.needed, baselines)
                spare = list(wave.spare)
                while spare and (num := min(PORTION, self._num_in_time(verified))):
                    verified += self._begin(spare[:num], baselines)
                    spare = spare[num:]
                self.left_out += spare
                if not is_whole:
                    num_wave = len(wave) - (len(self.left_out) - before)
                    groups, goal = self._groups(verified, self._cells), self._goal(num_wave / len(everything))
                    if any(ledger.lacks(goal.min_launches) for group in groups for ledger in group.ledgers):
                        self._time(groups, goal)
                    num_begun += num_wave
                    self._observer.standing(num_begun, len(everything))
            if is_whole:
                self._measure(self._groups(verified, self._cells))
                return
            groups = self._groups(verified, self._cells)
            verified = self._verify_contenders(groups, verified)
            groups = self._groups(verified, self._cells)
            self._measure(groups)
            self._verify_contenders(groups, verified)  # a cell may have become the fastest since

    def _waves(self, cells: Sequence[Cell], baselines: Sequence[Cell | None]) -> list[waves.Wave]:
        """The cells in the order in which they are measured; a plain export that cannot run here is no measure."""
        reasons = self._place.skip_reasons(cells)
        usable = {cell.path for cell, reason in zip(cells, reasons, strict=True) if reason is None}
        sources = (self._expected.own, self._expected.published, self._expected.of_other_tasks)
        known = [functools.partial(_of_usable, usable, source) for source in sources]
        return waves.in_waves(cells, *known, baselines=baselines)

    def _begin(self, cells: Sequence[Cell], baselines: Sequence[Cell | None]) -> list[Verified]:
        """Prepare and verify cells, with a few samples unless the whole split is to run."""
        began_s = time.monotonic()
        prepared = self._prepare(cells)
        self._store.point({record.cell.path: key for key, record in self._records.items()})
        num_new = sum(self._records[value.key].quality is None for value in prepared)
        if self._options.force:
            self._forget([value for value in prepared if value.cell not in baselines])
            num_new = len(prepared)
        verified = self._verify(prepared, None if self._options.whole_split else Until())
        self._time_left.note(time.monotonic() - began_s, num_new)
        return verified

    def _num_in_time(self, verified: Sequence[Verified]) -> int:
        """How many more cells there is time for: see `TimeLeft.num_in_time`."""
        waiting = _num_new(self._groups(verified, self._cells))
        return self._time_left.num_in_time(len(verified), waiting)

    def _is_too_late(self, wave: waves.Wave) -> bool:
        """Whether there is no time to compile the cells of a wave, as where spare cells were left out before them."""
        compiling_s = waves.compiling_s(wave.needed)
        return bool(compiling_s and self.left_out) or self._time_left.is_too_late(compiling_s)

    def _verify_contenders(self, groups: Sequence[Group], verified: Sequence[Verified]) -> list[Verified]:
        """Verify the contenders until it is known whether they keep the metric; those that follow them where not."""
        allowed = self._options.max_metric_loss
        values = {value.key: value for value in verified}
        done: set[str] = set()
        most_lossy = 0
        while True:
            now = contenders.of(groups, values, allowed)
            self._contenders |= now  # those that did not keep the metric have had their share of the error
            num_lossy = contenders.most_lossy([values[key] for key in self._contenders])
            wanted = now - done if num_lossy <= most_lossy else now  # the more share the error, the less each has
            if not wanted:
                return [values[value.key] for value in verified]
            most_lossy = num_lossy
            alike = {what_runs(values[key].cell, values[key].artifact) or key for key in wanted}
            left: dict[Until, list[Verified]] = {}
            for key, value in values.items():
                is_lossy = rounding.is_lossy(value.cell, value.quality.precision)
                limit = allowed.of(value.quality.loss_unit)
                until = Until(limit=limit, alpha=metric_loss.ALPHA / (num_lossy if is_lossy else 1))
                if (what_runs(value.cell, value.artifact) or key) in alike and not until.is_met(value.quality):
                    left.setdefault(until, []).append(value)
            for until, cells in left.items():
                survivors = {value.key: value for value in self._verify(cells, until)}
                values |= survivors
                for value in cells:
                    if value.key not in survivors and value.key in self._ledgers:  # it failed at a later sample
                        self._ledgers[value.key].failed = True
            done |= wanted

    def _request(self, cell: Cell) -> Cell | tuple[str, int, int]:
        """Equal for cells that are compared with the same baseline."""
        return dataclasses.replace(cell, threads=1) if self._options.across_threads else cell.group

    def _baselines(self, request: Cell | tuple[str, int, int]) -> list[Cell]:
        """The candidates for the baseline of a request; the first candidate that works is the baseline."""
        if isinstance(request, Cell):
            return [request]
        chosen = self._options.baseline
        return [chosen] if chosen is not None and chosen.group == request else sweeps.baselines(*request)

    def _prepare(self, cells: Sequence[Cell]) -> list[Prepared]:
        """Cells whose artifacts could be made, or others in their place; the failures of all others are stored."""
        self._observer.stage("prepare", len(cells))
        prepared: dict[Cell, Prepared] = {}
        failed: list[tuple[Begun, Failure]] = []

        def keep_begun(begun: Begun) -> None:
            self.exports.note(begun.cell, begun.outcome)
            if isinstance(begun.outcome, Failure) and begun.outcome.stage != "skip":
                failed.append((begun, begun.outcome))
                return
            record = self._open_record(begun.header)
            if isinstance(begun.outcome, Failure):
                self._stopped(record, begun.outcome)
            else:
                prepared[begun.cell] = begun.outcome
                self._observer.cell(begun.cell, "prepared")

        self._place.prepare(cells, self._limits, keep_begun)
        others: dict[Cell, None] = {}
        for begun, failure in failed:
            if (other := self.exports.in_place_of(begun.cell, self._cells)) is not None:
                others[other] = None
            else:
                self._stopped(self._open_record(begun.header), failure)
        self._cells.update(others)
        return [prepared[cell] for cell in cells if cell in prepared] + (self._prepare(list(others)) if others else [])

    def _verify(self, cells: Sequence[Prepared], until: Until | None) -> list[Verified]:
        """Cells that run; the quality of each is stored, as judged against the present reference."""
        self._observer.stage("verify", len(cells))
        verified: dict[Cell, Verified] = {}
        stored = {value.key: self._records[value.key].quality for value in cells}
        known = {key: quality for key, quality in stored.items() if quality is not None}
        callback = functools.partial(self._judged, verified=verified)
        self._place.verify(cells, known, self._limits, until, callback)
        return [verified[value.cell] for value in cells if value.cell in verified]

    def _judged(self, cells: Sequence[Prepared], outcome: Verified | Failure, verified: dict[Cell, Verified]) -> None:
        """Store the quality of cells that run the same graph, or the failure that stopped them."""
        for value in cells:
            if isinstance(outcome, Failure):
                self._stopped(self._records[value.key], outcome)
                continue
            record, now = self._records[value.key], outcome.quality
            quality = record.quality
            if quality is None or quality.judges != now.judges or _extent(quality) < _extent(now):
                quality = now
                self._store.append(value.key, quality)
                self._records[value.key] = dataclasses.replace(record, quality=quality, failure=None)
                if quality.fidelity == BROKEN:
                    self._discard_launches(value.key)
            verified[value.cell] = Verified.of(value, quality=quality, inputs=outcome.inputs)
            self._observer.cell(value.cell, now.fidelity)

    def _discard_launches(self, key: str) -> None:
        """Drop the launches of a cell that was timed before its outputs were known to be broken."""
        record, ledger = self._records[key], self._ledgers.get(key)
        if record.launches or record.thread_launches or (ledger is not None and ledger.launches):
            self._store.append(key, Reset())
            self._records[key] = dataclasses.replace(record, launches=(), thread_launches=())

    def _groups(self, cells: Sequence[Verified], wanted: set[Cell]) -> list[Group]:
        """The cells to time, in groups with their baselines, without repetitions of the same graph."""
        sound = [value for value in cells if value.quality.is_timed]
        twins = same_as([self._records[value.key] for value in sound if value.cell in wanted])
        groups = []
        for request in dict.fromkeys(self._request(value.cell) for value in sound):
            members = {value.cell: value for value in sound if self._request(value.cell) == request}
            baseline = next((cell for cell in self._baselines(request) if cell in members), next(iter(members)))
            timed = [cell for cell in members if cell in wanted and (cell.path not in twins or cell == baseline)]
            if self._options.across_threads and (baseline.threads != 1 or timed == [baseline]):
                continue  # nothing to compare, or nothing to compare it with
            known = {cell for cell in members if members[cell].key in self._ledgers}
            ledgers = {cell: self._ledger(members[cell]) for cell in {baseline: 0, **dict.fromkeys(timed)}}
            groups.append(Group(baseline=ledgers[baseline], ledgers=[ledgers[cell] for cell in timed]))
            if self._options.force and baseline not in known:  # not reset: other cells' launches need those beside them
                ledgers[baseline].num_stale = len(by_block(ledgers[baseline].launches, REFERENCE))
        self._values |= {value.key: value for value in sound}
        self._mark_candidates(groups)
        return groups

    def _ledger(self, value: Verified) -> Ledger:
        """The ledger of a cell, which stays the same while its launches come in."""
        if value.key not in self._ledgers:
            record = self._records[value.key]
            launches = record.thread_launches if self._options.across_threads else record.launches
            self._ledgers[value.key] = Ledger(
                subject=self._place.subject(value),
                launches=list(launches),
                tick_ns=value.quality.clock_tick_ns,
                expected=0.0 if launches else self._expected.ratio(value.cell.path),
            )
        return self._ledgers[value.key]

    def _mark_candidates(self, groups: Sequence[Group]) -> None:
        """Say which cells of each group may win, by the launches so far: see `contenders.that_keep`."""
        precisions = {
            record.cell.path: record.quality.precision
            for record in self._records.values()
            if record.quality is not None
        }
        allowed, tolerance = self._options.max_metric_loss, self._options.goal.aims.regret
        for group in groups:
            names = contenders.that_keep(group, self._values, precisions, allowed, tolerance)
            for ledger in group.ledgers:
                ledger.may_win = ledger.name in names

    def _answer_questions(self, groups: Sequence[Group]) -> None:
        """Time cells until no question is open or the time is up."""
        if self._options.whole_split:  # no wave has given them a first launch
            self._time(groups, self._goal(1.0))
            self._mark_candidates(groups)
        self._time(groups, self._goal())

    def _time(self, groups: Sequence[Group], goal: Goal) -> None:
        self._observer.stage("measure", sum(len(group.ledgers) for group in groups))
        method, blocks, began_s = self._options.method, self._place.blocks(), time.monotonic()
        num_new = _num_new(groups)
        # First launches are brief. Where preparing took all of the time, a block that is cut would leave no table.
        has_launches = any(ledger.launches for group in groups for ledger in (group.baseline, *group.ledgers))
        rounds.measure(
            groups,
            method,
            goal,
            keep=self._keep,
            report=self._observer.progress,
            cut_blocks=has_launches or self._options.whole_split,
            blocks=blocks,
        )
        self._time_left.note_launches(time.monotonic() - began_s, num_new - _num_new(groups))
        for group in groups:
            if group.baseline.failed:
                reason = f"not timed: its baseline {group.baseline.subject.cell} failed"
                for ledger in group.ledgers:
                    self._keep_untimed(ledger.subject.key, reason)

    def _goal(self, share: float | None = None) -> Goal:
        """The goal, with the budget that is left now.

        Args:
            share: of the whole budget, for one launch of each cell that has none; None for all that is left.
        """
        goal = self._options.goal
        if share is not None:
            goal = dataclasses.replace(goal, max_launches=goal.min_launches, is_brief=True)
        left_s = self._time_left.to_measure_s()
        if goal.budget_s is None or left_s is None:
            return goal
        if share is not None:
            return dataclasses.replace(goal, budget_s=min(left_s, share * goal.budget_s))
        second_s = min(SECOND_S, LEAST_SHARE * goal.budget_s)
        return dataclasses.replace(goal, budget_s=max(0.0, left_s), second_s=second_s)

    def _keep(self, result: Result) -> None:
        """Store the result of a block; the baseline's launches first, for the others mean nothing without them."""
        kind = THREAD_LAUNCH if self._options.across_threads else LAUNCH
        for subject, launch in (*result.launches, *result.superseded):
            if subject.key in self._to_reset:
                self._to_reset.remove(subject.key)
                self._store.append(subject.key, Reset(launches=kind))
            line = ThreadLaunch(**msgspec.structs.asdict(launch)) if self._options.across_threads else launch
            self._store.append(subject.key, line)
        for failure in result.again:  # a record's failure is its last line
            self._store.append(failure.subject.key, Failure.of(failure.stage, failure.error))
        for failure in result.failures:
            self._store.append(failure.subject.key, Failure.of(failure.stage, failure.error))
            self._observer.cell(failure.subject.cell, f"failed: {failure.error.reason}")
        self._observer.measured([subject.cell for subject, _ in result.launches])

    def _keep_untimed(self, key: str, reason: str) -> None:
        """Store why a sound cell has no figures; a cell that has a reason of its own keeps that reason."""
        record = self._store.read(key)
        if record is not None and not (record.failure or record.launches or record.thread_launches):
            self._store.append(key, Failure(stage="measure", reason=reason))
            self._observer.cell(record.cell, f"failed: {reason}")

    def _forget(self, cells: Sequence[Prepared]) -> None:
        """Start the records of cells anew; the stored lines stay valid until each cell's first new launch."""
        launches = "thread_launches" if self._options.across_threads else "launches"
        forgotten: dict[str, Any] = {"quality": None, "failure": None, launches: ()}
        for value in cells:
            self._records[value.key] = dataclasses.replace(self._records[value.key], **forgotten)
            self._to_reset.add(value.key)

    def _stopped(self, record: Record, failure: Failure) -> None:
        """Store the failure that stopped a cell; the same reason to skip a cell is stored once."""
        reason = without_places(failure.reason)  # as the record has it
        if failure.stage != "skip" or record.failure is None or record.failure.reason != reason:
            self._store.append(record.key, failure)
        self._observer.cell(record.cell, f"{failure.status}: {failure.reason}")

    def _open_record(self, header: Header) -> Record:
        """The record that begins with a header; a new record where none is stored."""
        record = self._records.get(header.key) or self._store.read(header.key)
        if record is None:
            self._store.append(header.key, header)
            record = self._store.read(header.key)
            assert record is not None
        self._records[header.key] = record
        return record


def _of_usable(usable: Set[str], ratio: Callable[[str], float], path: str) -> float:
    return ratio(path) if path in usable else 0.0


def _num_new(groups: Sequence[Group]) -> int:
    """The number of cells that have no launch yet, and get one."""
    ledgers = [ledger for group in groups if not group.baseline.failed for ledger in group.ledgers]
    return sum(not (ledger.launches or ledger.failed) for ledger in ledgers)


def _extent(quality: Quality) -> float:
    """The number of samples that a quality is of; the whole split is more than any number."""
    return math.inf if isinstance(quality.num_samples, msgspec.UnsetType) else quality.num_samples
