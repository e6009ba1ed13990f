"""The end of `bench run --sweep threads`: the exit code and the sentence tell whether anything was timed."""

from __future__ import annotations

import dataclasses
import types
from typing import Any

import pytest

from bench.api.cell import Cell
from bench.cli import run_output
from bench.decisions.threads import Scaling
from bench.records.lines import ThreadLaunch
from bench.records.rows import Row

ROW = Row(
    cell="own/onnx/native/raw/onnxruntime/cpu/b1t1", task="own", source="onnx", exporter="native", variant="raw",
    runtime="onnxruntime", provider="cpu", batch=1, threads=1, status="ok",
)  # fmt: skip
CELL = "own/onnx/native/raw/onnxruntime/cpu/b1t2"


def ended(rows: list[Row], monkeypatch: pytest.MonkeyPatch, *, timed: bool) -> bool:
    """What the run returns after these rows, of which the cell at one thread may have launches."""
    launches: tuple[ThreadLaunch, ...] = (object(),) if timed else ()  # type: ignore[assignment]
    records = {row.cell: types.SimpleNamespace(thread_launches=launches) for row in rows if row.status == "ok"}
    monkeypatch.setattr("bench.decisions.threads.sound", lambda *_: records)
    monkeypatch.setattr("bench.decisions.threads.scalings", lambda *_, **__: [])
    found: Any = types.SimpleNamespace(margin=0.02)
    return run_output.print_threads(found, rows, {})


def test_cells_at_one_thread_have_nothing_to_compare_and_did_not_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended([ROW], monkeypatch, timed=False)
    assert "nothing to compare: these cells have one thread" in capsys.readouterr().err


def test_a_cell_that_was_timed_at_one_thread_alone_is_not_called_untimed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = dataclasses.replace(ROW, cell=CELL, threads=2, status="failed", reason="no kernel")
    assert ended([ROW, failed], monkeypatch, timed=True)
    assert "no cell could be timed at one thread and at several; 1 of 2 failed" in unbroken(capsys)
    assert not ended([ROW, failed], monkeypatch, timed=False)
    assert "no cell could be timed; 1 of 2 failed" in unbroken(capsys)


def test_the_last_lines_are_the_best_numbers_of_threads_and_the_next_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scaled = Scaling(cell=Cell.from_path(ROW.cell), latency_ns={1: 2e6, 2: 1e6}, over_one={}, best=(2,))
    monkeypatch.setattr("bench.decisions.threads.sound", lambda *_: {})
    monkeypatch.setattr("bench.decisions.threads.scalings", lambda *_, **__: [scaled])
    monkeypatch.setattr("bench.report.threads.render", lambda *_, **__: "the table\n")
    found: Any = types.SimpleNamespace(margin=0.02, rows=[])
    assert run_output.print_threads(found, [ROW], {}, late=["1 of 2 cells are not in the table"])
    assert capsys.readouterr().err.splitlines() == [
        "bench: 1 of 2 cells are not in the table",
        "bench: best: 2 threads for 1 cell",
        "bench: next: bench run 'own/*/raw/*/b1t2'",
    ]


def unbroken(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())
