"""Rows from records: every figure by hand, and None where nothing was measured."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import msgspec
import pytest

from bench.api.errors import InputError
from bench.measure.comparison import CELL, CONTENDER, CONTROL, REFERENCE
from bench.records import assemble
from bench.records.lines import Failure
from bench.records.measurements import Measurements
from bench.records.rows import COLUMNS, Row
from bench.records.store import Record
from support import records as made

KEYS = (
    "cell task source exporter variant runtime provider precision batch threads status reason fidelity untimed same_as "
    "placement warning "
    "latency_p50_ns latency_p50_low_ns latency_p50_high_ns latency_p90_ns latency_p99_ns throughput_per_s input_spread "
    "ratio ratio_low ratio_high verdict q_value aa_low aa_high import_ns load_ns first_inference_ns peak_rss_bytes "
    "model_rss_bytes size_bytes download_bytes num_params num_params_from num_params_note macs macs_per_byte "
    "gmacs_per_s peak_share roof_share bound ttft_ns "
    "loss metric metric_name judged_as chance chance_note busy_note "
    "metric_loss metric_loss_high metric_loss_note metric_loss_unit convention metric_samples "
    "max_abs_error num_launches num_samples machine measured packages about"
)

BASELINE, HALVE, PRUNE, OTHER_GROUP = made.BASELINE, made.HALVE, made.PRUNE, made.OTHER_GROUP
PASSES, QUALITY = made.PASSES, made.QUALITY
launch, record, baseline = made.launch, made.record, made.baseline


def rows(*records: Record, **options: Any) -> dict[str, Row]:
    return {row.cell: row for row in assemble.rows({item.cell.path: item for item in records}, **options)}


def test_keys_are_the_promised_ones_in_order() -> None:
    assert tuple(KEYS.split()) == tuple(COLUMNS)


@pytest.mark.parametrize(
    ("tick_ns", "share"),
    [(4, None), (6, "1.2 %"), (50, "10 %"), (msgspec.UNSET, None)],
)
def test_a_clock_that_is_coarse_beside_a_median_is_warned_of(tick_ns: Any, share: str | None) -> None:
    """The median is 500 ns, of which up to 1 % is fine."""
    cell = made.replaced_quality(record(HALVE, launch("a", CELL, 499), launch("b", CELL, 499)), tick_ns=tick_ns)
    row = rows(baseline(), cell)[HALVE]
    assert row.latency_p50_ns == pytest.approx(500)
    off = f"the median may be off by {share}, by which its intervals are wider"
    note = f"its clock ticks every {tick_ns / 1e3:g} us: {off}" if share else None
    assert row.warning == note
    warned = made.replaced_quality(cell, tick_ns=tick_ns, warning="falls back")
    assert rows(baseline(), warned)[HALVE].warning == "; ".join(filter(None, ["falls back", note]))


def test_a_coarse_clock_decides_nothing_that_lies_within_a_tick() -> None:
    """The cell takes 500 ns, a third of the baseline's; a tick of 1000 ns may hide as much."""
    launches = [launch(name, CELL, 499) for name in "ab"]
    fine, coarse = (
        rows(baseline(), made.replaced_quality(record(HALVE, *launches), tick_ns=tick_ns))[HALVE]
        for tick_ns in (1, 1000)
    )
    assert (fine.verdict, coarse.verdict) == ("faster", "undecided")
    assert fine.ratio == coarse.ratio
    assert fine.ratio is not None
    assert fine.ratio_high is not None
    assert coarse.ratio_high is not None
    assert coarse.ratio_high > fine.ratio * (1 + 1000 / 500)


def test_the_coarse_clock_of_a_baseline_widens_the_ratio_of_a_cell_with_a_fine_one() -> None:
    cell, coarse = (
        record(HALVE, launch("a", CELL, 499), launch("b", CELL, 499)),
        made.replaced_quality(baseline(), tick_ns=3000),
    )
    fine, wide = (rows(each, cell)[HALVE] for each in (baseline(), coarse))

    assert (fine.verdict, wide.verdict) == ("faster", "undecided")
    assert fine.ratio == wide.ratio
    assert wide.warning is None


