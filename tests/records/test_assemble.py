"""Rows from records: every figure by hand, and None where nothing was measured."""

from __future__ import annotations

from typing import Any

import pytest

from bench.api.errors import InputError
from bench.measure.comparison import CELL, REFERENCE
from bench.records import assemble
from bench.records.lines import Failure
from bench.records.rows import COLUMNS, Row
from bench.records.store import Record
from support import records as made

KEYS = (
    "cell task source exporter variant runtime provider precision batch threads status reason fidelity same_as "
    "placement warning "
    "latency_p50_ns latency_p50_low_ns latency_p50_high_ns latency_p90_ns latency_p99_ns throughput_per_s "
    "ratio ratio_low ratio_high verdict aa_low aa_high load_ns first_inference_ns peak_rss_bytes model_rss_bytes "
    "size_bytes num_params macs macs_per_byte gmacs_per_s peak_share roof_share bound loss metric metric_name "
    "metric_loss metric_loss_high metric_loss_note max_abs_error num_launches num_samples"
)

BASELINE, HALVE, PRUNE, OTHER_GROUP = made.BASELINE, made.HALVE, made.PRUNE, made.OTHER_GROUP
PASSES, QUALITY = made.PASSES, made.QUALITY
launch, record, baseline = made.launch, made.record, made.baseline


def rows(*records: Record, **options: Any) -> dict[str, Row]:
    return {row.cell: row for row in assemble.rows({item.cell.path: item for item in records}, **options)}


def test_keys_are_the_promised_ones_in_order() -> None:
    assert tuple(KEYS.split()) == COLUMNS


def test_figures_of_a_cell() -> None:
    row = rows(baseline(), record(HALVE, launch("a", CELL, 499), launch("b", CELL, 999)))[HALVE]
    assert (row.task, row.source, row.exporter, row.variant) == ("toy", "null", "native", "halve")
    assert (row.runtime, row.provider, row.batch, row.threads) == ("null", "cpu", 2, 1)
    assert (row.status, row.reason, row.fidelity, row.precision) == ("ok", None, "close", "float32")
    assert (row.loss, row.metric, row.metric_name, row.max_abs_error) == (0.25, 0.75, "accuracy", 0.5)
    assert (row.num_launches, row.num_samples) == (2, 2 * 2 * PASSES)
    # Samples are 499, 501, 999 and 1001, as many of each.
    assert row.latency_p50_ns == 750
    assert row.latency_p50_low_ns is not None
    assert row.latency_p50_high_ns is not None
    assert 500 <= row.latency_p50_low_ns <= 750 <= row.latency_p50_high_ns <= 1000
    assert row.throughput_per_s == pytest.approx(2 * 1e9 / 750)  # two samples an inference
    assert (row.latency_p90_ns, row.latency_p99_ns) == (None, None)  # too few samples
    assert (row.load_ns, row.first_inference_ns) == (1000, 2000)
    assert (row.peak_rss_bytes, row.model_rss_bytes) == (400, 300)  # imports do not count
    assert row.size_bytes == 31
    assert row.num_params == 12
    assert row.macs is None


def test_ratio_and_verdict() -> None:
    row = rows(baseline(), record(HALVE, launch("a", CELL, 500), launch("b", CELL, 1000)))[HALVE]
    assert row.ratio == pytest.approx(0.5, rel=1e-2)
    assert row.ratio_low is not None
    assert row.ratio_high is not None
    assert row.ratio_low <= row.ratio <= row.ratio_high
    assert row.verdict == "faster"
    assert (row.aa_low, row.aa_high) == (pytest.approx(1), pytest.approx(1))


def test_baseline_row_is_one_by_definition() -> None:
    row = rows(baseline())[BASELINE]
    assert (row.ratio, row.ratio_low, row.ratio_high, row.verdict) == (1.0, 1.0, 1.0, None)
    assert (row.aa_low, row.aa_high) == (pytest.approx(1), pytest.approx(1))
    assert row.num_launches == 4
    assert row.same_as is None


def test_percentiles_appear_when_there_are_enough_samples() -> None:
    samples = [list(range(1, 101))]
    row = rows(baseline(), record(HALVE, launch("a", CELL, 1, steady_ns=samples)))[HALVE]
    assert (row.latency_p50_ns, row.latency_p90_ns, row.latency_p99_ns) == (50.5, 90, None)


def test_cold_samples_are_not_latency() -> None:
    row = rows(record(HALVE, launch("a", CELL, 500)))[HALVE]
    assert row.latency_p50_ns == 501


TIMING = [
    name
    for name in COLUMNS
    if name.startswith(("latency_", "ratio", "aa_")) or name.endswith(("_per_s", "_ns", "rss_bytes"))
] + ["verdict"]


def test_not_measured_is_none_not_zero() -> None:
    row = rows(record(HALVE, quality=None, artifact=False))[HALVE]
    filled = {"cell", "task", "source", "exporter", "variant", "runtime", "provider", "batch", "threads", "status"}
    counts = {"num_launches", "num_samples"}
    for name in COLUMNS:
        if name in counts:
            assert getattr(row, name) == 0
        else:
            assert (getattr(row, name) is None) == (name not in filled), name


def test_verified_but_not_timed() -> None:
    row = rows(record(HALVE))[HALVE]
    assert (row.status, row.fidelity, row.metric) == ("ok", "close", 0.75)
    assert {name: getattr(row, name) for name in TIMING} == dict.fromkeys(TIMING)


@pytest.mark.parametrize(
    ("stage", "status"),
    [("skip", "skipped"), ("prepare", "failed"), ("verify", "failed"), ("open", "failed"), ("measure", "failed")],
)
def test_status(stage: str, status: str) -> None:
    failure = Failure(stage=stage, reason="it broke")
    row = rows(record(HALVE, quality=None, failure=failure))[HALVE]
    assert (row.status, row.reason, row.fidelity) == (status, "it broke", None)


