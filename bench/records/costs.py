"""Static cost joined to measured time: MACs, achieved rates, and where each row lies under the machine's roof."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from bench.api.names import TaskName
from bench.measure import roofline
from bench.measure.roofline import Peaks
from bench.records.lines import Cost
from bench.records.measured_cell import Measured
from bench.records.read_bounds import ReadBound, ReadRates, generation_of, read_bound
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


def _of_pass(
    bound: ReadBound, *, macs: int | None, seconds: float, peak: float | None, is_decode: bool
) -> dict[str, Any]:
    """The fields of a row that generates: its share of the bound, which of a prefill is mostly that of its products."""
    compute_s = macs / peak if macs and peak else None
    if compute_s is None and not is_decode:
        return {}
    by_memory = bound.seconds > (compute_s or 0.0)
    least_s = max(bound.seconds, compute_s or 0.0)
    return {"roof_share": least_s / seconds, "bound": "memory" if by_memory else "compute"}


def fields(
    record: Measured, latency_ns: float | None, plain: Plain, peaks: Peaks | None, rates: ReadRates
) -> dict[str, Any]:
    """The fields of a row about its costs, as far as they are known.

    Args:
        record: the record of a cell that did not fail.
        latency_ns: the row's median latency.
        plain: of the records of all rows.
        peaks: peaks of the machine's processor with as many threads, for cells that surely ran on the processor.
        rates: how fast it reads, for cells that generate.
    """
    figures = _costs(record, latency_ns, plain, peaks)
    reading, generation = read_bound(record, rates), generation_of(record)
    if reading is None or generation is None or not latency_ns:
        return figures
    peak = peaks.macs_per_s.get((record.quality and record.quality.precision) or "") if peaks else None
    seconds, macs = latency_ns / 1e9, figures.get("macs")
    own = _of_pass(reading, macs=macs, seconds=seconds, peak=peak, is_decode=generation.is_decode)
    return {**figures, **own}


def _costs(record: Measured, latency_ns: float | None, plain: Plain, peaks: Peaks | None) -> dict[str, Any]:
    cost = _cost(record) or plain.borrowed(record)
    if cost is None or cost.macs is None:
        return {}
    if not latency_ns or record.quality is None or record.quality.io_bytes is None:
        return {"macs": cost.macs}
    point = roofline.place(
        macs=cost.macs,
        num_bytes=cost.weight_bytes + record.quality.io_bytes,
        seconds=latency_ns / 1e9,
        precision=record.quality.precision,
        peaks=peaks if record.cell.provider.is_on_cpu else None,
    )
    return {"macs": cost.macs, **dataclasses.asdict(point)}


def joined(rows: Iterable[Row], records: Mapping[str, Measured], peaks: Mapping[int, Peaks]) -> list[Row]:
    """The rows with the costs that they have under other peaks.

    Args:
        rows: rows in any order.
        records: the record of each row's cell, by cell path.
        peaks: peaks of the machine's processor, by number of threads.
    """
    plain, rates = Plain(records), ReadRates(records.values())
    return [
        dataclasses.replace(row, **fields(records[row.cell], row.latency_p50_ns, plain, peaks.get(row.threads), rates))
        if row.status == "ok"
        else row
        for row in rows
    ]


def _cost(record: Measured) -> Cost | None:
    """The cost of the file itself, where its MACs are known."""
    cost = record.quality and record.quality.cost
    return cost if cost and cost.macs is not None else None
