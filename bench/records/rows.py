"""A row: all figures that a report shows of one cell; its fields are the keys of `bench show --format json`."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from bench.api.names import TaskName
from bench.records.columns import ColumnSpec, Unit, columns_of

TO = " to "
"""Stands between the first and the last day in `Row.measured`."""
_UNSHOWN = ColumnSpec(in_details=False)
"""A text or a number that the page says elsewhere than in a cell's details."""


# Not frozen: with slots, to make a row takes 0.7 µs instead of 3.8, and there may be 100,000 of them.
@dataclasses.dataclass(kw_only=True, slots=True, unsafe_hash=True)
class Row:
    """One cell's figures; a figure that was not measured is None, never 0.

    Attributes:
        status: `ok`, `skipped` (cannot run here) or `failed`; `reason` says why.
        fidelity: `exact`, `close`, `drifted` or `broken`; a broken row has no place in a ranking.
        untimed: why the row has no times although its outputs are right: they would say nothing.
        same_as: the cell whose artifact is the same graph with the same weights; this one was not timed.
        placement: how many nodes and which share of the MACs each provider runs.
        warning: a remark on a row that is otherwise sound, such as nodes that fell back to another provider, or an
            operator set that a variant raised.
        ratio: latency over the baseline's, paired; below 1 is faster; with its interval.
        verdict: `faster`, `slower`, `noise` or `undecided`; None for the baseline itself.
        q_value: smallest false discovery rate, over all rows of the results, at which the row would be called faster or
            slower (Benjamini and Hochberg's adjusted p-value).
        judged_as: what the metric compares, in a few words.
        chance: the metric that an answer which ignores the inputs may reach on the same samples.
        chance_note: says that the metric is no better than that; None where it is.
        busy_note: says that other programs held the cores while the task was measured; None where they did not.
        metric_loss: what is lost of the reference's metric, in `metric_loss_unit`; negative where it is better.
        metric_loss_high: the most that may be lost, with 95 % confidence: see `bench.records.metric_loss`; None where
            that has no bound, for the reason `metric_loss_note`.
        metric_loss_unit: `share` (of the score) or `dB`.
        convention: what that bound takes for granted, in a few words; None where it follows from the metric alone.
        metric_samples: held-out samples that were judged, the first in a drawn order; None for the whole split.
        aa_low: interval of the ratio of the baseline to a second copy of itself in the same blocks, of three or more.
        import_ns: time to import the packages; of a page, from the navigation until the runtime was loaded.
        download_bytes: what a visitor of a page downloads, compressed by gzip: the runtime and the model.
        model_rss_bytes: growth of the peak over the process with its packages imported.
        input_spread: standard deviation of the latency between inputs, as a share of it; None where it is no more than
            noise, or where a single input was timed.
        num_samples: steady inferences timed, over all launches.
        num_params_from: `file`, or `source` where the parameters are those of the model that the file was made of.
        num_params_note: why the file has not as many parameters as its source; None where folding explains it.
        macs: of one inference with the whole batch: of the file, or of the task's plain ONNX export where the file is
            no ONNX.
        macs_per_byte: `macs` over the bytes of its weights, inputs and outputs.
        gmacs_per_s: `macs` over the median latency, in 1e9 a second.
        peak_share: `gmacs_per_s` over the machine's peak with as many threads in this precision.
        roof_share: `gmacs_per_s` over the rate that is possible when weights, inputs and outputs are moved once through
            the memory.
        bound: `compute` or `memory`: which of the two alone would take longer.
        ttft_ns: of a row that generates, the time to first token that was measured after a prompt of the same length.
        machine: processor, microarchitecture and number of cores, see `bench.measure.processors.description`.
        measured: the day of its launches (UTC), or the first and the last joined by ` to `.
        packages: versions of the packages that ran it, such as `numpy 2.3.4, onnxruntime 1.23.2`.
        about: where it ran, as a page says it: the browser, its sandbox, the tick of its clock, its adapter.
    """

    cell: Annotated[str, _UNSHOWN]
    task: Annotated[str, _UNSHOWN]
    source: Annotated[str, _UNSHOWN]
    exporter: Annotated[str, _UNSHOWN]
    variant: Annotated[str, _UNSHOWN]
    runtime: Annotated[str, _UNSHOWN]
    provider: Annotated[str, _UNSHOWN]
    precision: str | None = None
    batch: Annotated[int, _UNSHOWN]
    threads: Annotated[int, _UNSHOWN]
    status: str
    reason: Annotated[str | None, _UNSHOWN] = None
    fidelity: str | None = None
    untimed: str | None = None
    same_as: str | None = None
    placement: str | None = None
    warning: Annotated[str | None, _UNSHOWN] = None
    latency_p50_ns: Annotated[
        float | None,
        ColumnSpec(
            unit=Unit.TIME, ends=("latency_p50_low_ns", "latency_p50_high_ns"), in_brackets=True, export="latency"
        ),
    ] = None
    latency_p50_low_ns: Annotated[
        float | None, ColumnSpec(title="latency p50, low", unit=Unit.TIME, like="latency_p50_ns")
    ] = None
    latency_p50_high_ns: Annotated[
        float | None, ColumnSpec(title="latency p50, high", unit=Unit.TIME, like="latency_p50_ns")
    ] = None
    latency_p90_ns: Annotated[float | None, ColumnSpec(unit=Unit.TIME, like="latency_p50_ns")] = None
    latency_p99_ns: Annotated[float | None, ColumnSpec(unit=Unit.TIME, like="latency_p50_ns")] = None
    throughput_per_s: Annotated[float | None, ColumnSpec(title="throughput (1/s)")] = None
    input_spread: Annotated[float | None, ColumnSpec(title="spread over inputs", unit=Unit.SHARE, decimals=3)] = None
    ratio: Annotated[
        float | None, ColumnSpec(unit=Unit.RATIO, ends=("ratio_low", "ratio_high"), in_brackets=True, export="ratio")
    ] = None
    ratio_low: Annotated[float | None, ColumnSpec(unit=Unit.RATIO)] = None
    ratio_high: Annotated[float | None, ColumnSpec(unit=Unit.RATIO)] = None
    verdict: str | None = None
    q_value: float | None = None
    aa_low: Annotated[float | None, ColumnSpec(unit=Unit.RATIO)] = None
    aa_high: Annotated[float | None, ColumnSpec(unit=Unit.RATIO, in_details=False)] = None
    import_ns: Annotated[float | None, ColumnSpec(unit=Unit.TIME)] = None
    load_ns: Annotated[float | None, ColumnSpec(unit=Unit.TIME)] = None
    first_inference_ns: Annotated[float | None, ColumnSpec(unit=Unit.TIME)] = None
    peak_rss_bytes: Annotated[int | None, ColumnSpec(title="peak memory", unit=Unit.BYTES)] = None
    model_rss_bytes: Annotated[int | None, ColumnSpec(title="memory", unit=Unit.BYTES, export="memory")] = None
    size_bytes: Annotated[int | None, ColumnSpec(unit=Unit.BYTES, export="size")] = None
    download_bytes: Annotated[int | None, ColumnSpec(title="download", unit=Unit.BYTES)] = None
    num_params: Annotated[int | None, ColumnSpec(title="parameters")] = None
    num_params_from: str | None = None
    num_params_note: str | None = None
    macs: Annotated[int | None, ColumnSpec(title="MACs", unit=Unit.COUNT)] = None
    macs_per_byte: Annotated[float | None, ColumnSpec(title="MACs/byte")] = None
    gmacs_per_s: Annotated[float | None, ColumnSpec(title="GMAC/s")] = None
    peak_share: Annotated[float | None, ColumnSpec(title="of the peak", unit=Unit.SHARE)] = None
    roof_share: Annotated[float | None, ColumnSpec(title="of the roof", unit=Unit.SHARE)] = None
    bound: Annotated[str | None, ColumnSpec(title="bound by")] = None
    ttft_ns: Annotated[float | None, ColumnSpec(title="TTFT", unit=Unit.TIME)] = None
    loss: float | None = None
    metric: Annotated[float | None, ColumnSpec(export="metric")] = None
    metric_name: str | None = None
    judged_as: str | None = None
    chance: float | None = None
    chance_note: str | None = None
    busy_note: str | None = None
    metric_loss: Annotated[
        float | None, ColumnSpec(unit=Unit.LOSS, ends=(None, "metric_loss_high"), export="metric loss")
    ] = None
    metric_loss_high: Annotated[float | None, ColumnSpec(title="max drop", unit=Unit.LOSS)] = None
    metric_loss_note: str | None = None
    metric_loss_unit: Annotated[str | None, _UNSHOWN] = None
    convention: str | None = None
    metric_samples: int | None = None
    max_abs_error: float | None = None
    num_launches: int = 0
    num_samples: int = 0
    machine: Annotated[str | None, _UNSHOWN] = None
    measured: Annotated[str | None, _UNSHOWN] = None
    packages: Annotated[str | None, _UNSHOWN] = None
    about: str | None = None

    @property
    def task_name(self) -> TaskName:
        """The task as a typed value."""
        return TaskName.parse(self.task)


COLUMNS = columns_of(Row)
"""The columns by key, in the order of the fields."""