def test_reason_of_a_broken_cell() -> None:
    broken = made.quality(fidelity="broken", reason="accuracy is worse", metrics=None, loss=None)
    row = rows(record(HALVE, quality=broken))[HALVE]
    assert (row.status, row.fidelity, row.reason) == ("ok", "broken", "accuracy is worse")
    assert (row.metric, row.loss, row.ratio, row.latency_p50_ns) == (None, None, None, None)


def test_same_as_names_the_cell_that_was_timed() -> None:
    found = rows(
        baseline(),
        record(HALVE, canonical="same"),
        record(PRUNE, launch("a", CELL, 500), canonical="same"),
    )
    assert (found[HALVE].same_as, found[PRUNE].same_as) == (PRUNE, None)
    assert found[HALVE].latency_p50_ns is None


def test_same_as_needs_the_same_runtime_batch_and_threads() -> None:
    elsewhere = HALVE.replace("/null/cpu/", "/twin/cpu/")
    found = rows(
        record(PRUNE, launch("a", CELL, 500), canonical="same"),
        record(elsewhere, canonical="same"),
        record(HALVE.replace("b2t1", "b1t1"), canonical="same"),
        record(HALVE, canonical="another"),
        record(HALVE.replace("halve", "unknown"), canonical=None),
    )
    assert [row.same_as for row in found.values()] == [None] * 5


def test_cells_that_were_all_timed_stand_for_themselves() -> None:
    found = rows(
        record(HALVE, launch("a", CELL, 500), canonical="same"), record(PRUNE, launch("a", CELL, 500), canonical="same")
    )
    assert [row.same_as for row in found.values()] == [None, None]


def test_another_baseline() -> None:
    records = (
        baseline(),
        record(HALVE, launch("a", CELL, 500), launch("b", CELL, 1000)),
        record(PRUNE, launch("a", CELL, 250), launch("b", CELL, 500)),
        baseline(OTHER_GROUP, c=100, d=100),
    )
    found = rows(*records, baseline=HALVE)
    assert (found[HALVE].ratio, found[HALVE].verdict) == (1.0, None)
    assert found[PRUNE].ratio == pytest.approx(0.5, rel=1e-2)
    assert found[PRUNE].verdict == "faster"
    assert found[BASELINE].ratio == pytest.approx(2.0, rel=1e-2)
    assert found[BASELINE].verdict == "slower"
    assert found[OTHER_GROUP].ratio is None  # it answers another request
    assert found[OTHER_GROUP].latency_p50_ns is not None
    assert {path: row.latency_p50_ns for path, row in found.items()} == {
        path: row.latency_p50_ns for path, row in rows(*records).items()
    }


def test_baseline_without_a_result() -> None:
    with pytest.raises(InputError, match=f"no result for the baseline '{PRUNE}'"):
        rows(baseline(), baseline=PRUNE)


def test_one_launch_has_no_verdict_but_an_estimate() -> None:
    row = rows(baseline(a=1000), record(HALVE, launch("a", CELL, 500)))[HALVE]
    assert row.ratio == pytest.approx(0.5, rel=1e-2)
    assert row.verdict == "undecided"


def test_launch_whose_baseline_is_lost_has_no_ratio() -> None:
    row = rows(record(HALVE, launch("a", CELL, 500)))[HALVE]
    assert (row.ratio, row.verdict, row.aa_low) == (None, None, None)
    assert row.latency_p50_ns == 501


def test_results_beside_a_baseline_that_has_changed_are_out_of_the_table() -> None:
    row = rows(baseline(c=1000), record(HALVE, launch("a", CELL, 500)))[HALVE]
    assert (row.status, row.latency_p50_ns, row.ratio) == ("skipped", None, None)
    assert "baseline that has changed" in str(row.reason)


def test_launches_beside_an_older_baseline_count_for_nothing() -> None:
    row = rows(baseline(b=1000), record(HALVE, launch("a", CELL, 500), launch("b", CELL, 700)))[HALVE]
    assert (row.num_launches, row.latency_p50_ns) == (1, 701)


def test_results_of_other_weights_are_out_of_the_table() -> None:
    old = record(HALVE, launch("a", CELL, 500), subject="old weights", time="2026-01-01")
    found = rows(old, record(BASELINE, launch("a", REFERENCE, 1000), time="2026-01-02"))
    assert found[BASELINE].status == "ok"
    assert (found[HALVE].status, found[HALVE].latency_p50_ns) == ("skipped", None)
    assert "other weights" in str(found[HALVE].reason)


def test_interval_that_is_not_finite_is_none() -> None:
    """JSON has no infinity."""
    alone = record(BASELINE, launch("a", REFERENCE, 1000))
    row = rows(alone, record(HALVE, launch("a", CELL, 500)))[HALVE]
    assert (row.ratio, row.ratio_low, row.ratio_high, row.verdict) == (None, None, None, None)


def test_margin_decides_what_is_noise() -> None:
    records = (
        baseline(a=1_000_000, b=1_000_000, c=1_000_000),
        record(HALVE, *[launch(block, CELL, ns) for block, ns in (("a", 1001000), ("b", 1003000), ("c", 1002000))]),
    )
    assert rows(*records, margin=0.02)[HALVE].verdict == "noise"
    assert rows(*records, margin=0.0001)[HALVE].verdict == "undecided"


def test_direction_of_metrics() -> None:
    records = {item.cell.path: item for item in (record(HALVE), record(PRUNE, quality=None))}
    assert assemble.higher_is_better(records) == {"toy": True}
