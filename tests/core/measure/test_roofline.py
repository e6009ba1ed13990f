"""The roofline: peaks, where a cell lies under them, and how rows get their costs."""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

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

PEAKS = Peaks(
    macs_per_s={"float32": 4e10, "int8": 8e10},
    libraries={"float32": "a", "int8": "b"},
    bytes_per_s=1e10,
    undisturbed=("copy", "float32", "int8"),
)
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
    assert (known[1].undisturbed, known[2].undisturbed) == ((), ("copy", "float32", "int8"))


def test_peaks_of_earlier_versions_do_not_say_what_disturbed_them(tmp_path: Path) -> None:
    text = '{"1": {"macs_per_s": {"float32": 1e9}, "libraries": {"float32": "a"}, "bytes_per_s": 1e9}}'
    (tmp_path / "peaks.json").write_text(text)
    assert stored.read(tmp_path)[1].undisturbed == ()


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
    monkeypatch.setattr(measuring, "Watch", watching(lambda call: 0.0))
    monkeypatch.setattr(measuring, "_products", lambda threads: products)
    monkeypatch.setattr(measuring, "_fastest_s", lambda call: seconds.get(call, 0.5))
    monkeypatch.setattr(measuring, "COPY_BYTES", 2**20)
    found = measuring.measure(1)
    assert found.macs_per_s == {"float32": 1024**3 / 2.0}
    assert found.libraries == {"float32": "fast"}
    assert found.bytes_per_s == 2 * 2**20 / 0.5  # each byte is read once and written once


def watching(lost: Callable[[int], float | None]) -> Callable[[object], SimpleNamespace]:
    """A watch of the process that has lost such a share of its time, by the number of the try."""
    numbers = itertools.count()
    return lambda pids: SimpleNamespace(lost=lambda: SimpleNamespace(most=lost(next(numbers))))


@pytest.mark.parametrize(
    ("lost", "tries", "undisturbed"),
    [
        (lambda number: 0.0, 3, ("copy", "float32")),
        (lambda number: 0.3 if number < 8 else 0.0, 7, ("copy", "float32")),  # of both products the first four
        (lambda number: 0.3 if number in (1, 3, 5) or number > 5 else 0.0, 8, ("float32",)),  # of the copies each one
        (lambda number: None, 8, ()),  # the system does not tell
    ],
)
def test_tries_that_were_disturbed_are_repeated_and_a_rate_without_enough_others_is_marked(
    monkeypatch: pytest.MonkeyPatch, lost: Callable[[int], float | None], tries: int, undisturbed: tuple[str, ...]
) -> None:
    calls = {"product": 0, "copy": 0}

    def fastest_s(call: object) -> float:
        kind = "product" if call == "product" else "copy"
        calls[kind] += 1
        return 1.0 / calls[kind]  # each try is faster than those before

    monkeypatch.setattr(measuring, "_products", lambda threads: [("float32", "a library", "product")])
    monkeypatch.setattr(measuring, "_fastest_s", fastest_s)
    monkeypatch.setattr(measuring, "Watch", watching(lost))
    monkeypatch.setattr(measuring, "COPY_BYTES", 2**20)
    found = measuring.measure(1)
    assert max(calls.values()) == tries
    assert found.undisturbed == undisturbed
    assert found.macs_per_s == {"float32": 1024**3 * calls["product"]}, "the highest counts, disturbed or not"


def test_rows_above_the_peak_say_why() -> None:
    records_of = {TORCH: _timed(TORCH, cost={"macs": 60_000, "weight_bytes": 95_000})}
    for undisturbed, why in (
        ((), "it may have been disturbed"),
        (("float32",), "it was measured undisturbed"),
    ):
        peaks = {1: dataclasses.replace(PEAKS, undisturbed=undisturbed)}
        rows = assemble.rows(records_of, peaks=peaks)
        (said,) = roofline.above_peak(rows, peaks)
        assert said.startswith("1 row is above the peak in float32 at 1 thread, up to 150 %: ")
        assert why in said
        for format in ("md", "table"):
            assert said in roofline.render(rows, peaks, format=format).replace("\n", " ")
    assert roofline.above_peak(assemble.rows({TORCH: _timed(TORCH, cost=None)}), {}) == []


def test_a_rate_that_was_never_measured_undisturbed_has_a_mark() -> None:
    rows = assemble.rows({TORCH: _timed(TORCH, cost={"macs": 4_000, "weight_bytes": 95_000})}, peaks={1: PEAKS})
    assert "not known to have been measured undisturbed, so" not in roofline.render(rows, {1: PEAKS}, format="md")
    text = roofline.render(rows, {1: dataclasses.replace(PEAKS, undisturbed=("float32",))}, format="md")
    assert r"| 1 | 40.0 (a) | 80.0\* (b) | 10.0\* |" in text
    assert "not known to have been measured undisturbed, so" in text


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
    for options, expected in (([], [1]), ([], []), (["--force"], [1])):  # what it finds was not disturbed
        asked.clear()
        monkeypatch.setattr(sys, "argv", ["bench", "roofline", "--results", str(tmp_path), *options])
        with pytest.raises(SystemExit) as ended:
            main.main()
        assert (ended.value.code or 0, asked) == (0, expected)
        assert "peak" in capsys.readouterr().out
