"""Static cost joined to measured time: MACs, achieved rates, and where each row lies under the machine's roof."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from bench.api.names import TaskName
from bench.measure import roofline
from bench.measure.roofline import Peaks
from bench.records.lines import Cost
from bench.records.measured_cell import Measured
from bench.records.read_bounds import ReadRates, generation_of, read_bound
from bench.records.rows import Row


class Plain:
    """The plain ONNX exports among records, whose MACs are those of the cells without a cost of their own."""

    def __init__(self, records: Mapping[str, Measured]) -> None:
        self._of: dict[tuple[TaskName, int], list[Measured]] = {}
        for _, record in sorted(records.items()):
            if not record.cell.chain and _cost(record) is not None:
                self._of.setdefault((record.cell.task, record.cell.batch), []).append(record)

    def borrowed(self, record: Measured) -> Cost | None:
        """MACs of the task's plain export, preferably from the same source, and the size of the cell's own file."""
        cell, artifact = record.cell, record.artifact
        same = self._of.get((cell.task, cell.batch))
        if not same or artifact is None:
            return None
        cost = _cost(next((other for other in same if other.cell.source == cell.source), same[0]))
        return cost and Cost(macs=cost.macs, weight_bytes=artifact.size_bytes)


def add(row: Row, record: Measured, plain: Plain, peaks: Peaks | None, rates: ReadRates) -> None:
    """Write into a row with a latency what is known of its costs.

    Args:
        row: the row of a cell that did not fail.
        record: the record of the cell.
        plain: of the records of all rows.
        peaks: peaks of the machine's processor with as many threads, for cells that surely ran on the processor.
        rates: how fast it reads, for cells that generate.
    """
    quality, cost, latency_ns = record.quality, _cost(record) or plain.borrowed(record), row.latency_p50_ns
    row.macs = cost.macs if cost is not None else None
    if not latency_ns or quality is None:
        return
    seconds = latency_ns / 1e9
    if cost is not None and cost.macs is not None and quality.io_bytes is not None:
        place = roofline.place(
            macs=cost.macs,
            num_bytes=cost.weight_bytes + quality.io_bytes,
            seconds=seconds,
            precision=quality.precision,
            peaks=peaks if record.cell.provider.is_on_cpu else None,
        )
        row.macs_per_byte, row.gmacs_per_s = place.macs_per_byte, place.gmacs_per_s
        row.peak_share, row.roof_share, row.bound = place.peak_share, place.roof_share, place.bound
    reading, generation = read_bound(record, rates), generation_of(record)
    if reading is None or generation is None:
        return
    # Of a pass over a prompt the products take most of the time: without their rate there is no bound.
    peak = peaks.macs_per_s.get(quality.precision or "") if peaks else None
    compute_s = row.macs / peak if row.macs and peak else None
    if compute_s is not None or generation.is_decode:
        row.roof_share = max(reading.seconds, compute_s or 0.0) / seconds
        row.bound = "memory" if reading.seconds > (compute_s or 0.0) else "compute"


def joined(rows: Iterable[Row], records: Mapping[str, Measured], peaks: Mapping[int, Peaks]) -> list[Row]:
    """The rows with the costs that they have under other peaks.

    Args:
        rows: rows in any order.
        records: the record of each row's cell, by cell path.
        peaks: peaks of the machine's processor, by number of threads.
    """
    plain, rates = Plain(records), ReadRates(records.values())
    copies = [dataclasses.replace(row) for row in rows]
    for row in copies:
        if row.status == "ok":
            add(row, records[row.cell], plain, peaks.get(row.threads), rates)
    return copies


def _cost(record: Measured) -> Cost | None:
    """The cost of the file itself, where its MACs are known."""
    cost = record.quality and record.quality.cost
    return cost if cost and cost.macs is not None else None
