"""Rows from stored records: every figure of a report is computed here, from raw samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

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

T = TypeVar("T")
PHASES = ("load", "first_inference", "steady")
_FINE_SHARE = 0.01
"""Largest share of a median that a tick of its clock is without a warning."""
_EARLIER = "an earlier version verified it"
"""Why a quality that says nothing of its samples has no bound on the metric that it loses."""
_NO_WORSE = "no sample loses more than the largest loss that was measured"
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
    of_task: dict[TaskName, list[Launch]] = {}
    for record in records.values():
        of_task.setdefault(record.cell.task, []).extend(record.launches)
    busy = {task: busy_note(own, newest[task].header.machine) for task, own in of_task.items()}
    plain, of_threads, rates = costs.Plain(records), peaks or {}, read_bounds.ReadRates(records.values())
    parameters = Sources(records)

    def row_of(path: str, record: Measured) -> Row:
        row = _empty(path, record)
        row.busy_note = busy[record.cell.task]
        if (reason := _outdated(record, records, newest[record.cell.task])) is not None:
            row.status, row.reason = "skipped", reason
            return row
        row.same_as = twins.get(path)
        _add_quality(row, record, records)
        parameters.add(row, record)
        if row.untimed is not None:
            return row
        launches = compared(record, records)
        _add_timing(row, launches)
        if (group := fitted.of(path)) is not None:
            _add_comparison(row, group, baseline, judged.get(path))
        _add_resolution(row, record.quality)
        _add_tails(row, launches)
        if record.failure is not None:
            return row
        reading = read_bounds.read_bound(record, rates)
        latest_ns = row.latency_p50_high_ns or row.latency_p50_ns
        if reading is not None and latest_ns and (refusal := reading.refusal(latest_ns)) is not None:
            row = _empty(path, record)
            row.busy_note, row.status, row.reason = busy[record.cell.task], "failed", refusal
            return row
        costs.add(row, record, plain, of_threads.get(row.threads), rates)
        return row

    all_rows = [row_of(path, record) for path, record in records.items()]
    _add_prefills(all_rows)
    return all_rows


def _empty(path: str, record: Measured) -> Row:
    """A row without figures: what the cell is, on which machine, on which days and with which packages it ran."""
    cell, header = record.cell, record.header
    days = sorted({time[:10] for launch in record.launches if (time := launch.time)})
    packages = [f"{name} {version}" for name, version in sorted(header.versions.items()) if version is not None]
    return Row(
        cell=path,
        task=str(cell.task),
        source=cell.source,
        exporter=str(cell.exporter),
        variant=cell.variant,
        runtime=str(cell.runtime),
        provider=str(cell.provider),
        batch=cell.batch,
        threads=cell.threads,
        status="ok",
        machine=processors.description(header.machine) if header.machine else None,
        measured=TO.join(dict.fromkeys((days[0], days[-1]))) if days else None,
        packages=", ".join(packages) or None,
    )


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


def _add_quality(row: Row, record: Measured, records: Mapping[str, Measured]) -> None:
    """Write into a row what its artifact is, and how right its outputs are."""
    failure, artifact, quality = record.failure, record.artifact, record.quality
    if failure is not None:
        row.status, row.reason = failure.status, failure.reason
    row.size_bytes = artifact.size_bytes if artifact else None
    row.warning = _warning(artifact, quality)
    if quality is None:
        return
    row.reason = row.reason if failure is not None else quality.reason
    row.precision, row.fidelity, row.loss = quality.precision, quality.fidelity, quality.loss
    row.metric_name, row.metric = quality.metric_name, (quality.metrics or {}).get(quality.metric_name or "")
    row.metric_loss, row.max_abs_error = quality.metric_loss, quality.max_abs_error
    row.metric_samples = _known(quality.num_samples)
    row.untimed, row.download_bytes = _known(quality.untimed), _known(quality.download_bytes)
    row.about = ", ".join(f"{name} {value}" for name, value in (_known(quality.about) or {}).items()) or None
    row.placement = _placement(quality.placement)
    row.judged_as, row.chance = _known(quality.judged_as), _known(quality.chance)
    reference = _reference_of(quality, records)
    row.chance_note = note(reference or quality)
    if quality.metric_loss is None:
        return
    row.metric_loss_unit = quality.loss_unit
    if quality.loses_nothing(row.cell, reference.precision if reference else None):
        row.metric_loss_high = 0.0
    elif isinstance(quality.lost, Lost):
        row.metric_loss_high, row.convention = quality.lost.high(), _convention(quality, quality.lost)
    else:
        row.metric_loss_note = quality.lost if isinstance(quality.lost, str) else _EARLIER


def _add_resolution(row: Row, quality: Quality | None) -> None:
    """Warn of a clock that is coarse beside a median; see `comparison.Fitted` for what it does to intervals."""
    tick_ns = quality.clock_tick_ns if quality is not None else 0
    if tick_ns and row.latency_p50_ns and (share := tick_ns / row.latency_p50_ns) > _FINE_SHARE:
        note = (
            f"its clock ticks every {tick_ns / 1e3:g} us: the median may be off by {100 * share:.2g} %, "
            "by which its intervals are wider"
        )
        row.warning = "; ".join(filter(None, [row.warning, note]))


def _known(value: T | msgspec.UnsetType) -> T | None:
    return None if value is msgspec.UNSET else value


def _reference_of(quality: Quality, records: Mapping[str, Measured]) -> Quality | None:
    """The quality of the cell whose outputs count as right; None where it is not among the records."""
    reference = records.get(quality.reference or "")
    return reference.quality if reference is not None else None


def _warning(artifact: Facts | None, quality: Quality | None) -> str | None:
    """What the outputs leave open, what the runtime warns of, and what the steps that made the artifact note."""
    notes = (*((quality.doubts, quality.warning) if quality else ()), artifact.info.get("note") if artifact else None)
    return "; ".join(filter(None, notes)) or None


def _convention(quality: Quality, lost: Lost) -> str | None:
    """What the bound takes for granted: the task's convention, or what is left of it where a sample lost more."""
    if quality.convention is msgspec.UNSET:
        return None
    return quality.convention if lost.largest <= lost.most else _NO_WORSE


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
    """The launches that ran beside the baseline as it is now, and those of contenders where the record has such."""
    baseline = baseline_of(record, records)
    if baseline is None:
        return list(record.launches)
    blocks = comparison.by_block(baseline.launches, comparison.REFERENCE)
    if not any(launch.block in blocks for launch in record.launches):
        return []
    return [launch for launch in record.launches if launch.block in blocks or launch.role == comparison.CONTENDER]


