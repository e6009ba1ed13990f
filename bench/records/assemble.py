"""Rows from stored records: every figure of a report is computed here, from raw samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from bench.api.artifact import Facts
from bench.api.errors import InputError
from bench.api.names import Role, TaskName
from bench.measure import comparison, corrections, inputs, processors, stats
from bench.measure.comparison import Comparison, Fitted
from bench.measure.corrections import Judged
from bench.measure.launch import Launch
from bench.measure.questions import Aims
from bench.measure.roofline import Peaks
from bench.records import costs, read_bounds
from bench.records.busy import note as busy_note
from bench.records.chance import note
from bench.records.lines import Placed, Quality
from bench.records.measured_cell import Measured, same_as
from bench.records.measurements import Measurements
from bench.records.metric_loss import Lost
from bench.records.parameters import Sources
from bench.records.rows import TO, Row

TAILS = {"latency_p90_ns": 90.0, "latency_p99_ns": 99.0}
"""The percentiles of a row above its median, by key."""
PHASES = ("load", "first_inference", "steady")
EARLIER = "an earlier version verified it"
"""Why a quality that says nothing of its samples has no bound on the metric that it loses."""
NO_WORSE = "no sample loses more than the largest loss that was measured"
"""What the bound takes for granted where a sample lost more than its task takes to be the most."""


def rows(
    records: Mapping[str, Measured],
    *,
    baseline: str | None = None,
    margin: float = Aims().margin,
    peaks: Mapping[int, Peaks] | None = None,
    measurements: Measurements | None = None,
) -> list[Row]:
    """One row for each record, in the records' order.

    Args:
        records: the current record of each cell path.
        baseline: compare with this cell instead of each group's own; rows of other groups have no ratio.
        margin: largest difference that counts as `noise`, as a share.
        peaks: peaks of the machine, by number of threads.
        measurements: the model of the measurement, fitted to the records; None to fit it here.

    Raises:
        InputError: there is no result for `baseline`.
    """
    if baseline is not None and baseline not in records:
        raise InputError(f"no result for the baseline {baseline!r}; `bench show` lists the cells that have one")
    twins = same_as([record for record in records.values() if record.quality is not None])
    baseline = twins.get(baseline, baseline) if baseline is not None else None
    if baseline is not None and not records[baseline].launches:
        raise InputError(f"the baseline {baseline!r} has not been timed; `bench show {baseline}` says why")
    fitted = measurements or Measurements(records)
    judged = _judged_rows(records, fitted, baseline, margin)
    newest: dict[TaskName, Measured] = {}
    for record in records.values():
        if (other := newest.get(record.cell.task)) is None or record.header.time > other.header.time:
            newest[record.cell.task] = record
    launches: dict[TaskName, list[Launch]] = {}
    for record in records.values():
        launches.setdefault(record.cell.task, []).extend(record.launches)
    busy = {task: busy_note(own, newest[task].header.machine) for task, own in launches.items()}
    plain, of_threads, rates = costs.Plain(records), peaks or {}, read_bounds.ReadRates(records.values())
    parameters = Sources(records)

    def row(path: str, record: Measured) -> Row:
        cell = record.cell
        coordinates = {"cell": path, **cell.coordinates, "busy_note": busy[cell.task], **_origin(record)}
        if (reason := _outdated(record, records, newest[cell.task])) is not None:
            return Row(**coordinates, status="skipped", reason=reason)
        fields = _fields(record, records, twins.get(path), fitted.of(path), baseline, judged.get(path), parameters)
        if record.failure is None:
            reading = read_bounds.read_bound(record, rates)
            latest_ns = fields.get("latency_p50_high_ns") or fields.get("latency_p50_ns")
            if reading is not None and latest_ns and (refusal := reading.refusal(latest_ns)) is not None:
                return Row(**coordinates, status="failed", reason=refusal)
            fields |= costs.fields(record, fields.get("latency_p50_ns"), plain, of_threads.get(cell.threads), rates)
        return Row(**coordinates, **fields)

    all_rows = [row(path, record) for path, record in records.items()]
    _add_prefills(all_rows)
    return all_rows


def _origin(record: Measured) -> dict[str, str | None]:
    """On which machine, on which days and with which packages a record was measured."""
    header = record.header
    days = sorted({time[:10] for launch in record.launches if (time := launch.time)})
    packages = [f"{name} {version}" for name, version in sorted(header.versions.items()) if version is not None]
    return {
        "machine": processors.description(header.machine) if header.machine else None,
        "measured": TO.join(dict.fromkeys((days[0], days[-1]))) if days else None,
        "packages": ", ".join(packages) or None,
    }


def _add_prefills(all_rows: Sequence[Row]) -> None:
    """Tell each row that generates the time to first token of the same deployment and prompt."""
    prefills = {}
    generating = [row for row in all_rows if row.task_name.role is Role.GENERATION]
    for row in generating:
        if row.task_name.is_prefill and row.status == "ok" and row.fidelity != "broken":
            prefills[_deployment(row)] = row.latency_p50_ns
    for row in generating:
        row.ttft_ns = prefills.get(_deployment(row))


def _deployment(row: Row) -> tuple[str, ...]:
    """Equal for rows of one deployment of a decoder and one length of its prompts."""
    return (row.task_name.model, str(row.task_name.num_prompt), *row.cell.split("/")[1:])


def _judged_rows(
    records: Mapping[str, Measured], measurements: Measurements, other: str | None, margin: float
) -> dict[str, Judged | None]:
    """The verdict on each timed cell against its baseline, or against `other`, corrected for the number of cells.

    The cells of searches are corrected for their own number: what is tried for one task is no evidence on another.
    """
    compared: dict[bool, dict[str, Comparison]] = {False: {}, True: {}}
    for path, record in records.items():
        fitted = measurements.of(path)
        if fitted is None:
            continue
        reference = other or fitted.baseline
        if reference != path and reference in fitted.names:
            compared[record.cell.task.is_of_search][path] = fitted.between(path, reference)
    verdicts: dict[str, Judged | None] = {}
    for own in compared.values():
        verdicts |= zip(own, corrections.judge(list(own.values()), margin=margin), strict=True)
    return verdicts


def _fields(
    record: Measured,
    records: Mapping[str, Measured],
    twin: str | None,
    fitted: Fitted | None,
    other: str | None,
    judged: Judged | None,
    parameters: Sources,
) -> dict[str, Any]:
    """The fields of a row, without the cell's coordinates and costs."""
    cell, quality, artifact = record.cell, record.quality, record.artifact
    launches = compared(record, records)
    timing = _timing(launches, cell.batch) if launches else {}
    timing |= _compared(cell.path, fitted, other, judged) if fitted else {}
    return {
        "status": record.failure.status if record.failure else "ok",
        "reason": record.failure.reason if record.failure else quality.reason if quality else None,
        "same_as": twin,
        "size_bytes": artifact.size_bytes if artifact else None,
        **parameters.fields(record),
        **(_judged(cell.path, quality, records) | _of_metric(quality, records) if quality else {}),
        "warning": _warning(artifact, quality),
        **timing,
        **_tails(launches, timing.get("latency_p50_ns")),
    }


