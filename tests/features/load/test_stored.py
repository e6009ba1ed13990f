"""What `bench show` and `bench plot` say of services that were under load, without measuring."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bench.cli import main
from bench.features.load.lines import P50, P90, P99, SHAPE, LoadLaunch, LoadRun
from bench.measure.comparison import CELL, CONTROL, REFERENCE
from bench.records.store import Store
from support import page_records
from support.records import record, time_of

RAW = "toy/null/native/raw/null/cpu/b1t1"
HALVE = "toy/null/native/halve/null/cpu/b1t1"
MS = 1_000_000


def launch(block: str, role: str, base_ms: float, rate: float) -> LoadLaunch:
    """A launch of three slices, whose latencies grow from `base_ms`, which holds a rate."""
    fields: dict[str, Any] = {
        "launch": f"{block}-{role}-{base_ms}",
        "block": block,
        "role": role,
        "reference": RAW,
        "instances": 2,
        "rate": 97.0,
        "bound": (P99, 20 * MS),
        "slices_ns": {name: (int(factor * base_ms * MS),) * 3 for name, factor in ((P50, 1), (P90, 2), (P99, 3))},
        "requests": (400,) * 3,
        "shape_ns": tuple(int(base_ms * MS * (1 + index / 10)) for index in range(len(SHAPE))),
        "highest_ns": (int(1e9 / rate),) * 3,
        "curve": ((100.0, 12 * MS), (125.0, 26 * MS)),
        "time": time_of(block),
    }
    return LoadLaunch(**fields)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A baseline that holds 120 requests a second and a service that holds 240, in two blocks."""
    run = LoadRun(run="r", scenario="server", instances=2, is_valid=True, settings={"server_target_qps": 97.0})
    records = (
        record(RAW, *(launch(block, role, 10, 120) for block in "ab" for role in (REFERENCE, CONTROL)), run),
        record(HALVE, *(launch(block, CELL, 5, 240) for block in "ab")),
    )
    store = Store(tmp_path / "results", "machine")
    store.folder.mkdir(parents=True)
    for found in records:
        key = found.cell.variant
        for line in (replace(found.header, key=key), found.quality, *found.of_features):
            store.append(key, line)
    return tmp_path / "results"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of the command."""
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main.main()
    return int(stopped.value.code or 0)


def test_the_tables_of_turns_are_shown_again_without_those_of_single_services(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "show", "--sweep", "load", "--results", str(results)) == 0

    said = capsys.readouterr().out
    assert "97 requests/s, the same arrivals for all" in said.replace("97.0", "97")
    assert [rate for rate in ("240", "120") if rate in said] == ["240", "120"]
    assert said.index("240") < said.index("120"), "the best first"
    assert "MLPerf" not in said


def test_what_took_no_turns_and_formats_that_are_no_tables_are_refused(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "show", "--sweep", "load", "--format", "csv", "--results", str(results)) == 2
    assert "printed as md or table, not csv" in capsys.readouterr().err

    page_records.store(tmp_path / "timed")
    assert run(monkeypatch, "show", "--sweep", "load", "--results", str(tmp_path / "timed")) == 2
    assert "took no turns as services" in capsys.readouterr().err


def test_plot_draws_what_took_turns(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, "plot", "--results", str(results), "--output", str(tmp_path / "plots")) == 0

    drawn = {path.name for path in (tmp_path / "plots").glob("*.png")}
    ends = ("knee", "rates", "percentiles")
    assert {f"toy-b1t1-2x1-97rps-p99-20ms-{end}.png" for end in ends} <= drawn
