"""Comparison of two folders of results, or of two cells of one folder: what changed from A to B, and how surely."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.api.artifact import Facts
from bench.api.cell import Cell
from bench.api.errors import InputError
from bench.measure import comparison as compare
from bench.measure import corrections, processors, stats
from bench.measure.comparison import Comparison
from bench.measure.corrections import Judged
from bench.pipeline.quality import BROKEN
from bench.records import assemble, folder, machines
from bench.records.reading import Damage
from bench.records.rows import Row
from bench.records.store import Record

ORDER = (stats.SLOWER, stats.FASTER, stats.UNDECIDED, stats.NOISE)
"""Verdicts in the order of a report."""
PAIRED = "B over A: latencies in the same blocks, interleaved"
_SHARED = "B over A: latencies in the same blocks, or else each over that of the baseline in its own"
_THROUGH_BASELINE = (
    "B over A: each cell's latency over its baseline's of the same blocks, in B over in A. The machine drifts between "
    "runs by more than what is looked for, so the medians beside it are for orientation alone"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two sides of a comparison.

    Attributes:
        name: the folder, the cell or the revision, as it was named.
        machine: name of the machine's folder of results.
        num_cells: number of cells with a result.
        measured: the processor and the days, see `bench.records.machines.headline`.
    """

    name: str
    machine: str
    num_cells: int
    measured: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Change:
    """One cell in A and in B.

    Attributes:
        cell: path of the cell, or of the part that A and B share.
        before: the cell's row in A; None where A does not have the cell.
        after: the cell's row in B; None where B does not have the cell.
        comparison: comparison of the latencies, B over A; None where they cannot be compared.
        judged: result of the comparison, corrected for the number of comparisons.
        baseline: path of the baseline that the cell is compared with on both sides; the cell's own path for a baseline,
            which has no comparison.
        same_file: whether both sides run the same graph with the same weights; None where that is unknown.
        outputs: how close the outputs of B are to those of A, see `Quality.fidelity`; None where that is unknown.
        note: why there is no comparison.
    """

    cell: str
    before: Row | None
    after: Row | None
    comparison: Comparison | None = None
    judged: Judged | None = None
    baseline: str | None = None
    same_file: bool | None = None
    outputs: str | None = None
    note: str | None = None

    @property
    def verdict(self) -> str | None:
        return self.judged.verdict if self.judged else None

    @property
    def is_baseline(self) -> bool:
        return self.baseline == self.cell

    @property
    def newly_failed(self) -> bool:
        """Whether the cell failed or is broken in B, and was neither in A, or answers otherwise than in A."""
        is_newly_bad = self.before is not None and _is_bad(self.after) and not _is_bad(self.before)
        return is_newly_bad or self.outputs == BROKEN

    @property
    def mended(self) -> bool:
        return _is_bad(self.before) and self.after is not None and not _is_bad(self.after)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compared:
    """The result of a comparison.

    Attributes:
        before: side A.
        after: side B.
        how: how the ratios were made, in words: `PAIRED`, `_SHARED` or `_THROUGH_BASELINE`.
        changes: slower cells first, then faster, undecided, noise, and those without a comparison.
        drifts: by the path of a baseline, the drift of its cells between the two runs; see `corrections.drift`.
        remarks: other differences between the two sides: packages, weights, machines.
        damages: lines of stored results that were set aside, because they cannot be read.
    """

    before: Side
    after: Side
    how: str
    changes: tuple[Change, ...]
    drifts: Mapping[str, float] = dataclasses.field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    damages: tuple[Damage, ...] = ()

    @property
    def has_worse(self) -> bool:
        """Whether a cell is slower, newly failed or newly broken."""
        return any(change.verdict == stats.SLOWER or change.newly_failed for change in self.changes)

    @property
    def has_failed(self) -> bool:
        """Whether a cell failed on either side, so that nothing is known of it."""
        rows = [row for change in self.changes for row in (change.before, change.after)]
        return any(row is not None and row.status == "failed" for row in rows)

    def moved(self, baseline: str) -> tuple[int, float | None]:
        """The number of cells that were compared through a baseline, and the median of their ratios.

        Args:
            baseline: path of the cell.

        Returns:
            The number, and the median, B over A; None where no cell was compared.
        """
        ratios = [change.judged.ratio.value for change in self.changes if change.baseline == baseline and change.judged]
        return len(ratios), statistics.median(ratios) if ratios else None


