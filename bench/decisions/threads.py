"""Scaling of cells with the number of threads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from bench.api.cell import Cell
from bench.measure import comparison, stats
from bench.measure.comparison import Comparison, Fitted, Group, Series
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
    timed = [row for row in stored.rows if row.status == "ok" and row.untimed is None]
    right = {row.cell for row in timed if row.fidelity != "broken"}
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
            base_cell = dataclasses.replace(record.cell, threads=1)
            by_cell.setdefault(base_cell, {})[record.cell.threads] = record
    cells = sorted(cell for cell, by_threads in by_cell.items() if 1 in by_threads)
    fits = comparison.fit([_group(by_cell[cell]) for cell in cells])
    candidates = [_scaling(cell, by_cell[cell], fitted, margin) for cell, fitted in zip(cells, fits, strict=True)]
    return [scaling for scaling in candidates if scaling.over_one]


def _group(by_threads: Mapping[int, Record]) -> Group:
    """A cell at several numbers of threads, each of which the machine's state may act on differently."""
    series = {
        count: Series(
            name=str(count),
            program=f"{record.cell.runtime.listed}, {count}",
            launches=record.thread_launches,
            tick_ns=record.tick_ns,
        )
        for count, record in by_threads.items()
    }
    return Group(baseline=series[1], cells=list(series.values()))


def _scaling(cell: Cell, by_threads: Mapping[int, Record], fitted: Fitted, margin: float) -> Scaling:
    counts = [count for count in sorted(by_threads) if str(count) in fitted.names]
    latencies = {count: fitted.latency_ns(str(count)) for count in counts}
    return Scaling(
        cell=cell,
        latency_ns={count: latency.value for count, latency in latencies.items() if latency is not None},
        over_one={count: fitted.against_baseline(str(count)) for count in counts if count != 1},
        best=_best(fitted, counts, margin) if counts else (),
    )


def _best(fitted: Fitted, counts: Sequence[int], margin: float) -> tuple[int, ...]:
    """Numbers of threads that may be the fastest, see `Scaling`."""
    fastest = min(counts, key=lambda count: (fitted.effect(str(count), "1").value, count))
    verdicts = {count: fitted.between(str(count), str(fastest)).verdict(margin) for count in counts if count != fastest}
    equal = [count for count, verdict in verdicts.items() if verdict == stats.NOISE]
    if equal and min(equal) < fastest:  # threads that gain nothing are better left to others
        fewest = min(equal)
        return (*sorted(count for count in verdicts if count < fewest and verdicts[count] == stats.UNDECIDED), fewest)
    return tuple(sorted([fastest, *(count for count, verdict in verdicts.items() if verdict == stats.UNDECIDED)]))
