"""The last line of a run: the command that goes on, or why nothing was timed and the option that changes it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench.records.rows import Row
from bench.report.next_step import after, is_measured

RESULTS = Path("results")
ROW = Row(
    cell="own/onnx/native/raw/onnxruntime/cpu/b1t1", task="own", source="onnx", exporter="native", variant="raw",
    runtime="onnxruntime", provider="cpu", batch=1, threads=1, status="ok",
)  # fmt: skip
TIMED = dataclasses.replace(ROW, latency_p50_ns=1e6)


def failed(reason: str | None, **more: object) -> Row:
    return dataclasses.replace(ROW, **{"status": "failed", "reason": reason, **more})  # type: ignore[arg-type]


def test_a_table_leads_to_the_deployment_to_ship() -> None:
    assert after([TIMED, failed("no")], sizes={}, results=RESULTS) == "next: bench pick own --max-metric-drop 1%"
    elsewhere = after([TIMED], sizes={}, results=Path("my results"))
    assert elsewhere == "next: bench pick own --max-metric-drop 1% --results 'my results'"
    assert after([TIMED, dataclasses.replace(TIMED, task="b")], sizes={}, results=RESULTS) == "next: bench best"


def test_undecided_rows_are_counted() -> None:
    rows = [TIMED, *[dataclasses.replace(TIMED, verdict=verdict) for verdict in ("undecided", "faster", "undecided")]]
    line = after(rows, sizes={}, results=RESULTS)
    assert line.endswith(" (2 undecided: the same command with --budget 5m goes on)")


def test_a_row_that_is_the_same_as_another_counts_as_measured() -> None:
    assert is_measured([dataclasses.replace(ROW, same_as="other")])
    assert not is_measured([ROW, failed("no")])


@pytest.mark.parametrize(
    ("rows", "sizes", "line"),
    [
        (
            [failed("Reshape: 3 is not 4"), failed("Reshape: 3 is not 4"), failed("another")],
            {"height": 224, "width": 96},
            "2 of 3 failed with: Reshape: 3 is not 4; the sizes were height=224, width=96; --dim height=SIZE sets",
        ),
        ([failed("no answer within 60 s")], {"height": 1}, "--timeout 30m gives each step more time"),
        ([failed("out of memory (limit 2 GiB)")], {}, "--memory 8GiB sets what each process may take"),
        (
            [failed("X(-1) is not a registered function/op")],
            {"h": 1},
            "register that operator: docs/troubleshooting.md",
        ),
        (
            [failed("no kernel\nfor it"), dataclasses.replace(ROW, status="skipped", reason="no CUDA")],
            {},
            "1 of 2 failed with: no kernel for it; bench show 'own/*' --columns cell,reason lists all reasons",
        ),
        ([failed("no CUDA", status="skipped")], {}, "1 of 1 skipped with: no CUDA; bench show"),
        ([failed("snr", status="ok", fidelity="broken")], {}, "1 of 1 failed with: snr; bench show"),
        ([failed(None)], {}, "failed with: no reason was given; "),
        ([ROW], {}, "before the time was up; the same command with --budget 5m goes on"),
    ],
    ids=["sizes", "time", "memory", "operator", "no sizes", "skipped", "broken", "no reason", "no time"],
)
def test_the_most_frequent_reason_and_what_changes_it(rows: list[Row], sizes: dict[str, int], line: str) -> None:
    found = after(rows, sizes=sizes, results=RESULTS)
    assert found.startswith("no cell could be timed")
    assert line in found


def test_a_long_reason_loses_its_middle() -> None:
    line = after([failed(f"onnxsim: {'/path ' * 60}culprit is Conv-15")], sizes={}, results=RESULTS)
    assert " with: onnxsim: /path /path" in line
    assert "/path ... /path" in line
    assert "/path culprit is Conv-15; bench show" in line
    assert len(line) < 300