def judged(changes: Sequence[Change], *, margin: float) -> tuple[Change, ...]:
    """The changes with their verdicts, corrected for how many there are, in the order of `Compared.changes`."""
    comparisons = {change.cell: change.comparison for change in changes if change.comparison is not None}
    known = dict(zip(comparisons, corrections.judge(list(comparisons.values()), margin=margin), strict=True))
    with_verdicts = [dataclasses.replace(change, judged=known.get(change.cell)) for change in changes]
    return tuple(sorted(with_verdicts, key=_rank))


def _rank(change: Change) -> tuple[int, float, str]:
    if change.judged is None:
        return (len(ORDER), 0.0, change.cell)
    return (ORDER.index(change.judged.verdict), -abs(math.log(change.judged.ratio.value)), change.cell)


def _is_bad(row: Row | None) -> bool:
    return row is not None and (row.status == "failed" or row.fidelity == BROKEN)


class _Run:
    """The current records of a folder with their rows, by cell path."""

    def __init__(self, results: Path, margin: float) -> None:
        contents = folder.read(results, margin=margin)
        self.folder, self.records, self.measurements = contents.folder, contents.records, contents.measurements
        self.damages = contents.damages
        self.rows = {row.cell: row for row in contents.rows}
        self.name = str(results)
        machines = [record.header.machine for record in contents.records.values()]
        self.machines = {json.dumps(machine, sort_keys=True): machine for machine in machines}

    def side(self) -> Side:
        measured = machines.headline(self.rows.values())
        return Side(name=self.name, machine=self.folder.name, num_cells=len(self.rows), measured=measured)

    def timed(self, path: str) -> Record:
        """The record with the launches of a cell: its own, or those of the same graph with the same weights."""
        return self.records[self.rows[path].same_as or path]

    def row(self, path: str) -> Row | None:
        """The row of a cell, with the latency of the cell that runs the same graph; None for an unknown cell."""
        row = self.rows.get(path)
        if row is None or row.same_as is None:
            return row
        twin = self.rows[row.same_as]
        return dataclasses.replace(row, latency_p50_ns=twin.latency_p50_ns, num_launches=twin.num_launches)


def stored(
    before: str, after: str, globs: Sequence[str] = (), *, results: Path, margin: float, force: bool
) -> Compared:
    """Compare two folders of results or two cells, whichever the two names are.

    Args:
        before: folder of results A, or path of cell A.
        after: folder of results B, or path of cell B.
        globs: cells to report of two folders; see `folders`.
        results: folder of the results of two cells.
        margin: largest difference that counts as noise, as a share.
        force: compare even if two folders were measured on different machines.

    Raises:
        InputError: the names are neither two folders nor two cells, or these cannot be compared.
    """
    missing = [name for name in (before, after) if not Path(name).is_dir()]
    if not missing:
        return folders(Path(before), Path(after), globs, margin=margin, force=force)
    if len(missing) == 2 and all(map(_is_path, missing)):
        if globs:
            raise InputError("two cells are compared as they are; leave the globs out")
        return cells(results, before, after, margin=margin)
    raise InputError(
        f"{missing[0]} is no folder; A and B are two folders of results, two cells, or two git revisions of what "
        "--model names"
    )


def _is_path(text: str) -> bool:
    """Whether a text has the form of a cell's path."""
    with contextlib.suppress(InputError):
        Cell.from_path(text)
        return True
    return False


