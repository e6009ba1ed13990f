"""One sweep, one way: cells -> prepare -> verify -> measure -> store. Nothing here prints; an observer is told."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import BenchError, ChildError, PluginError, RefusedError
from bench.measure import machine, rounds
from bench.measure.at_once import at_once
from bench.measure.block import Method, Result, Subject
from bench.measure.rounds import Goal, Group, Ledger, Progress
from bench.pipeline import prepare, provenance, sweeps, verify
from bench.pipeline.provenance import judge_digest, record_key
from bench.pipeline.quality import BROKEN
from bench.pipeline.verify import Reference
from bench.plugins import catalog
from bench.records.store import LAUNCH, SCHEMA, THREAD_LAUNCH, Line, Record, Store, same_as, what_runs

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class Observer(Protocol):
    """Who watches a sweep."""

    def stage(self, name: str, total: int) -> None:
        """A stage of `total` cells begins."""

    def cell(self, cell: Cell, outcome: str) -> None:
        """A cell is through the present stage."""

    def measured(self, cells: Sequence[Cell]) -> None:
        """Launches of these cells were stored."""

    def progress(self, progress: Progress) -> None:
        """How far measuring is."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """How a sweep is run.

    Attributes:
        force: measure again what is already settled.
        across_threads: compare each cell with itself at one thread, rather than with the task's baseline.
    """

    method: Method = Method()
    goal: Goal = Goal()
    force: bool = False
    across_threads: bool = False


@dataclasses.dataclass(kw_only=True)
class _Entry:
    """A cell on its way through the sweep, with what earlier runs stored of it."""

    cell: Cell
    artifact: Artifact
    record: Record


class Sweep:
    """Takes cells from their names to stored records."""

    def __init__(self, store: Store, options: Options, observer: Observer) -> None:
        self._store = store
        self._options = options
        self._observer = observer
        self._limits = options.method.limits
        self._keys: dict[str, str] = {}
        self._references: dict[str, Reference | BenchError] = {}
        self._inputs: dict[str, Path] = {}
        self._to_reset: set[str] = set()
        self._kind = THREAD_LAUNCH if options.across_threads else LAUNCH

    def run(self, cells: Sequence[Cell]) -> None:
        """Prepare, verify and measure the cells, and whatever baselines they are compared with.

        Raises:
            StoreError: results cannot be written; all that was finished is kept.
        """
        wanted = (self._baselines(group) for group in dict.fromkeys(map(self._request, cells)))
        baselines = [next((cell for cell in found if _skip_reason(cell) is None), None) for found in wanted]
        extra = dict.fromkeys(cell for cell in baselines if cell is not None and cell not in cells)
        with self._store.locked():
            entries = self._prepare([*cells, *extra])
            self._store.point(self._keys)
            if self._options.force:
                self._forget([entry for entry in entries if entry.cell not in baselines])
            entries = self._verify(entries)
            self._measure(self._groups(entries, set(cells)))

    def _request(self, cell: Cell) -> Cell | tuple[str, int, int]:
        """Equal for cells that are compared with the same baseline."""
        return dataclasses.replace(cell, threads=1) if self._options.across_threads else cell.group

    def _baselines(self, request: Cell | tuple[str, int, int]) -> list[Cell]:
        """The cells that may be the baseline of a request, the first that works before the others."""
        return [request] if isinstance(request, Cell) else sweeps.baselines(*request)

    def _prepare(self, cells: Sequence[Cell]) -> list[_Entry]:
        """Cells whose artifacts could be made; the others are stored with their reason."""
        self._observer.stage("prepare", len(cells))
        sharing: dict[str, list[Cell]] = {}
        for cell in cells:
            if (reason := _skip_reason(cell)) is None:
                sharing.setdefault(cell.artifact_path, []).append(cell)
            else:
                self._keep_skip(cell, reason)
        entries = {}

        def prepared(path: str, artifact: Artifact | BenchError) -> None:
            for cell in sharing[path]:
                if isinstance(artifact, RefusedError):
                    self._keep_skip(cell, str(artifact))
                elif isinstance(artifact, BenchError):
                    self._keep_failure(self._open_record(cell, None), "prepare", artifact)
                else:
                    entries[cell] = _Entry(cell=cell, artifact=artifact, record=self._open_record(cell, artifact))
                    self._observer.cell(cell, "prepared")

        def make(path: str) -> Artifact:
            return prepare.artifact_of(sharing[path][0], self._limits)

        # Exports before what is made of them: two chains that wait for one export would leave a core idle.
        self._at_once(make, sorted(sharing, key=lambda path: len(sharing[path][0].chain)), prepared)
        return [entries[cell] for cell in cells if cell in entries]

    def _verify(self, entries: Sequence[_Entry]) -> list[_Entry]:
        """Cells that run, each with its quality stored, judged against the reference as it is now."""
        self._observer.stage("verify", len(entries))
        self._at_once(
            lambda name: verify.reference_of(catalog.task(name), self._limits),
            dict.fromkeys(entry.cell.task for entry in entries),
            self._references.__setitem__,
        )
        same: dict[object, list[_Entry]] = {}
        for entry in entries:
            same.setdefault(what_runs(entry.record) or entry.cell, []).append(entry)
        passed = set()

        def judged(thing: object, quality: Line | BenchError) -> None:
            for entry in same[thing]:
                if isinstance(quality, BenchError):
                    self._keep_failure(entry.record, "verify", quality)
                    continue
                if not _is_judged(entry, quality["reference_digest"]):
                    self._store.append(entry.record.key, quality)
                    entry.record = dataclasses.replace(entry.record, quality=quality, failure=None)
                passed.add(entry.cell)
                self._observer.cell(entry.cell, quality["fidelity"])

        for threads in sorted({entry.cell.threads for entry in entries}):
            alike = [thing for thing, members in same.items() if members[0].cell.threads == threads]
            self._at_once(lambda thing: self._judge(same[thing]), alike, judged, threads=threads)
        return [entry for entry in entries if entry.cell in passed]

    def _judge(self, entries: Sequence[_Entry]) -> Line:
        """The quality of cells that all run the same thing."""
        reference = self._references[entries[0].cell.task]
        if isinstance(reference, BenchError):
            raise reference
        for entry in entries:
            if entry.record.quality is not None and _is_judged(entry, reference.digest):
                return entry.record.quality
        judged = verify.verify(entries[0].cell, entries[0].artifact, reference.outputs, self._limits)
        origin = {
            "reference": reference.cell.path,
            "reference_digest": reference.digest,
            "judged_by": judge_digest(entries[0].cell),
        }
        return {"kind": "quality", **origin, **judged}

    def _at_once(
        self,
        step: Callable[[Item], Outcome],
        items: Iterable[Item],
        done: Callable[[Item, Outcome | BenchError], None],
        *,
        threads: int = 1,
    ) -> None:
        """Take steps on all cores; more threads than cores would wait for each other."""
        at_once(step, items, workers=max(1, machine.num_cores() // threads), done=done)

    def _groups(self, entries: Sequence[_Entry], wanted: set[Cell]) -> list[Group]:
        """The cells to time, in groups with their baselines: not the broken ones, and each same thing once."""
        sound = [entry for entry in entries if entry.record.quality and entry.record.quality["fidelity"] != BROKEN]
        twins = same_as([entry.record for entry in sound if entry.cell in wanted])
        groups = []
        for request in dict.fromkeys(self._request(entry.cell) for entry in sound):
            members = {entry.cell: entry for entry in sound if self._request(entry.cell) == request}
            baseline = next((cell for cell in self._baselines(request) if cell in members), next(iter(members)))
            timed = [cell for cell in members if cell in wanted and (cell.path not in twins or cell == baseline)]
            if self._options.across_threads and (baseline.threads != 1 or timed == [baseline]):
                continue  # nothing to compare, or nothing to compare it with
            ledgers = {cell: self._ledger(members[cell]) for cell in {baseline: 0, **dict.fromkeys(timed)}}
            groups.append(Group(baseline=ledgers[baseline], ledgers=[ledgers[cell] for cell in timed]))
            if self._options.force:  # a baseline is not reset: other cells' launches need those beside them
                ledgers[baseline].num_stale = groups[-1].comparison(ledgers[baseline]).num_launches
        return groups

    def _ledger(self, entry: _Entry) -> Ledger:
        task = catalog.task(entry.cell.task)
        if task.name not in self._inputs:
            self._inputs[task.name] = prepare.inputs_of(task, self._limits)
        assert entry.record.quality is not None
        subject = Subject(
            cell=entry.cell,
            key=entry.record.key,
            artifact=entry.artifact,
            inputs=self._inputs[task.name],
            rss_bytes=entry.record.quality["rss_bytes"],
        )
        record = entry.record
        launches = record.thread_launches if self._kind == THREAD_LAUNCH else record.launches
        return Ledger(subject=subject, launches=list(launches))

    def _measure(self, groups: Sequence[Group]) -> None:
        self._observer.stage("measure", sum(len(group.ledgers) for group in groups))
        rounds.measure(
            groups, self._options.method, self._options.goal, keep=self._keep, report=self._observer.progress
        )
        for group in groups:
            if group.baseline.failed:
                reason = f"not timed: its baseline {group.baseline.subject.cell} failed"
                self._keep_untimed([ledger.subject for ledger in group.ledgers if not ledger.launches], reason)

    def _keep(self, result: Result) -> None:
        """Store what a block brought: the baseline first, since the others mean nothing without it."""
        for subject, launch in result.launches:
            if subject.key in self._to_reset:
                self._to_reset.remove(subject.key)
                self._store.append(subject.key, {"kind": "reset", "launches": self._kind})
            self._store.append(subject.key, {**launch, "kind": self._kind})
        for failure in result.failures:
            self._store.append(failure.subject.key, _failure_line(failure.stage, failure.error))
            self._observer.cell(failure.subject.cell, f"failed: {failure.error.reason}")
        self._observer.measured([subject.cell for subject, _ in result.launches])

    def _keep_untimed(self, subjects: Sequence[Subject], reason: str) -> None:
        """Store why sound cells have no figures; those with a reason of their own keep it."""
        for subject in subjects:
            record = self._store.read(subject.key)
            has_figures = record is not None and (record.launches or record.thread_launches)
            if record is not None and record.failure is None and not has_figures:
                self._store.append(subject.key, {"kind": "failure", "stage": "measure", "reason": reason})
                self._observer.cell(subject.cell, f"failed: {reason}")

    def _forget(self, entries: Sequence[_Entry]) -> None:
        """Start the records of cells anew; what is stored stands until each cell's first new launch."""
        for entry in entries:
            fields: dict[str, Any] = {f"{self._kind}es": (), "quality": None, "failure": None}
            entry.record = dataclasses.replace(entry.record, **fields)
            self._to_reset.add(entry.record.key)

    def _keep_skip(self, cell: Cell, reason: str) -> None:
        record = self._open_record(cell, None)
        if record.failure is None or record.failure["reason"] != reason:
            self._store.append(record.key, {"kind": "failure", "stage": "skip", "reason": reason})
        self._observer.cell(cell, f"skipped: {reason}")

    def _keep_failure(self, record: Record, stage: str, error: BenchError) -> None:
        line = _failure_line(stage, error)
        self._store.append(record.key, line)
        self._observer.cell(record.cell, f"failed: {line['reason']}")

    def _open_record(self, cell: Cell, artifact: Artifact | None) -> Record:
        """What is stored of a cell with this artifact; a new record where there is nothing."""
        key = record_key(cell, artifact)
        self._keys[cell.path] = key
        if (record := self._store.read(key)) is not None:
            return record
        header: Line = {
            "kind": "cell",
            "schema": SCHEMA,
            "key": key,
            "cell": cell.path,
            "machine": machine.describe(),
            "versions": provenance.versions(catalog.runtime(cell.runtime).packages(cell.provider)),
            "subject": [
                provenance.task_digest(catalog.task(cell.task)),
                provenance.dataset_digest(catalog.task(cell.task)),
            ],
            "artifact": None,
        }
        if artifact is not None:
            fields = {field.name: getattr(artifact, field.name) for field in dataclasses.fields(artifact)}
            header["artifact"] = {name: value for name, value in fields.items() if name != "path"}
        self._store.append(key, header)
        record = self._store.read(key)
        assert record is not None
        return record


def _skip_reason(cell: Cell) -> str | None:
    """Why a cell cannot work here, broken plugin files included."""
    try:
        return catalog.skip_reason(cell)
    except PluginError as error:
        return str(error)


def _is_judged(entry: _Entry, reference_digest: str) -> bool:
    quality = entry.record.quality
    if quality is None or quality.get("judged_by") != judge_digest(entry.cell):
        return False
    return bool(quality["reference_digest"] == reference_digest)


def _failure_line(stage: str, error: BenchError) -> Line:
    cause = error if isinstance(error, ChildError) else error.__cause__
    child = cause if isinstance(cause, ChildError) else None
    return {
        "kind": "failure",
        "stage": stage,
        "reason": str(error),
        "how": child.kind if child else "error",
        "detail": child.detail if child else "",
    }
