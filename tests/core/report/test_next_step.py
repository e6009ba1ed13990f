"""The last lines of a run: the outcome and the next command, or why nothing was timed and what changes that."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.api.cell import Cell
from bench.api.loss_units import AllowedLoss
from bench.decisions.answer import Answer
from bench.decisions.constraints import Constraints, Qualified
from bench.decisions.deciding_launches import Further
from bench.decisions.pick import Choice
from bench.decisions.threads import Scaling
from bench.measure.goal import Goal
from bench.records.ranking import Group
from bench.records.rows import Row
from bench.report import pick as pick_report
from bench.report.next_step import after, is_measured, is_without_times, of_threads, unscaled

RESULTS = Path("results")
ROW = Row(
    cell="own/onnx/native/raw/onnxruntime/cpu/b1t1", task="own", source="onnx", exporter="native", variant="raw",
    runtime="onnxruntime", provider="cpu", batch=1, threads=1, status="ok",
)  # fmt: skip
TIMED = dataclasses.replace(ROW, latency_p50_ns=1e6)


def failed(reason: str | None, **more: object) -> Row:
    return dataclasses.replace(ROW, **{"status": "failed", "reason": reason, **more})  # type: ignore[arg-type]


def answered(task: str = "own", tolerance: float | None = None, **changed: Any) -> Answer:
    """An answer with a winner, with other values for some fields of its choice."""
    found = Choice(
        outcome="winner",
        group=Group(task=task, batch=1, threads=1, rows=(), numbers={}),
        tolerance=0.05,
        qualified=Qualified(ranked=(), rows=(), alpha=0.05, lossy=(), of_guessed_sizes=()),
        contenders=(TIMED,),
        shipped=TIMED,
        regret=0.021,
        all_slower=True,
    )
    choice = dataclasses.replace(found, **changed)
    return Answer(choice=choice, beside=(), constraints=Constraints(max_metric_loss=AllowedLoss()), tolerance=tolerance)


def lines_of(
    rows: Sequence[Row],
    *answers: Answer | None,
    results: Path = RESULTS,
    sizes: Mapping[str, int] | None = None,
    **goal: Any,
) -> list[str]:
    return after(rows, sizes=sizes or {}, results=results, answers=answers or [answered()], goal=Goal(**goal))


WON = "winner: onnx/native/raw/onnxruntime/cpu, 1 ms, at most 2.1 % slower than the fastest"
PICK = "next: bench pick own"


def test_a_table_leads_to_the_deployment_to_ship() -> None:
    assert lines_of([TIMED, failed("no")]) == [WON, PICK]
    assert lines_of([TIMED], answered("own"), results=Path("my results")) == [WON, f"{PICK} --results 'my results'"]
    several = [TIMED, dataclasses.replace(TIMED, task="b")]
    assert lines_of(several, None, answered("b")) == ["1 winner, 1 none of 2 tasks", "next: bench best"]


def test_a_model_that_is_kept_is_said_with_what_could_be_gained() -> None:
    assert lines_of([TIMED], answered(outcome="keep", regret=0.25)) == [
        "keep: ship it as it is (onnxruntime, 1 ms): nothing that keeps the metric is shown to be faster; at most 20 % "
        "of the time could be gained",
        PICK,
    ]


def test_what_would_be_faster_stands_between_the_outcome_and_the_next_command() -> None:
    shipped = dataclasses.replace(TIMED, ratio=1.0, size_bytes=4_000)
    half = {"ratio": 0.5, "size_bytes": 1_000, "metric_name": "accuracy", "metric_loss": 0.02}
    found = answered(outcome="keep", shipped=shipped, faster=dataclasses.replace(TIMED, **half), faster_loss_high=0.03)
    rows = [TIMED, dataclasses.replace(TIMED, verdict="undecided")]
    outcome, faster, longer, last = lines_of(rows, found, budget_s=15.0)
    assert outcome.startswith("keep: ")
    assert faster == (
        "onnx/native/raw/onnxruntime/cpu is 2x as fast, 0.25 of the size; it loses 2 % of accuracy, at most 3 %"
    )
    assert longer == "1 undecided: the same command with --budget 5m goes on"
    assert last == PICK


@pytest.mark.parametrize("advice", ["export after model.eval()", "call the layer with training=False"])
@pytest.mark.parametrize("field", ["warning", "reason"])
def test_a_model_in_training_mode_is_exported_anew_before_anything_is_picked(field: str, advice: str) -> None:
    told = f"Dropout 'drop' is in training mode: it drops values at random, others at each run; {advice}"
    rows = [TIMED, dataclasses.replace(ROW, fidelity="broken", **{field: told})]
    assert lines_of(rows) == [f"first {advice}, for these rows are of a model in training mode", WON, PICK]
    others = [TIMED, dataclasses.replace(ROW, **{field: "RandomNormal 'n' draws random numbers at each run"})]
    assert lines_of(others) == [WON, PICK]


def test_undecided_rows_are_counted_with_what_goes_on() -> None:
    rows = [TIMED, *[dataclasses.replace(TIMED, verdict=verdict) for verdict in ("undecided", "faster", "undecided")]]
    usual = "2 undecided: the same command with"
    assert lines_of(rows, budget_s=30.0) == [WON, f"{usual} --budget 5m goes on", PICK]
    assert lines_of(rows, budget_s=301.0)[1] == f"{usual} --budget 11m goes on"
    rows[1] = dataclasses.replace(rows[1], num_launches=16)
    assert lines_of(rows, budget_s=30.0)[1] == f"{usual} --budget 5m --launches 32 goes on"
    assert lines_of(rows)[1] == f"{usual} --launches 32 goes on"


def test_cells_that_lack_the_time_alone_are_counted_as_not_timed() -> None:
    """A cell that is the same as another, one whose outputs are broken and one that failed lack no time."""
    waiting = dataclasses.replace(ROW, fidelity="exact")
    others = [dataclasses.replace(ROW, fidelity="broken"), dataclasses.replace(waiting, same_as="x"), failed("no")]
    rows = [TIMED, waiting, waiting, *others]
    assert lines_of(rows, budget_s=15.0) == [WON, "2 not timed yet: the same command with --budget 5m goes on", PICK]
    rows[0] = dataclasses.replace(TIMED, verdict="undecided")
    assert lines_of(rows, budget_s=15.0)[1] == (
        "1 undecided, 2 not timed yet: the same command with --budget 5m goes on"
    )


def test_what_is_missing_for_a_winner_is_said() -> None:
    """It takes more launches, or a larger tolerance; where neither is known to do, the launches are taken again."""
    undecided: dict[str, Any] = {"outcome": "none", "shipped": None, "contenders": (TIMED, TIMED)}
    further = Further(cells=("a", "b"), launches=25)
    assert lines_of([TIMED], answered(tolerance=0.26, further=further, **undecided), budget_s=90.0) == [
        "none: 2 cells may be the fastest",
        "bench pick own --tolerance 26% takes one that is at most 26 % slower than the fastest",
        "next: the same command with --budget 5m --launches 25",
    ]
    enough = Further(cells=("a", "b"), launches=9)
    assert lines_of([TIMED], answered(further=enough, **undecided), budget_s=90.0) == [
        "none: 2 cells may be the fastest",
        "next: the same command with --budget 5m",
    ]
    endless = Further(cells=("a", "b"), launches=None)
    assert lines_of([TIMED], answered(further=endless, **undecided)) == [
        "none: 2 cells may be the fastest; launches alone would not decide soon, for they differ too much from one "
        "process to the next",
        "next: the same command with --force, at a quieter hour",
    ]


def test_a_lone_cell_that_looks_fastest_is_not_sure_to_be_after_one_launch() -> None:
    once = dataclasses.replace(TIMED, num_launches=1)
    found = answered(outcome="none", shipped=None, contenders=(once,), further=Further(cells=(once.cell,), launches=2))
    assert lines_of([once], found, budget_s=90.0) == [
        "none: onnx/native/raw/onnxruntime/cpu looks fastest, but it was launched once and that is not enough to be "
        "sure",
        "next: the same command with --budget 5m",
    ]
    shown = pick_report.verdict(found, "bench pick own", "")
    assert "not enough to be sure:\n    own/onnx/native/raw/onnxruntime/cpu/b1t1\n" in shown


def test_a_task_of_which_nothing_qualifies_says_why() -> None:
    lacking = answered(outcome="none", shipped=None, contenders=(), lacking="no cell of own meets all of it")
    assert lines_of([TIMED], lacking) == ["none: no cell of own meets all of it", "next: bench show own"]
    assert lines_of([TIMED], None) == ["none: no cell of own was timed and is right", "next: bench show own"]
    assert lines_of([TIMED], None, lacking) == ["2 none of 2 tasks", "next: bench show"]


def test_numbers_of_threads_are_counted_and_lead_to_the_runtimes_at_the_most_frequent() -> None:
    def scaling(task: str, variant: str, *best: int) -> Scaling:
        cell = Cell.from_path(f"{task}/onnx/native/{variant}/onnxruntime/cpu/b1t1")
        return Scaling(cell=cell, latency_ns={1: 2e6, 2: 1e6}, over_one={}, best=best)

    one_task = [scaling("own", "raw", 2), scaling("own", "onnxsim", 2), scaling("own", "dedup", 1, 2)]
    assert of_threads(one_task) == [
        "best: 2 threads for 2 cells, 1 or 2 threads for 1 cell",
        "next: bench run 'own/*/raw/*/b1t2'",
    ]
    assert of_threads([scaling("own", "raw", 1), scaling("b", "raw", 1)]) == [
        "best: 1 thread for 2 cells",
        "next: bench run '*/raw/*/b1t1'",
    ]


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
    assert line(ROW, two, has_launches=True).startswith(f"{lacking} before the time was up, for preparing")


def test_a_run_of_cells_whose_times_say_nothing_tells_why_and_proposes_no_longer_run() -> None:
    imitated = dataclasses.replace(ROW, fidelity="exact", untimed="software imitates the device")
    sentence = "no time is stored, for software imitates the device"
    skipped = failed("it opens no tflite", status="skipped")
    twin = dataclasses.replace(ROW, cell="twin", fidelity="exact", same_as=ROW.cell)
    for rows in ([imitated], [imitated, imitated], [imitated, skipped], [imitated, twin]):
        assert is_without_times(rows)
        assert lines_of(rows, budget_s=60.0) == [sentence]
    two = dataclasses.replace(imitated, threads=2)
    assert unscaled([imitated, two], {}, has_launches=False) == sentence
    broken = dataclasses.replace(imitated, fidelity="broken", reason="other outputs")
    for rows in ([], [skipped], [broken], [failed("no kernel"), imitated], [imitated, TIMED], [imitated, broken]):
        assert not is_without_times(rows)
    (line,) = lines_of([imitated, failed("no kernel")])
    assert line.startswith("no cell could be timed; 1 of 2 failed with: no kernel;")
    (line,) = lines_of([imitated, dataclasses.replace(ROW, fidelity="exact")])
    assert line.startswith("no cell could be timed before the time was up")


def test_a_row_that_is_the_same_as_another_counts_as_measured() -> None:
    twin = dataclasses.replace(ROW, cell="twin", same_as=ROW.cell)
    assert is_measured([twin])
    assert is_measured([TIMED, twin])
    assert not is_measured([ROW, twin]), "none of the two was timed"
    assert not is_measured([ROW, failed("no")])


@pytest.mark.parametrize(
    ("rows", "sizes", "line"),
    [
        (
            [failed("Reshape: 3 is not 4"), failed("Reshape: 3 is not 4"), failed("another")],
            {"height": 224, "width": 96},
            "2 of 3 failed with: Reshape: 3 is not 4; the sizes were height=224, width=96; --dim height=SIZE sets",
        ),
        ([failed("another")], {"h; ls": 3}, "the sizes were h; ls=3; --dim 'h; ls=SIZE' sets another"),
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
        (
            [ROW],
            {},
            "before the time was up, for preparing the cells took it; the same command with --budget 5m goes on",
        ),
    ],
    ids=["sizes", "odd names", "time", "memory", "operator", "no sizes", "skipped", "broken", "no reason", "no time"],
)
def test_the_most_frequent_reason_and_what_changes_it(rows: list[Row], sizes: dict[str, int], line: str) -> None:
    (found,) = lines_of(rows, sizes=sizes)
    assert found.startswith("no cell could be timed")
    assert line in found


def test_a_long_reason_loses_its_middle() -> None:
    (line,) = lines_of([failed(f"onnxsim: {'/path ' * 60}culprit is Conv-15")])
    assert " with: onnxsim: /path /path" in line
    assert "/path ... /path" in line
    assert "/path culprit is Conv-15; bench show" in line
    assert len(line) < 300
