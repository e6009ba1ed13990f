"""Rows of cells that generate: their share of the bound, and their time to first token."""

from __future__ import annotations

import dataclasses

import pytest

from bench.decisions import constraints, pick
from bench.decisions.constraints import Constraints
from support.decoder_records import DECODE, FAST, MS, PREFILL, SLOW, records, results, rows


def test_a_decode_row_has_its_share_of_the_bound() -> None:
    row = rows(records())[f"{DECODE}/{FAST}"]
    assert row.roof_share == pytest.approx(2 / 4, rel=1e-3)
    assert (row.status, row.bound) == ("ok", "memory")
    prefill = rows(records())[f"{PREFILL}/{FAST}"]
    assert (prefill.roof_share, prefill.bound) == (None, None)  # its products are the limit, and no peak is known


def test_the_highest_rate_of_alike_buffers_counts() -> None:
    row = rows(records(read_bytes_per_s=20e9))[f"{DECODE}/{SLOW}"]
    assert row.roof_share == pytest.approx(1 / 8, rel=1e-3)
    row = rows(records(read_bytes_per_s=20e9, pass_bytes=10_000_000))[f"{DECODE}/{SLOW}"]
    assert row.roof_share == pytest.approx(2 / 8, rel=1e-3)  # that of a buffer of half the size is no rate of this one


def test_a_row_faster_than_the_machine_reads_is_refused() -> None:
    row = rows(records(fast_ns=MS // 2))[f"{DECODE}/{FAST}"]
    assert (row.status, row.latency_p50_ns, row.ratio, row.verdict) == ("failed", None, None, None)
    assert row.reason is not None
    assert row.reason.startswith("it cannot have run: at most 0.5")
    assert row.reason.endswith(
        "ms a pass, but to read its 20 MB of weights and cache takes this machine 2 ms, at 10 GB/s"
    )


def test_each_row_has_the_time_to_first_token_of_its_deployment() -> None:
    found = rows(records())
    for name, ms in ((SLOW, 40), (FAST, 20)):
        for task in (PREFILL, DECODE):
            assert found[f"{task}/{name}"].ttft_ns == found[f"{PREFILL}/{name}"].latency_p50_ns
            assert found[f"{task}/{name}"].ttft_ns == pytest.approx(ms * MS, rel=0.01)


def test_picks_keep_to_both_limits() -> None:
    measurements = results(records()).measurements
    group = next(one for one in pick.ranking.select(list(rows(records()).values())).groups if one.task == DECODE)
    for limits, cells in (
        ({"max_ttft_ns": 30e6}, [FAST]),
        ({"min_tokens_per_s": 100.0}, [FAST, SLOW]),
        ({"min_tokens_per_s": 200.0}, [FAST]),
        ({"max_ttft_ns": 10e6}, []),
    ):
        found = constraints.qualified(measurements, group, Constraints(**limits))  # type: ignore[arg-type]
        assert [row.cell for row in found.rows] == [f"{DECODE}/{cell}" for cell in cells]


def test_limits_that_no_row_meets_are_told_in_their_own_units() -> None:
    stored = results(records())
    decode = [row for row in stored.rows if row.task == DECODE]
    limits = Constraints(max_ttft_ns=10e6, min_tokens_per_s=1000.0)
    lacking = pick.choose(stored.measurements, decode, limits, tolerance=0.05).lacking or ""
    assert "--max-ttft 0 of 2; the least is 20 ms, --min-tokens-per-s 0 of 2; the most is 250" in lacking
    assert lacking.endswith(" tokens/s")

    untold = [dataclasses.replace(row, ttft_ns=None) for row in decode]
    lacking = pick.choose(stored.measurements, untold, limits, tolerance=0.05).lacking or ""
    assert "--max-ttft 0 of 2; of none it was measured" in lacking
