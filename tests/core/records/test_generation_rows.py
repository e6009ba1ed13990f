"""Rows of cells that generate: their share of the bound, their time to first token, and their deployments joined."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.api.names import TaskName
from bench.decisions import constraints, generation, pick
from bench.decisions.constraints import Constraints
from bench.measure.comparison import CELL
from bench.records import assemble
from bench.records.folder import Results
from bench.records.lines import Generation
from bench.records.measurements import Measurements
from bench.records.rows import Row
from bench.records.store import Record
from bench.report import decoder_table
from support import records as made

PREFILL, DECODE = "lm~generate@new=1,prompt=8", "lm~generate@new=64,prompt=8"
SLOW, FAST = "torch/native/raw/slow/cpu/b1t1", "torch/native/raw/fast/cpu/b1t1"
MS = 1_000_000
METRICS = {"accuracy": 0.75, "greedy_agreement": 0.5}


def record(task: str, ns: int, *, is_baseline: bool, **facts: Any) -> Record:
    """One of two cells of a stage, which reads 20 MB at 10 GB/s a pass: 2 ms."""
    told = {"cache_bytes_per_token": 64, "pass_bytes": 20_000_000, "read_bytes_per_s": 10e9, **facts}
    quality = made.quality(metrics=METRICS, generation=Generation(is_decode=task == DECODE, **told))
    reference, path = f"{task}/{SLOW}", f"{task}/{SLOW if is_baseline else FAST}"
    if is_baseline:
        lines = [made.launch(block, role, ns, reference=path) for block in "ab" for role in ("reference", "control")]
    else:
        lines = [made.launch(block, CELL, ns, reference=reference) for block in "ab"]
    return made.record(path, *lines, quality=quality)


def records(fast_ns: int = 4 * MS, **facts: Any) -> dict[str, Record]:
    found = [
        record(PREFILL, 40 * MS, is_baseline=True),
        record(PREFILL, 20 * MS, is_baseline=False, **facts),
        record(DECODE, 8 * MS, is_baseline=True),
        record(DECODE, fast_ns, is_baseline=False, **facts),
    ]
    return {one.cell.path: one for one in found}


def rows(found: dict[str, Record]) -> dict[str, Row]:
    return {row.cell: row for row in assemble.rows(found)}


def results(found: dict[str, Record]) -> Results:
    fitted = Measurements(found)
    made_rows = assemble.rows(found, measurements=fitted)
    return Results(folder=Path(), records=found, rows=made_rows, measurements=fitted, peaks={}, margin=0.02, damages=())


def test_a_decode_row_has_its_share_of_the_bound() -> None:
    row = rows(records())[f"{DECODE}/{FAST}"]
    assert row.roof_share == pytest.approx(2 / 4, rel=1e-3)
    assert (row.status, row.bound) == ("ok", "memory")
    prefill = rows(records())[f"{PREFILL}/{FAST}"]
    assert (prefill.roof_share, prefill.bound) == (None, None)  # its products are the limit, and no peak is known


def test_a_deployment_tells_what_its_decode_steps_reserve() -> None:
    found = records()
    for path, one in found.items():
        reserved = 257 if path.startswith(PREFILL) else 320
        kept = msgspec.structs.replace(one.quality.generation, reserved_tokens=reserved)  # type: ignore[union-attr]
        quality = msgspec.structs.replace(one.quality, generation=kept)  # type: ignore[type-var]
        found[path] = dataclasses.replace(one, quality=quality)
    stored = results(found)
    assert {one.cache.reserved_tokens for one in generation.deployments(stored, stored.rows)} == {320}


def test_a_row_that_tells_nothing_of_its_cache_is_left_out() -> None:
    stored = results(records())
    untold = {}
    for path, one in stored.records.items():
        told = one.quality.generation if path.endswith(SLOW) else None  # type: ignore[union-attr]
        quality = msgspec.structs.replace(one.quality, generation=told)  # type: ignore[type-var]
        untold[path] = dataclasses.replace(one, quality=quality)
    found = generation.deployments(dataclasses.replace(stored, records=untold), stored.rows)
    assert [one.name for one in found] == ["torch/native/raw/slow/cpu"]


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


def test_columns_that_a_terminal_has_no_room_for_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = results(records())
    texts = {}
    for width in (100, 160):
        monkeypatch.setenv("COLUMNS", str(width))
        texts[width] = decoder_table.render(generation.deployments(stored, stored.rows), format="table").replace(
            "\n", " "
        )
    assert "reserved" not in texts[100]
    assert "some columns are left out; COLUMNS=150 shows all" in texts[100]
    assert "reserved" in texts[160]
    assert "left out" not in texts[160]


def test_stages_of_a_deployment_are_joined() -> None:
    stored = results(records())
    fast, slow = generation.deployments(stored, stored.rows)
    assert (fast.family, fast.name, slow.name) == ("lm", FAST.removesuffix("/b1t1"), SLOW.removesuffix("/b1t1"))
    assert list(fast.rows) == [TaskName.parse(PREFILL), TaskName.parse(DECODE)]
    assert (fast.metric, fast.metric_name, fast.agreement) == (0.75, "accuracy", 0.5)
    assert fast.cache.cache_bytes_per_token == 64
    assert fast.over == {}  # the decoder's task is not here


def test_the_table_has_a_line_for_each_deployment() -> None:
    stored = results(records(reserved_tokens=96))
    table = decoder_table.render(generation.deployments(stored, stored.rows), format="md")
    lines = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")]
    titles, _, fast, slow = lines
    assert titles[1:6] == ["TTFT 8 (ms)", "TPOT 8 (ms)", "tokens/s at 8", "bound (%)", "accuracy"]
    assert fast[0] == "| torch/native/raw/fast/cpu"
    assert float(fast[1]) == pytest.approx(20, rel=0.01)
    assert float(fast[3]) == pytest.approx(250, rel=0.01)
    assert fast[5:9] == ["0.7500", "50", "64", "96"]
    assert slow[8] == "grows"