def test_a_coarse_clock_is_known_wherever_cells_are_compared() -> None:
    """The figures that `bench pick` and `bench compare` read are widened, not only those of rows."""
    cells = [record(HALVE, launch("a", CELL, 499), launch("b", CELL, 499)), baseline()]
    coarse = [made.replaced_quality(each, tick_ns=100) for each in cells]
    fine_fit, wide_fit = (Measurements({each.cell.path: each for each in group}).of(HALVE) for group in (cells, coarse))

    assert fine_fit is not None
    assert wide_fit is not None
    fine, wide = (fit.effect(HALVE, BASELINE) for fit in (fine_fit, wide_fit))
    latencies = [each.value for name in (HALVE, BASELINE) if (each := fine_fit.latency_ns(name)) is not None]
    errors = [math.log1p(100 / latency) / math.sqrt(3) for latency in latencies]
    assert len(errors) == 2
    assert wide.error == pytest.approx(math.hypot(fine.error, *errors))


def test_figures_of_a_cell() -> None:
    row = rows(baseline(), record(HALVE, launch("a", CELL, 499), launch("b", CELL, 999)))[HALVE]
    assert (row.task, row.source, row.exporter, row.variant) == ("toy", "null", "native", "halve")
    assert (row.runtime, row.provider, row.batch, row.threads) == ("null", "cpu", 2, 1)
    assert (row.status, row.reason, row.fidelity, row.precision) == ("ok", None, "close", "float32")
    assert (row.loss, row.metric, row.metric_name, row.max_abs_error) == (0.25, 0.75, "accuracy", 0.5)
    assert (row.num_launches, row.num_samples) == (2, 2 * 2 * PASSES)
    # The medians are 500 and 1000, and the usual state of the machine lies between its two blocks.
    assert row.latency_p50_ns == pytest.approx((500 * 1000) ** 0.5)
    assert row.latency_p50_low_ns is not None
    assert row.latency_p50_high_ns is not None
    assert row.latency_p50_low_ns < row.latency_p50_ns < row.latency_p50_high_ns
    assert row.throughput_per_s == pytest.approx(2 * 1e9 / 750)  # two samples an inference
    assert (row.latency_p90_ns, row.latency_p99_ns) == (None, None)  # too few samples
    assert (row.load_ns, row.first_inference_ns) == (1000, 2000)
    assert (row.peak_rss_bytes, row.model_rss_bytes) == (400, 300)  # imports do not count
    assert row.size_bytes == 31
    assert (row.num_params, row.num_params_from, row.num_params_note) == (12, "file", None)
    assert row.macs is None


def test_note_of_the_steps_stands_beside_the_doubts_and_the_warning_of_the_runtime() -> None:
    note = "weight_only-int8: operator set 9 of the file before it was raised to 13"
    noted = made.with_artifact(record(HALVE, launch("a", CELL, 500)), info={"note": note})
    assert rows(baseline(), noted)[HALVE].warning == note
    warned = dataclasses.replace(noted, quality=made.quality(warning="falls back"))
    assert rows(baseline(), warned)[HALVE].warning == f"falls back; {note}"
    doubted = dataclasses.replace(noted, quality=made.quality(doubts="sample 3 differs", warning="falls back"))
    assert rows(baseline(), doubted)[HALVE].warning == f"sample 3 differs; falls back; {note}"


