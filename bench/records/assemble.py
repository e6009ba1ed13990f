"""Rows from stored records: every figure of a report is computed here, from raw samples."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bench.api.artifact import Facts
from bench.api.errors import InputError
from bench.measure import comparison, stats
from bench.measure.comparison import Comparison
from bench.measure.launch import Launch
from bench.measure.roofline import Peaks
from bench.measure.rounds import Goal
from bench.records import costs
from bench.records.lines import Placed, Quality
from bench.records.measured import Measured, same_as
from bench.records.metric_loss import Lost
from bench.records.rows import Row

QUANTIZED = frozenset({"DequantizeLinear", "DynamicQuantizeLSTM", "MatMulInteger", "com.microsoft.MatMulNBits"}) | {
    f"com.microsoft.{name}" for name in ("DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "QAttention", "QGemm")
}
"""Operators of files whose weights are integers: the floats that are left are no count of parameters."""
PHASES = ("load", "first_inference", "steady")
EARLIER = "an earlier version verified it"
"""Why a quality that says nothing of its samples has no bound on the metric that it loses."""


def rows(
    records: Mapping[str, Measured],
    *,
    baseline: str | None = None,
    margin: float = Goal().margin,
    peaks: Mapping[int, Peaks] | None = None,
) -> list[Row]:
    """One row for each record, in the records' order.

    Args:
        records: the current record of each cell path.
        baseline: compare with this cell instead of each group's own; rows of other groups have no ratio.
        margin: largest difference that counts as `noise`, as a share.
        peaks: peaks of the machine, by number of threads.

    Raises:
        InputError: there is no result for `baseline`.
    """
    if baseline is not None and baseline not in records:
        raise InputError(f"no result for the baseline {baseline!r}; `bench show` lists the cells that have one")
    twins = same_as([record for record in records.values() if record.quality is not None])
    baseline = twins.get(baseline, baseline) if baseline is not None else None
    if baseline is not None and not records[baseline].launches:
        raise InputError(f"the baseline {baseline!r} has not been timed; `bench show {baseline}` says why")
    found = [_row(record, records, twins.get(path), baseline, margin) for path, record in records.items()]
    return costs.joined(found, records, peaks or {})


def _row(record: Measured, records: Mapping[str, Measured], twin: str | None, other: str | None, margin: float) -> Row:
    cell, quality, artifact = record.cell, record.quality, record.artifact
    coordinates: dict[str, Any] = {"cell": cell.path, **dataclasses.asdict(cell)}
    if (reason := _outdated(record, records)) is not None:
        return Row(**coordinates, status="skipped", reason=reason)
    launches = compared(record, records)
    return Row(
        **coordinates,
        status=record.failure.status if record.failure else "ok",
        reason=record.failure.reason if record.failure else quality.reason if quality else None,
        same_as=twin,
        size_bytes=artifact.size_bytes if artifact else None,
        num_params=_num_params(artifact, quality),
        **(_judged(quality) if quality else {}),
        **(_timing(launches, cell.batch) if launches else {}),
        **_comparison(record, records, other, margin),
    )


def _judged(quality: Quality) -> dict[str, Any]:
    same = ("precision", "fidelity", "warning", "loss", "metric_name", "metric_loss", "max_abs_error")
    return {
        **{name: getattr(quality, name) for name in same},
        "metric": (quality.metrics or {}).get(quality.metric_name or ""),
        **_bound(quality),
        "placement": _placement(quality.placement),
    }


def _bound(quality: Quality) -> dict[str, Any]:
    """The most that may be lost of the metric, or why that cannot be told."""
    if quality.metric_loss is None:
        return {}
    if isinstance(quality.lost, Lost):
        return {"metric_loss_high": quality.lost.high()}
    return {"metric_loss_note": quality.lost if isinstance(quality.lost, str) else EARLIER}


def _num_params(artifact: Facts | None, quality: Quality | None) -> int | None:
    if artifact and QUANTIZED & (artifact.operators or {}).keys():
        return None
    return (artifact.num_params if artifact else None) or (quality.num_params if quality else None)


def _placement(placed: Mapping[str, Placed] | None) -> str | None:
    """`CPUExecutionProvider: 12 nodes, 100 % of MACs`, joined by semicolons."""
    parts = []
    for provider, found in (placed or {}).items():
        share = f", {100 * found.macs_share:.3g} % of MACs" if found.macs_share is not None else ""
        parts.append(f"{provider}: {found.nodes} node{'' if found.nodes == 1 else 's'}{share}")
    return "; ".join(parts) or None


def _outdated(record: Measured, records: Mapping[str, Measured]) -> str | None:
    """The reason why a record's figures cannot stand beside those of the other records; None where they can.

    A sweep over some cells leaves the records of the other cells as they were: those may be of other weights or data,
    or may have been measured beside another baseline.
    """
    group = [other for other in records.values() if other.cell.task == record.cell.task]
    newest = max(group, key=lambda other: other.header.time)
    if record.header.subject != newest.header.subject:
        return "measured with other weights, code or data than the newest result; `bench run` measures it again"
    if record.launches and not compared(record, records):
        return "measured beside a baseline that has changed since; `bench run` measures it again"
    return None


def compared(record: Measured, records: Mapping[str, Measured]) -> list[Launch]:
    """The launches that ran beside the baseline as it is now."""
    baseline = baseline_of(record, records)
    if baseline is None:
        return list(record.launches)
    blocks = comparison.by_block(baseline.launches, comparison.REFERENCE)
    return [launch for launch in record.launches if launch.block in blocks]


def _timing(launches: Sequence[Launch], batch: int) -> dict[str, Any]:
    """Latency, cold start and memory of a cell's launches."""
    samples = np.array([sample for launch in launches for sample in launch.samples_ns], float)
    median = stats.median_ns([launch.steady_ns for launch in launches])
    phases = [launch.memory.phases for launch in launches]
    peaks = [max(phase[name].peak_rss_bytes for name in PHASES) for phase in phases]
    imported = [phase["imports"].rss_bytes for phase in phases]
    return {
        "latency_p50_ns": median.value if median else None,
        "latency_p50_low_ns": median.low if median else None,
        "latency_p50_high_ns": median.high if median else None,
        "latency_p90_ns": stats.percentile_ns(samples, 90),
        "latency_p99_ns": stats.percentile_ns(samples, 99),
        "throughput_per_s": batch * 1e9 / float(samples.mean()),
        "load_ns": float(np.median([launch.load_ns for launch in launches])),
        "first_inference_ns": float(np.median([launch.first_inference_ns for launch in launches])),
        "peak_rss_bytes": int(np.median(peaks)),
        "model_rss_bytes": int(np.median(np.subtract(peaks, imported))),
        "num_launches": len(launches),
        "num_samples": len(samples),
    }


