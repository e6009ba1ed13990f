"""The roofline: peaks, where a cell lies under them, and how rows get their costs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench.cli import main
from bench.measure import machine
from bench.measure import peaks as measuring
from bench.measure.roofline import Peaks, place
from bench.records import assemble
from bench.records import peaks as stored
from bench.records.lines import Cost
from bench.records.store import Record
from bench.report import roofline
from support import page_records, records

PEAKS = Peaks(macs_per_s={"float32": 4e10, "int8": 8e10}, libraries={"float32": "a", "int8": "b"}, bytes_per_s=1e10)
TORCH = "toy/torch/torch_onnx/raw/onnxruntime/cpu/b1t1"
NATIVE = "toy/torch/native/raw/pytorch/cpu/b1t1"
INT8 = "toy/torch/torch_onnx/int8/onnxruntime/cpu/b1t1"
TF = "toy/tf/tf2onnx/raw/onnxruntime/cpu/b1t1"
OTHER_BATCH = "toy/torch/torch_onnx/raw/onnxruntime/cpu/b2t1"
CUDA = "toy/torch/torch_onnx/raw/onnxruntime/cuda/b1t1"


def test_compute_binds_where_the_macs_take_longer() -> None:
    found = place(macs=4_000_000, num_bytes=100_000, seconds=400e-6, precision="float32", peaks=PEAKS)
    # 4e6 MACs take 100 us at the peak, 1e5 bytes 10 us.
    assert (found.gmacs_per_s, found.bound) == (10.0, "compute")
    assert (found.peak_share, found.roof_share) == (pytest.approx(0.25), pytest.approx(0.25))


def test_memory_binds_where_the_bytes_take_longer() -> None:
    found = place(macs=4_000_000, num_bytes=2_000_000, seconds=400e-6, precision="int8", peaks=PEAKS)
    assert found.bound == "memory"
    assert found.peak_share == pytest.approx(0.125)
    assert found.roof_share == pytest.approx(0.5)


@pytest.mark.parametrize(("precision", "peaks"), [("float16", PEAKS), (None, PEAKS), ("float32", None)])
def test_no_share_of_a_peak_that_is_not_known(precision: str | None, peaks: Peaks | None) -> None:
    found = place(macs=10**9, num_bytes=1, seconds=0.5, precision=precision, peaks=peaks)
    assert (found.gmacs_per_s, found.peak_share, found.roof_share, found.bound) == (2.0, None, None, None)


def test_peaks_only_rise(tmp_path: Path) -> None:
    other = Peaks(macs_per_s={"float32": 5e10, "int8": 1e10}, libraries={"float32": "c", "int8": "c"}, bytes_per_s=9e9)
    assert stored.read(tmp_path) == {}
    stored.keep(tmp_path, 2, PEAKS)
    stored.keep(tmp_path, 1, other)
    known = stored.keep(tmp_path, 2, other)
    assert known == stored.read(tmp_path)
    assert known[1] == other
    assert known[2].macs_per_s == {"float32": 5e10, "int8": 8e10}
    assert known[2].libraries == {"float32": "c", "int8": "b"}
    assert known[2].bytes_per_s == 1e10


def test_fields_of_a_newer_version_stay_in_the_file_of_the_peaks(tmp_path: Path) -> None:
    path = tmp_path / "peaks.json"
    stored.keep(tmp_path, 1, PEAKS)
    newer = json.loads(path.read_text())
    newer["1"]["watts"] = {"idle": 3}
    path.write_text(json.dumps(newer))
    stored.keep(tmp_path, 2, PEAKS)
    found = json.loads(path.read_text())
    assert found["1"] == newer["1"]
    assert "watts" not in found["2"]


@pytest.mark.parametrize(
    "text",
    [
        '{"1": {"macs": 3}}',
        "[]",
        "[" * 100_000,
        '{"x": {"macs_per_s": {}, "libraries": {}, "bytes_per_s": 1}}',
        '{"1": {"macs_per_s": {"float32": 0}, "libraries": {"float32": "a"}, "bytes_per_s": 1}}',
        '{"1": {"macs_per_s": {"float32": 1}, "libraries": {}, "bytes_per_s": 1}}',
        '{"1": {"macs_per_s": {}, "libraries": {}, "bytes_per_s": 0}}',
        '{"1": {"macs_per_s": {}, "libraries": {}, "bytes_per_s": 1e300}}',
    ],
)
def test_damaged_peaks_are_told_of_and_written_anew(tmp_path: Path, text: str) -> None:
    path = tmp_path / "peaks.json"
    path.write_text(text)
    known, damage = stored.examined(tmp_path)
    assert known == stored.read(tmp_path) == {}
    assert str(damage).startswith(f"{path}: ")
    assert "`bench roofline` writes the file anew" in str(damage)
    assert stored.keep(tmp_path, 1, PEAKS) == {1: PEAKS}
    assert stored.examined(tmp_path) == ({1: PEAKS}, None)


def test_peaks_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "SIZE", 32)
    monkeypatch.setattr(measuring, "COPY_BYTES", 2**20)
    monkeypatch.setattr(measuring, "SPAN_NS", 1_000_000)
    monkeypatch.setattr(measuring, "_torch_products", lambda threads: ())
    found = measuring.measure(1)
    assert found.macs_per_s.keys() == {"float32", "float64", "int8"}
    assert found.libraries["int8"] == "onnxruntime"
    assert all(1e6 < rate < 1e13 for rate in found.macs_per_s.values())
    assert 1e8 < found.bytes_per_s < 1e13


def test_rates_are_sizes_over_the_fastest_time(monkeypatch: pytest.MonkeyPatch) -> None:
    products = [("float32", "slow", "slow"), ("float32", "fast", "fast")]
    seconds = {"slow": 4.0, "fast": 2.0}
    monkeypatch.setattr(measuring, "_products", lambda threads: products)
    monkeypatch.setattr(measuring, "_fastest_s", lambda call: seconds.get(call, 0.5))
    monkeypatch.setattr(measuring, "COPY_BYTES", 2**20)
    found = measuring.measure(1)
    assert found.macs_per_s == {"float32": 1024**3 / 2.0}
    assert found.libraries == {"float32": "fast"}
    assert found.bytes_per_s == 2 * 2**20 / 0.5  # each byte is read once and written once


def _timed(path: str, *, cost: dict[str, int | None] | None, precision: str = "float32") -> Record:
    known = Cost(**cost) if cost else None
    quality = records.quality(cost=known, precision=precision, io_bytes=5_000)
    lines = [records.launch(block, role, 1000, reference=path) for block in "ab" for role in ("reference", "control")]
    return records.record(path, *lines, quality=quality)


def test_rows_get_their_own_macs_or_those_of_the_plain_export() -> None:
    costs = {
        TORCH: {"macs": 4_000, "weight_bytes": 95_000},
        INT8: {"macs": 3_000, "weight_bytes": 1},
        TF: {"macs": 7_000, "weight_bytes": 1},
        OTHER_BATCH: {"macs": 8_000, "weight_bytes": 1},
        NATIVE: None,
        CUDA: {"macs": None, "weight_bytes": 1},
    }
    stored = {path: _timed(path, cost=cost) for path, cost in costs.items()}
    stored[INT8] = _timed(INT8, cost=costs[INT8], precision="int8")
    rows = {row.cell: row for row in assemble.rows(stored, peaks={1: PEAKS})}
    assert {path: row.macs for path, row in rows.items()} == {
        TORCH: 4_000,
        INT8: 3_000,
        TF: 7_000,
        OTHER_BATCH: 8_000,
        NATIVE: 4_000,
        CUDA: 4_000,
    }
    torch = rows[TORCH]  # 1001 ns: 4000 MACs take 100 ns at the peak, 1e5 bytes 10 us
    assert torch.gmacs_per_s == pytest.approx(4_000 / 1001)
    assert (torch.bound, torch.peak_share) == ("memory", pytest.approx(100 / 1001))
    assert torch.roof_share == pytest.approx(10_000 / 1001)
    assert rows[NATIVE].roof_share == pytest.approx((31 + 5_000) / 1e10 / 1001e-9)  # its file has 31 bytes
    assert rows[INT8].peak_share == pytest.approx(3_000 / 8e10 / 1001e-9)
    assert (rows[CUDA].gmacs_per_s is not None, rows[CUDA].peak_share) == (True, None)


def test_records_of_before_there_were_costs_have_none() -> None:
    (row,) = assemble.rows({TORCH: records.baseline(TORCH)}, peaks={1: PEAKS})
    assert (row.macs, row.gmacs_per_s, row.bound) == (None, None, None)


def test_tables_have_peaks_and_places() -> None:
    rows = assemble.rows({TORCH: _timed(TORCH, cost={"macs": 4_000, "weight_bytes": 95_000})}, peaks={1: PEAKS})
    text = roofline.render(rows, {1: PEAKS}, format="md")
    assert "| 1 | 40.0 (a) | 80.0 (b) | 10.0 |" in text
    assert "| 4.000 | 3.996 | 10.0 | 999.0 | memory |" in text
    found = json.loads(roofline.render(rows, {1: PEAKS}, format="json"))
    assert found["peaks"]["1"]["bytes_per_s"] == 1e10
    assert found["cells"][0]["bound"] == "memory"
    assert "`bench roofline` measures them" in roofline.render(rows, {}, format="table")


def test_peaks_that_are_known_are_measured_again_only_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page_records.store(tmp_path)
    monkeypatch.setattr(machine, "name", lambda: next(path.name for path in tmp_path.iterdir()))
    asked: list[int] = []

    def ask(threads: int) -> Peaks:
        asked.append(threads)
        return PEAKS

    monkeypatch.setattr(measuring, "ask", ask)
    for options, expected in (([], [1]), ([], []), (["--force"], [1])):
        asked.clear()
        monkeypatch.setattr(sys, "argv", ["bench", "roofline", "--results", str(tmp_path), *options])
        with pytest.raises(SystemExit) as ended:
            main.main()
        assert (ended.value.code or 0, asked) == (0, expected)
        assert "peak" in capsys.readouterr().out
