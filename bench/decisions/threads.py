"""Scaling of cells with the number of threads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from bench.api.cell import Cell
from bench.measure import comparison, stats
from bench.measure.comparison import Comparison
from bench.records.folder import Results
from bench.records.rows import Row
from bench.records.store import Record


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scaling:
    """One cell at several numbers of threads.

    Attributes:
        cell: the cell at one thread.
        latency_ns: median latency by number of threads.
        over_one: comparison with the cell at one thread, by number of threads from 2 on.
        best: numbers of threads that may be the fastest, in ascending order; where more threads are known to gain less
            than the margin, only the smallest of them.
    """

    cell: Cell
    latency_ns: Mapping[int, float]
    over_one: Mapping[int, Comparison]
    best: tuple[int, ...]


def sound(stored: Results, rows: Iterable[Row]) -> dict[str, Record]:
    """Records, by path, of the cells that are right and that a row has at any number of threads."""
    wanted = {dataclasses.replace(Cell.from_path(row.cell), threads=1) for row in rows}
    right = {row.cell for row in stored.rows if row.status == "ok" and row.fidelity != "broken"}
    return {
        path: record
        for path, record in stored.records.items()
        if path in right and dataclasses.replace(record.cell, threads=1) in wanted
    }


def scalings(records: Mapping[str, Record], *, margin: float) -> list[Scaling]:
    """The scaling of each cell that was compared with itself at one thread, in the order of the cells' paths.

    Args:
        records: the current record of each cell path.
        margin: largest difference that counts as noise, as a share.
    """
    by_cell: dict[Cell, dict[int, Record]] = {}
    for record in records.values():
        if record.thread_launches and record.failure is None:
            one = dataclasses.replace(record.cell, threads=1)
            by_cell.setdefault(one, {})[record.cell.threads] = record
    found = [_scaling(cell, by_threads, margin) for cell, by_threads in sorted(by_cell.items()) if 1 in by_threads]
    return [scaling for scaling in found if scaling.over_one]


def _scaling(cell: Cell, by_threads: Mapping[int, Record], margin: float) -> Scaling:
    base = by_threads[1].thread_launches
    over_one, latency_ns = {}, {}
    for count, record in sorted(by_threads.items()):
        found = comparison.against_baseline(record.thread_launches, base)
        median = stats.median_ns([launch.steady_ns for launch in record.thread_launches])
        if found.ratio is None or median is None:
            continue
        latency_ns[count] = median.value
        if count != 1:
            over_one[count] = found
    return Scaling(cell=cell, latency_ns=latency_ns, over_one=over_one, best=_best(over_one, margin))


def _best(over_one: Mapping[int, Comparison], margin: float) -> tuple[int, ...]:
    ratios = {1: 1.0} | {count: found.ratio.value for count, found in over_one.items() if found.ratio is not None}
    fastest = min(ratios, key=lambda count: (ratios[count], count))
    verdicts = {count: _verdict(over_one, count, fastest, margin) for count in ratios if count != fastest}
    equal = [count for count, verdict in verdicts.items() if verdict == stats.NOISE]
    if equal and min(equal) < fastest:  # threads that gain nothing are better left to others
        fewest = min(equal)
        return (*sorted(count for count in verdicts if count < fewest and verdicts[count] == stats.UNDECIDED), fewest)
    return tuple(sorted([fastest, *(count for count, verdict in verdicts.items() if verdict == stats.UNDECIDED)]))


def _verdict(over_one: Mapping[int, Comparison], count: int, fastest: int, margin: float) -> str | None:
    """The verdict on one number of threads against the fastest number."""
    if fastest == 1:
        return over_one[count].verdict(margin)
    if count == 1:
        opposite = {stats.FASTER: stats.SLOWER, stats.SLOWER: stats.FASTER}
        verdict = over_one[fastest].verdict(margin)
        return opposite.get(verdict, verdict) if verdict else None
    one, other = over_one[count], over_one[fastest]
    return comparison.quotient(one, other, one.control).verdict(margin)