def test_ratio_and_verdict() -> None:
    blocks = {"a": 1000, "b": 2000, "c": 1000}
    cells = [launch(block, CELL, ns // 2) for block, ns in blocks.items()]
    row = rows(baseline(**blocks), record(HALVE, *cells))[HALVE]
    assert row.ratio == pytest.approx(0.5, rel=1e-2)
    assert row.ratio_low is not None
    assert row.ratio_high is not None
    assert row.ratio_low < row.ratio < row.ratio_high < 0.6
    assert row.verdict == "faster"
    assert row.q_value is not None
    assert 0 < row.q_value < 0.05
    assert row.aa_low is not None
    assert row.aa_high is not None
    assert 0.9 < row.aa_low < 1 < row.aa_high
    assert row.aa_low * row.aa_high == pytest.approx(1), "the copies are equal"


def test_control_is_the_second_copy_over_the_first() -> None:
    lines = [launch(block, role, ns) for block in "abc" for role, ns in ((REFERENCE, 1000), (CONTROL, 1100))]
    row = rows(record(BASELINE, *lines), record(HALVE, launch("a", CELL, 500)))[HALVE]
    assert row.aa_low is not None
    assert row.aa_high is not None
    assert row.aa_low * row.aa_high == pytest.approx((1101 / 1001) ** 2)


def test_below_three_blocks_there_is_no_control() -> None:
    lines = [launch(block, role, ns) for block in "ab" for role, ns in ((REFERENCE, 1000), (CONTROL, 1100))]
    row = rows(record(BASELINE, *lines), record(HALVE, launch("a", CELL, 500)))[HALVE]
    assert row.ratio is not None
    assert (row.aa_low, row.aa_high) == (None, None)


@pytest.mark.parametrize("others", [0, 4])
def test_verdicts_are_corrected_for_the_number_of_rows(others: int) -> None:
    """Cells that are as fast as the baseline have the p-value 1, so the smallest counts as often as there are cells."""
    found = [baseline(**dict.fromkeys("abc", 1_000_000))]
    found += [
        record(
            HALVE,
            *[launch(block, CELL, ns) for block, ns in zip("abc", (1_100_000, 1_110_000, 1_120_000), strict=True)],
        )
    ]
    found += [
        record(HALVE.replace("halve", f"v{number}"), *[launch(block, CELL, 1_000_000) for block in "abc"])
        for number in range(others)
    ]
    compared = Measurements({item.cell.path: item for item in found}).between(HALVE, BASELINE)
    assert compared is not None
    assert compared.effect is not None
    row = rows(*found)[HALVE]
    assert row.q_value == pytest.approx((1 + others) * compared.effect.p_value())
    assert row.q_value < 0.05
    assert row.verdict == "slower"
    assert compared.ratio is not None
    assert (row.ratio, row.ratio_low, row.ratio_high) == (compared.ratio.value, compared.ratio.low, compared.ratio.high)


def test_baseline_row_is_one_by_definition() -> None:
    row = rows(baseline(a=1000, b=1000, c=1000))[BASELINE]
    assert (row.ratio, row.ratio_low, row.ratio_high, row.verdict, row.q_value) == (1.0, 1.0, 1.0, None, None)
    assert row.aa_low is not None
    assert row.aa_high is not None
    assert 0.9 < row.aa_low < 1 < row.aa_high
    assert row.num_launches == 6
    assert row.same_as is None


def test_percentiles_appear_when_there_are_enough_samples() -> None:
    samples = [list(range(1, 101))]
    row = rows(baseline(a=1000), record(HALVE, launch("a", CELL, 1, steady_ns=samples)))[HALVE]
    assert (row.latency_p50_ns, row.latency_p90_ns) == (pytest.approx(50.5), pytest.approx(90))
    assert row.latency_p99_ns is None


def test_no_percentile_is_below_the_median_where_the_machine_was_fast_for_the_cell_alone() -> None:
    """Of two blocks, one at half the speed, the cell ran in the fast one alone."""
    samples = [[500 + number % 10 for number in range(start, start + 140)] for start in range(5)]
    row = rows(baseline(a=1000, b=2000), record(HALVE, launch("a", CELL, 500, steady_ns=samples)))[HALVE]
    assert row.latency_p50_ns is not None
    assert row.latency_p50_ns > 650, "the usual state of the machine is between the blocks"
    assert row.latency_p90_ns == pytest.approx(row.latency_p50_ns * 508 / 504.5)
    assert row.latency_p99_ns == pytest.approx(row.latency_p50_ns * 509 / 504.5)


def test_launches_in_different_states_of_the_machine_are_no_tail() -> None:
    """Every inference of a launch takes the same time, so that none is slower than the median."""
    even = [[500] * 100] * 5
    slow = [[1000] * 40] * 5
    cell = record(HALVE, launch("a", CELL, 500, steady_ns=even), launch("b", CELL, 1000, steady_ns=slow))
    row = rows(baseline(a=1000, b=2000), cell)[HALVE]
    assert row.latency_p90_ns == row.latency_p99_ns == row.latency_p50_ns


def test_cold_samples_are_not_latency() -> None:
    row = rows(baseline(a=1000), record(HALVE, launch("a", CELL, 500)))[HALVE]
    assert row.latency_p50_ns == pytest.approx(501)
    assert row.throughput_per_s == pytest.approx(2 * 1e9 / 501)


TIMING = [
    name
    for name in COLUMNS
    if name.startswith(("latency_", "ratio", "aa_")) or name.endswith(("_per_s", "_ns", "rss_bytes"))
] + ["verdict", "q_value"]


def test_not_measured_is_none_not_zero() -> None:
    row = rows(record(HALVE, quality=None, artifact=False))[HALVE]
    filled = {"cell", "task", "source", "exporter", "variant", "runtime", "provider", "batch", "threads", "status"}
    counts = {"num_launches", "num_samples"}
    for name in COLUMNS:
        if name in counts:
            assert getattr(row, name) == 0
        else:
            assert (getattr(row, name) is None) == (name not in filled), name


def test_launches_of_contenders_count_beside_those_with_the_baseline() -> None:
    apart = launch("x", CONTENDER, 499)
    found = rows(baseline(), record(HALVE, launch("a", CELL, 499), apart), record(PRUNE, apart))
    assert (found[HALVE].num_launches, found[HALVE].status) == (2, "ok")
    assert found[PRUNE].ratio is None
    assert "a baseline that has changed since" in (found[PRUNE].warning or found[PRUNE].reason or "")


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
    usual = rows(*records)
    assert {path: row.latency_p50_ns for path, row in found.items()} == {
        path: row.latency_p50_ns for path, row in usual.items()
    }
    assert found[BASELINE].ratio == pytest.approx(1 / usual[HALVE].ratio)


def test_baseline_without_a_result() -> None:
    with pytest.raises(InputError, match=f"no result for the baseline '{PRUNE}'"):
        rows(baseline(), baseline=PRUNE)


def test_one_launch_has_a_verdict_where_the_difference_is_large() -> None:
    large, small = (
        rows(baseline(a=1_000_000), record(HALVE, launch("a", CELL, ns)))[HALVE] for ns in (500_000, 995_000)
    )
    assert (large.ratio, large.verdict) == (pytest.approx(0.5, rel=1e-4), "faster")
    assert (small.ratio, small.verdict) == (pytest.approx(0.995, rel=1e-4), "undecided")
    assert small.num_launches == 1


def test_launch_whose_baseline_is_lost_has_no_ratio() -> None:
    """Its latency is that of its own samples, without the interval that the baseline's blocks would give."""
    row = rows(record(HALVE, launch("a", CELL, 500)))[HALVE]
    assert (row.status, row.latency_p50_ns, row.ratio, row.verdict, row.aa_low) == ("ok", 501.0, None, None, None)
    assert (row.latency_p50_low_ns, row.latency_p50_high_ns) == (None, None)
    assert row.num_launches == 1


def test_results_beside_a_baseline_that_has_changed_are_out_of_the_table() -> None:
    row = rows(baseline(c=1000), record(HALVE, launch("a", CELL, 500)))[HALVE]
    assert (row.status, row.latency_p50_ns, row.ratio) == ("skipped", None, None)
    assert "baseline that has changed" in str(row.reason)


def test_launches_beside_an_older_baseline_count_for_nothing() -> None:
    row = rows(baseline(b=1000), record(HALVE, launch("a", CELL, 500), launch("b", CELL, 700)))[HALVE]
    assert (row.num_launches, row.latency_p50_ns) == (1, pytest.approx(701))


def test_results_of_other_weights_are_out_of_the_table() -> None:
    old = record(HALVE, launch("a", CELL, 500), subject="old weights", time="2026-01-01")
    found = rows(old, record(BASELINE, launch("a", REFERENCE, 1000), time="2026-01-02"))
    assert found[BASELINE].status == "ok"
    assert (found[HALVE].status, found[HALVE].latency_p50_ns) == ("skipped", None)
    assert "other weights" in str(found[HALVE].reason)


def test_baseline_whose_copy_is_lost_is_enough_for_a_ratio() -> None:
    alone = record(BASELINE, launch("a", REFERENCE, 1000))
    row = rows(alone, record(HALVE, launch("a", CELL, 500)))[HALVE]
    assert (row.ratio, row.verdict) == (pytest.approx(501 / 1001), "faster")
    assert (row.aa_low, row.aa_high) == (None, None)


def test_baseline_that_ran_alone_is_no_reason_to_lose_its_other_blocks() -> None:
    """In block a its copy and the cell failed."""
    lines = baseline(b=1000).launches
    row = rows(record(BASELINE, launch("a", REFERENCE, 3000), *lines), record(HALVE, launch("b", CELL, 500)))[HALVE]
    assert (row.ratio, row.verdict) == (pytest.approx(501 / 1001), "faster")


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


def test_spread_over_inputs_is_that_of_all_launches() -> None:
    """Inferences of two requests in turn, the second 10 % longer, with noise of 0.1 %."""

    def passes(first: int) -> tuple[tuple[int, ...], ...]:
        longer = [1.1 if (first + number) % 2 else 1.0 for number in range(12)]
        return tuple((round(1e6 * (1 + 0.001 * (number % 3)) * longer[number]),) for number in range(12))

    lines = [
        launch(f"block {first}", role, 1, steady_ns=passes(first), num_requests=2, first_request=first)
        for first in range(2)
        for role in (REFERENCE, CONTROL)
    ]
    sd = math.log(1.1) / math.sqrt(2)  # of two values
    assert rows(record(BASELINE, *lines))[BASELINE].input_spread == pytest.approx(sd, rel=0.02)
    assert rows(baseline())[BASELINE].input_spread is None