def folders(before: Path, after: Path, globs: Sequence[str] = (), *, margin: float, force: bool) -> Compared:
    """What changed between two folders of results.

    Args:
        before: folder of results A.
        after: folder of results B.
        globs: cells to report, as globs over their paths; all cells without any.
        margin: largest difference that counts as noise, as a share.
        force: compare even if the folders were measured on different machines.

    Raises:
        InputError: there are no results, no glob matches, or the machines differ.
    """
    old, new = _Run(before, margin), _Run(after, margin)
    remarks = [*_machines(old, new, force=force), *_circumstances(old, new)]
    everything = {**old.rows, **new.rows}
    wanted = {row.cell for row in folder.chosen(list(everything.values()), globs)}
    changes, drifts = _drifting([_change(path, old, new) for path in sorted(everything)])
    return Compared(
        before=old.side(),
        after=new.side(),
        how=_THROUGH_BASELINE,
        changes=judged([change for change in changes if change.cell in wanted], margin=margin),
        drifts=drifts,
        remarks=tuple(remarks),
        damages=tuple(dict.fromkeys((*old.damages, *new.damages))),
    )


def _drifting(changes: Sequence[Change]) -> tuple[list[Change], dict[str, float]]:
    """The changes with the drift of their baseline's cells among their errors, and these drifts by baseline."""
    by_cell = {change.cell: change for change in changes}
    drifts = {}
    for baseline in dict.fromkeys(change.baseline for change in changes if change.is_baseline):
        beside = {
            change.cell: change.comparison for change in changes if change.baseline == baseline and change.comparison
        }
        drifts[str(baseline)] = corrections.drift(list(beside.values()))
        for path, comparison in zip(beside, corrections.with_drift(list(beside.values())), strict=True):
            by_cell[path] = dataclasses.replace(by_cell[path], comparison=comparison)
    return list(by_cell.values()), drifts


def cells(results: Path, before: str, after: str, *, margin: float) -> Compared:
    """One cell against another of the same request, by the blocks that held both or through their baseline.

    Raises:
        InputError: one of them has no result, or they are of different requests.
    """
    run = _Run(results, margin)
    for path in (before, after):
        if path not in run.records:
            raise InputError(f"no result for {path!r} in {run.folder}; `bench run {path}` measures it")
    requests = [Cell.from_path(path).group for path in (before, after)]
    if requests[0] != requests[1]:
        raise InputError(
            f"{before} and {after} answer different requests; compare cells of one task, batch and threads"
        )
    first, other = run.timed(before), run.timed(after)
    same_file = same_graph(first.artifact, other.artifact)
    change = Change(cell=after, before=run.row(before), after=run.row(after), same_file=same_file)
    if first.key == other.key:
        change = dataclasses.replace(change, note="the same graph with the same weights on the same runtime")
    elif (note := _untimed(run.rows[before], run.rows[after])) is not None:
        change = dataclasses.replace(change, note=note)
    elif (comparison := run.measurements.between(other.cell.path, first.cell.path)) is not None:
        change = dataclasses.replace(change, comparison=comparison)
    else:
        note = "they never ran in the same blocks, nor beside the same baseline"
        change = dataclasses.replace(change, note=note)
    sides = [
        Side(name=path, machine=run.folder.name, num_cells=1, measured=machines.headline([run.rows[path]]))
        for path in (before, after)
    ]
    changes = judged([change], margin=margin)
    return Compared(before=sides[0], after=sides[1], how=_SHARED, changes=changes, damages=tuple(run.damages))


def _machines(old: _Run, new: _Run, *, force: bool) -> list[str]:
    """A warning where both folders were measured on different machines; nothing where the machines are the same.

    Raises:
        InputError: the machines differ, and a comparison is not forced.
    """
    if set(old.machines) == set(new.machines):
        return []
    names = f"{old.folder} was measured on {_machine(old)}, {new.folder} on {_machine(new)}"
    if not force:
        raise InputError(
            f"different machines: {names}; latencies of different machines say nothing of what changed on either "
            "(--force compares them all the same)"
        )
    return [f"warning: different machines: {names}"]


