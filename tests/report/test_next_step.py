"""The last line of a run: the command that goes on, or why nothing was timed and the option that changes it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.decisions.next_pick import NextPick
from bench.decisions.pick import Choice, Further
from bench.measure.goal import Goal
from bench.records.ranking import Group
from bench.records.rows import Row
from bench.report.next_step import after, is_measured, unscaled

RESULTS = Path("results")
ROW = Row(
    cell="own/onnx/native/raw/onnxruntime/cpu/b1t1", task="own", source="onnx", exporter="native", variant="raw",
    runtime="onnxruntime", provider="cpu", batch=1, threads=1, status="ok",
)  # fmt: skip
TIMED = dataclasses.replace(ROW, latency_p50_ns=1e6)


def failed(reason: str | None, **more: object) -> Row:
    return dataclasses.replace(ROW, **{"status": "failed", "reason": reason, **more})  # type: ignore[arg-type]


def picking(task: str = "own", **changed: Any) -> NextPick:
    """An answer that picks, with other values for some of its fields, or of its choice."""
    found = Choice(
        group=Group(task=task, batch=1, threads=1, rows=(), numbers={}),
        qualified=(), front=(), contenders=(), picked=TIMED, num_sure=1, regret=0.0, over_baseline=None, equal=(),
        untold=(), all_slower=True, further=None,
    )  # fmt: skip
    own = {"choice": found, "max_metric_loss": 0.01, "tolerance": None, "reason": None}
    own |= {name: changed.pop(name) for name in own.keys() & changed}
    return NextPick(task=task, **({**own, "choice": dataclasses.replace(found, **changed)} if changed else own))


def line_of(
    rows: Sequence[Row],
    *picks: NextPick,
    results: Path = RESULTS,
    sizes: Mapping[str, int] | None = None,
    **goal: Any,
) -> str:
    return after(rows, sizes=sizes or {}, results=results, picks=picks or [picking()], goal=Goal(**goal))


def test_a_table_leads_to_the_deployment_to_ship() -> None:
    assert line_of([TIMED, failed("no")]) == "next: bench pick own --max-metric-drop 1%"
    assert line_of([TIMED], picking("my own"), results=Path("my results")) == (
        "next: bench pick 'my own' --max-metric-drop 1% --results 'my results'"
    )
    several = [TIMED, dataclasses.replace(TIMED, task="b")]
    assert line_of(several, picking("own", choice=None), picking("b")) == "next: bench best"


@pytest.mark.parametrize("advice", ["export after model.eval()", "call the layer with training=False"])
@pytest.mark.parametrize("field", ["warning", "reason"])
def test_a_model_in_training_mode_is_exported_anew_before_anything_is_picked(field: str, advice: str) -> None:
    told = f"Dropout 'drop' is in training mode: it drops values at random, others at each run; {advice}"
    rows = [TIMED, dataclasses.replace(ROW, fidelity="broken", **{field: told})]
    assert line_of(rows) == (
        f"first {advice}, for these rows are of a model in training mode; next: bench pick own --max-metric-drop 1%"
    )
    others = [TIMED, dataclasses.replace(ROW, **{field: "RandomNormal 'n' draws random numbers at each run"})]
    assert line_of(others).startswith("next: ")


def test_undecided_rows_are_counted_with_what_goes_on() -> None:
    rows = [TIMED, *[dataclasses.replace(TIMED, verdict=verdict) for verdict in ("undecided", "faster", "undecided")]]
    usual = "next: bench pick own --max-metric-drop 1% (2 undecided: the same command with "
    assert line_of(rows, budget_s=30.0) == f"{usual}--budget 5m goes on)"
    assert line_of(rows, budget_s=301.0) == f"{usual}--budget 11m goes on)"
    rows[1] = dataclasses.replace(rows[1], num_launches=16)
    assert line_of(rows, budget_s=30.0) == f"{usual}--budget 5m --launches 32 goes on)"
    assert line_of(rows) == f"{usual}--launches 32 goes on)"


def test_a_pick_that_would_end_in_none_is_not_proposed() -> None:
    """It takes more launches, or a larger tolerance; where neither is known to do, the line says so."""
    undecided: dict[str, Any] = {"picked": None, "further": Further(cells=("a", "b"), launches=25)}
    assert line_of([TIMED], picking(tolerance=0.26, **undecided), budget_s=90.0) == (
        "no pick yet: 2 cells may be the fastest; the same command with --budget 5m --launches 25 goes on; "
        "bench pick own --max-metric-drop 1% --tolerance 26% takes one that is at most 26 % slower than the fastest"
    )
    enough = {**undecided, "further": Further(cells=("a", "b"), launches=9)}
    assert line_of([TIMED], picking(**enough), budget_s=90.0) == (
        "no pick yet: 2 cells may be the fastest; the same command with --budget 5m goes on"
    )
    endless = {**undecided, "further": Further(cells=("a", "b", "c"), launches=None)}
    assert line_of([TIMED], picking(**endless)) == (
        "no pick yet: 3 cells may be the fastest; launches alone would not decide soon"
    )


def test_a_limit_that_no_cell_keeps_to_is_not_proposed() -> None:
    found = picking(max_metric_loss=None, reason="no cell of own meets all of it")
    assert line_of([TIMED], found) == (
        "next: bench pick own; with --max-metric-drop 1%, no cell of own meets all of it"
    )
    nothing = picking(choice=None, reason="no cell of own was timed and is right")
    line = "no pick: no cell of own was timed and is right; bench show own says why"
    assert line_of([TIMED], nothing) == line
    assert line_of([TIMED], nothing, nothing).startswith("no pick: no cell of own was timed and is right; bench show")


def test_numbers_of_threads_that_were_not_measured_say_why() -> None:
    two = dataclasses.replace(ROW, threads=2)

    def line(*rows: Row, has_launches: bool = False) -> str:
        return unscaled(rows, {}, has_launches=has_launches)

    assert line(failed("no kernel"), two).startswith("no cell could be timed; 1 of 2 failed with: no kernel;")
    assert line(failed("no kernel")).startswith("no cell could be timed; 1 of 1 failed with: no kernel;")
    assert line(ROW).startswith("nothing to compare: these cells have one thread;")
    assert line(ROW, failed("no kernel")).startswith("nothing to compare: these cells have one thread;")
    lacking = "no cell could be timed at one thread and at several"
    assert line(ROW, failed("no", threads=2), has_launches=True).startswith(f"{lacking}; 1 of 2 failed with: no;")
    assert line(ROW, two, has_launches=True).startswith(f"{lacking} before the time was up; the same command")


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
    found = line_of(rows, sizes=sizes)
    assert found.startswith("no cell could be timed")
    assert line in found


def test_a_long_reason_loses_its_middle() -> None:
    line = line_of([failed(f"onnxsim: {'/path ' * 60}culprit is Conv-15")])
    assert " with: onnxsim: /path /path" in line
    assert "/path ... /path" in line
    assert "/path culprit is Conv-15; bench show" in line
    assert len(line) < 300