def _add_timing(row: Row, launches: Sequence[Launch]) -> None:
    """Write into a row the latency, the cold start and the memory of its launches, where there are any."""
    if not launches:
        return
    samples = np.array([sample for launch in launches for sample in launch.samples_ns], float)
    medians = [median for launch in launches for median in launch.medians_ns]
    phases = [launch.memory.phases for launch in launches]
    peaks = [max(phase[name].peak_rss_bytes for name in PHASES) for phase in phases]
    imported = [phase["imports"].rss_bytes for phase in phases]
    row.latency_p50_ns = float(np.median(medians)) if medians else None  # where no baseline places it in the model
    row.throughput_per_s = row.batch * 1e9 / float(samples.mean())
    row.input_spread = inputs.spread(launches)
    imports = [launch.import_ns for launch in launches if launch.import_ns is not None]
    row.import_ns = float(np.median(imports)) if imports else None
    row.load_ns = float(np.median([launch.load_ns for launch in launches]))
    row.first_inference_ns = float(np.median([launch.first_inference_ns for launch in launches]))
    row.peak_rss_bytes = int(np.median(peaks))
    row.model_rss_bytes = int(np.median(np.subtract(peaks, imported)))
    row.num_launches, row.num_samples = len(launches), len(samples)


def _add_tails(row: Row, launches: Sequence[Launch]) -> None:
    """Write into a row the percentiles above its median, in the same state of the machine as it: none is below it.

    Each sample is taken over the median of its launch, so that a launch in a slow or a fast state of the machine does
    not count as slow or fast inferences; the percentile of all samples over their median, times the row's median, is
    the row's percentile.
    """
    own = [np.array(launch.samples_ns, float) for launch in launches if launch.samples_ns]
    if row.latency_p50_ns is None or not own:
        return
    relative = np.concatenate([samples / np.median(samples) for samples in own])
    middle = float(np.median(relative))
    p90, p99 = (stats.percentile(relative, percent) for percent in (90.0, 99.0))
    row.latency_p90_ns = None if p90 is None else row.latency_p50_ns * (p90 / middle)
    row.latency_p99_ns = None if p99 is None else row.latency_p50_ns * (p99 / middle)


def _add_comparison(row: Row, fitted: Fitted, other: str | None, judged: Judged | None) -> None:
    """Write into a row the latency as the model estimates it, and the ratio to the baseline or to `other`."""
    if (latency := fitted.latency_ns(row.cell)) is not None:
        row.latency_p50_ns, row.latency_p50_low_ns, row.latency_p50_high_ns = latency.value, latency.low, latency.high
    if fitted.control is not None:
        control = fitted.control.ratio()
        row.aa_low, row.aa_high = control.low, control.high
    reference = other or fitted.baseline
    if row.cell == reference:  # by definition; its own noise is the A/A interval
        row.ratio = row.ratio_low = row.ratio_high = 1.0
        return
    ratio = fitted.between(row.cell, reference).ratio if reference in fitted.names else None
    if ratio is not None and judged is not None:
        row.ratio, row.ratio_low, row.ratio_high = ratio.value, ratio.low, ratio.high
        row.verdict, row.q_value = judged.verdict, judged.p_value


def baseline_of(record: Measured, records: Mapping[str, Measured]) -> Measured | None:
    """The record of the cell that a record's launches ran beside, under its present key."""
    return records.get(record.launches[-1].reference) if record.launches else None


def higher_is_better(records: Mapping[str, Measured]) -> dict[str, bool]:
    """By task, whether its metric is better when it is larger."""
    return {str(record.cell.task): record.quality.higher_is_better for record in records.values() if record.quality}