def _machine(run: _Run) -> str:
    """The processor, cores and memory of a folder's machine, or of several."""
    texts = []
    for facts in run.machines.values():
        what = f"{processors.description(facts)}, {facts.get('memory_gib')} GiB"
        texts.append(f"{run.folder.name} ({what})" if facts else run.folder.name)
    return " and ".join(texts)


def _circumstances(old: _Run, new: _Run) -> list[str]:
    """Remarks on differences besides the figures: versions of packages, and weights, data or code of tasks."""
    versions: Counter[tuple[str, str, str]] = Counter()
    tasks: dict[str, None] = {}
    for path in sorted(old.records.keys() & new.records.keys()):
        before, after = old.records[path].header, new.records[path].header
        for package, version in after.versions.items():
            earlier = before.versions.get(package, version)
            if earlier != version:
                versions[package, str(earlier), str(version)] += 1
        if before.subject != after.subject:
            tasks[str(old.records[path].cell.task)] = None
    lines = [f"{name} {first} in A, {other} in B ({count} cells)" for (name, first, other), count in versions.items()]
    return [*lines, *(f"{task}: other weights, data or code in B" for task in tasks)]


def _change(path: str, old: _Run, new: _Run) -> Change:
    before, after = old.row(path), new.row(path)
    if before is None or after is None:
        return Change(cell=path, before=before, after=after)
    same_file = same_graph(old.records[path].artifact, new.records[path].artifact)
    change = Change(cell=path, before=before, after=after, same_file=same_file)
    if before.same_as is not None and before.same_as == after.same_as:
        return dataclasses.replace(change, note="the same graph as another cell, in both")
    note = _untimed(before, after)
    if note is not None:
        return dataclasses.replace(change, note=note)
    first, other = old.timed(path), new.timed(path)
    for record, side in ((first, "A"), (other, "B")):
        if not record.launches:  # nor was the one that it is the same as
            return dataclasses.replace(change, note=f"not timed in {side}")
    baselines = [record.launches[-1].reference for record in (first, other)]
    if baselines[0] != baselines[1]:
        note = f"measured beside {baselines[0]} in A, and beside {baselines[1]} in B"
        return dataclasses.replace(change, note=note)
    if path == baselines[0]:
        return dataclasses.replace(change, baseline=path)
    comparisons = []
    for run, record, side in ((old, first, "A"), (new, other, "B")):
        baseline = assemble.baseline_of(record, run.records)
        if baseline is None:
            return dataclasses.replace(change, note=f"its baseline {baselines[0]} is not among the results of {side}")
        comparisons.append(run.measurements.between(record.cell.path, baseline.cell.path))
    if comparisons[0] is None or comparisons[1] is None:
        return dataclasses.replace(change, note="no launch of it ran beside its baseline")
    return dataclasses.replace(change, baseline=baselines[0], comparison=compare.change(comparisons[1], comparisons[0]))


def _untimed(before: Row, after: Row) -> str | None:
    """The reason why there are no two latencies to compare; None where there are."""
    reasons = [_missing(row) for row in (before, after)]
    if None not in reasons and reasons[0] == reasons[1]:
        return f"{reasons[0]} in both"
    return next((f"{reason} in {side}" for reason, side in zip(reasons, "AB", strict=True) if reason), None)


def _missing(row: Row) -> str | None:
    if row.status != "ok":
        return row.status
    if row.fidelity == BROKEN:
        return "broken"
    return "not timed" if row.same_as is None and not row.num_launches else None


def same_graph(first: Facts | None, other: Facts | None) -> bool | None:
    """Whether two files hold the same graph with the same weights; None where that is unknown."""
    digests = [file and file.canonical for file in (first, other)]
    return None if None in digests else digests[0] == digests[1]