def _judged(path: str, quality: Quality, records: Mapping[str, Measured]) -> dict[str, Any]:
    same = ("precision", "fidelity", "loss", "metric_name", "metric_loss", "max_abs_error")
    return {
        **{name: getattr(quality, name) for name in same},
        "metric": (quality.metrics or {}).get(quality.metric_name or ""),
        "metric_loss_unit": None if quality.metric_loss is None else quality.loss_unit,
        **_bound(path, quality, _reference_of(quality, records)),
        "metric_samples": None if quality.num_samples is msgspec.UNSET else quality.num_samples,
        "placement": _placement(quality.placement),
    }


def _of_metric(quality: Quality, records: Mapping[str, Measured]) -> dict[str, Any]:
    """What the metric compares, how an answer that ignores the inputs would do, and whether the reference is better."""
    return {
        "judged_as": None if quality.judged_as is msgspec.UNSET else quality.judged_as,
        "chance": None if quality.chance is msgspec.UNSET else quality.chance,
        "chance_note": note(_reference_of(quality, records) or quality),
    }


def _reference_of(quality: Quality, records: Mapping[str, Measured]) -> Quality | None:
    """The quality of the cell whose outputs count as right; None where it is not among the records."""
    reference = records.get(quality.reference or "")
    return reference.quality if reference is not None else None


def _warning(artifact: Facts | None, quality: Quality | None) -> str | None:
    """What the outputs leave open, what the runtime warns of, and what the steps that made the artifact note."""
    notes = (*((quality.doubts, quality.warning) if quality else ()), artifact.info.get("note") if artifact else None)
    return "; ".join(filter(None, notes)) or None


def _bound(path: str, quality: Quality, reference: Quality | None) -> dict[str, Any]:
    """The most that may be lost of the metric, or why that cannot be told."""
    if quality.metric_loss is None:
        return {}
    if quality.loses_nothing(path, reference.precision if reference else None):
        return {"metric_loss_high": 0.0}
    if isinstance(quality.lost, Lost):
        return {"metric_loss_high": quality.lost.high(), "convention": _convention(quality, quality.lost)}
    return {"metric_loss_note": quality.lost if isinstance(quality.lost, str) else EARLIER}