def _comparison(record: Measured, records: Mapping[str, Measured], other: str | None, margin: float) -> dict[str, Any]:
    """The ratio to the baseline, or to another cell of the same group."""
    baseline = baseline_of(record, records)
    if baseline is None or (other is not None and records[other].cell.group != record.cell.group):
        return {}
    if other is None:
        found = comparison.against_baseline(record.launches, baseline.launches)
    else:
        found = comparison.between(record.launches, records[other].launches, baseline.launches)
    control, ratio = found.control, found.ratio
    figures: dict[str, Any] = {"aa_low": control.low, "aa_high": control.high} if control else {}
    if record.cell.path == (other or baseline.cell.path):  # by definition; its own noise is the A/A interval
        return {**figures, "ratio": 1.0, "ratio_low": 1.0, "ratio_high": 1.0}
    if ratio is not None and np.isfinite(ratio.high):
        figures |= {"ratio": ratio.value, "ratio_low": ratio.low, "ratio_high": ratio.high}
        figures["verdict"] = found.verdict(margin)
    return figures


def baseline_of(record: Measured, records: Mapping[str, Measured]) -> Measured | None:
    """The record of the cell that a record's launches ran beside, under its present key."""
    return records.get(record.launches[-1].reference) if record.launches else None


def higher_is_better(records: Mapping[str, Measured]) -> dict[str, bool]:
    """By task, whether its metric is better when it is larger."""
    return {record.cell.task: record.quality.higher_is_better for record in records.values() if record.quality}


def between(records: Mapping[str, Measured], one: str, other: str) -> Comparison | None:
    """One cell against another of its group, by the launches that ran beside the baseline as it is now.

    Returns:
        None where one of them was not timed.
    """
    baseline = baseline_of(records[one], records)
    if baseline is None or not records[other].launches:
        return None
    if other == baseline.cell.path:
        return comparison.against_baseline(records[one].launches, baseline.launches)
    return comparison.between(records[one].launches, records[other].launches, baseline.launches)
