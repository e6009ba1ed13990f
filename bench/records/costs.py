"""Static cost joined to measured time: MACs, achieved rates, and where each row lies under the machine's roof."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.api import placed
from bench.api.cell import RAW
from bench.measure import roofline
from bench.measure.roofline import Peaks
from bench.records.lines import Cost
from bench.records.measured import Measured
from bench.records.rows import Row


def joined(rows: Iterable[Row], records: Mapping[str, Measured], peaks: Mapping[int, Peaks]) -> list[Row]:
    """The rows with their costs, where the costs are known.

    Args:
        rows: rows in any order.
        records: the record of each row's cell, by cell path.
        peaks: peaks of the machine's processor, by number of threads, for cells that surely ran on the processor.
    """
    plain: dict[tuple[str, int], list[Measured]] = {}
    for _, record in sorted(records.items()):
        if record.cell.variant == RAW and _cost(record) is not None:
            plain.setdefault((record.cell.task, record.cell.batch), []).append(record)
    return [
        _joined(row, records[row.cell], plain.get((row.task, row.batch), ()), peaks.get(row.threads)) for row in rows
    ]


def _joined(row: Row, record: Measured, plain: Sequence[Measured], peaks: Peaks | None) -> Row:
    cost = (_cost(record) or _borrowed(record, plain)) if row.status == "ok" else None
    if cost is None or cost.macs is None:
        return row
    if not row.latency_p50_ns or record.quality is None or record.quality.io_bytes is None:
        return _with(row, macs=cost.macs)
    point = roofline.place(
        macs=cost.macs,
        num_bytes=cost.weight_bytes + record.quality.io_bytes,
        seconds=row.latency_p50_ns / 1e9,
        precision=row.precision,
        peaks=peaks if placed.is_on_cpu(row.provider) else None,
    )
    return _with(row, macs=cost.macs, **dataclasses.asdict(point))


def _with(row: Row, **more: Any) -> Row:
    """The row with other values for some fields: `dataclasses.replace` takes three times as long."""
    return Row(**{**vars(row), **more})


def _cost(record: Measured) -> Cost | None:
    """The cost of the file itself, where its MACs are known."""
    cost = record.quality and record.quality.cost
    return cost if cost and cost.macs is not None else None


def _borrowed(record: Measured, plain: Sequence[Measured]) -> Cost | None:
    """MACs of the task's plain ONNX export, preferably from the same source, and the size of the cell's own file.

    Args:
        record: the cell's record.
        plain: the plain exports of the same task and batch, in the order of their paths.
    """
    cell, artifact = record.cell, record.artifact
    if not plain or artifact is None:
        return None
    nearest = next((other for other in plain if other.cell.source == cell.source), plain[0])
    cost = _cost(nearest)
    return cost and Cost(macs=cost.macs, weight_bytes=artifact.size_bytes)