def _convention(quality: Quality, lost: Lost) -> str | None:
    """What the bound takes for granted: the task's convention, or what is left of it where a sample lost more."""
    if quality.convention is msgspec.UNSET:
        return None
    return quality.convention if lost.largest <= lost.most else NO_WORSE


def _placement(placed: Mapping[str, Placed] | None) -> str | None:
    """`CPUExecutionProvider: 12 nodes, 100 % of MACs`, joined by semicolons."""
    parts = []
    for provider, portion in (placed or {}).items():
        share = f", {100 * portion.macs_share:.3g} % of MACs" if portion.macs_share is not None else ""
        parts.append(f"{provider}: {portion.nodes} node{'' if portion.nodes == 1 else 's'}{share}")
    return "; ".join(parts) or None


def _outdated(record: Measured, records: Mapping[str, Measured], newest: Measured) -> str | None:
    """The reason why a record's figures cannot stand beside those of the other records; None where they can.

    A sweep over some cells leaves the records of the other cells as they were: those may be of other weights or data,
    or may have been measured beside another baseline.

    Args:
        record: the record.
        records: the current record of each cell path.
        newest: the newest record of the task.
    """
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
    medians = [median for launch in launches for median in launch.medians_ns]
    phases = [launch.memory.phases for launch in launches]
    peaks = [max(phase[name].peak_rss_bytes for name in PHASES) for phase in phases]
    imported = [phase["imports"].rss_bytes for phase in phases]
    return {
        "latency_p50_ns": float(np.median(medians)) if medians else None,  # where no baseline places it in the model
        "throughput_per_s": batch * 1e9 / float(samples.mean()),
        "input_spread": inputs.spread(launches),
        "load_ns": float(np.median([launch.load_ns for launch in launches])),
        "first_inference_ns": float(np.median([launch.first_inference_ns for launch in launches])),
        "peak_rss_bytes": int(np.median(peaks)),
        "model_rss_bytes": int(np.median(np.subtract(peaks, imported))),
        "num_launches": len(launches),
        "num_samples": len(samples),
    }


def _tails(launches: Sequence[Launch], p50_ns: float | None) -> dict[str, float | None]:
    """The percentiles above the median, in the same state of the machine as the median: none is below it.

    Each sample is taken over the median of its launch, so that a launch in a slow or a fast state of the machine does
    not count as slow or fast inferences; the percentile of all samples over their median, times `p50_ns`, is the row's.
    """
    own = [np.array(launch.samples_ns, float) for launch in launches if launch.samples_ns]
    if p50_ns is None or not own:
        return {}
    relative = np.concatenate([samples / np.median(samples) for samples in own])
    percentiles = {key: stats.percentile(relative, percent) for key, percent in TAILS.items()}
    middle = float(np.median(relative))
    return {key: None if value is None else p50_ns * (value / middle) for key, value in percentiles.items()}


def _compared(path: str, fitted: Fitted, other: str | None, judged: Judged | None) -> dict[str, Any]:
    """The latency as the model estimates it, and the ratio to the baseline or to another cell of the same group."""
    latency, control = fitted.latency_ns(path), fitted.control
    figures: dict[str, Any] = {}
    if latency is not None:
        ends = {"latency_p50_low_ns": latency.low, "latency_p50_high_ns": latency.high}
        figures |= {"latency_p50_ns": latency.value, **ends}
    if control is not None:
        figures |= {"aa_low": control.ratio().low, "aa_high": control.ratio().high}
    reference = other or fitted.baseline
    if path == reference:  # by definition; its own noise is the A/A interval
        return {**figures, "ratio": 1.0, "ratio_low": 1.0, "ratio_high": 1.0}
    ratio = fitted.between(path, reference).ratio if reference in fitted.names else None
    if ratio is None or judged is None:
        return figures
    figures |= {"ratio": ratio.value, "ratio_low": ratio.low, "ratio_high": ratio.high}
    return {**figures, "verdict": judged.verdict, "q_value": judged.p_value}


def baseline_of(record: Measured, records: Mapping[str, Measured]) -> Measured | None:
    """The record of the cell that a record's launches ran beside, under its present key."""
    return records.get(record.launches[-1].reference) if record.launches else None


def higher_is_better(records: Mapping[str, Measured]) -> dict[str, bool]:
    """By task, whether its metric is better when it is larger."""
    return {str(record.cell.task): record.quality.higher_is_better for record in records.values() if record.quality}
