"""The outcome for a task: a winner, the model as it is, or what is missing; one answer over numbers of threads."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bench.cli import best as best_command
from bench.cli import main
from bench.cli import pick as command
from bench.decisions import answer as answering
from bench.decisions import deployment
from bench.decisions.answer import Answer
from bench.decisions.best import best
from bench.decisions.constraints import MAX_METRIC_LOSS, TOLERANCE, Constraints
from bench.measure.comparison import CELL
from bench.records import assemble, folder
from bench.records.folder import Results
from bench.records.lines import Failure
from bench.records.measurements import Measurements
from bench.records.metric_loss import Lost
from bench.records.store import Record
from bench.report import outcome
from bench.report import pick as pick_report
from support import records as made

BASE = "toy/null/native/raw/null/cpu/b1t1"
TWO = BASE.replace("t1", "t2")
BLOCKS = {"a": 1_000_000, "b": 2_000_000, "c": 1_500_000, "d": 1_200_000}
WOBBLE = {"a": 1.0, "b": -1.0, "c": 0.5, "d": -0.5}


def cell(name: str, factor: float, *, noise: float = 0.0, beside: str = BASE, size: int = 31, **quality: Any) -> Record:
    """A cell so many times as slow as a baseline; its launches differ by up to `noise`."""
    launches = [
        made.launch(block, CELL, round(ns * factor * (1 + noise * WOBBLE[block[0]])), reference=beside)
        for block, ns in BLOCKS.items()
    ]
    quality = {"metric_loss": 0.0, **quality}
    found = made.record(beside.replace("raw", name), *launches, quality=made.quality(**quality))
    return made.with_artifact(found, size_bytes=size)


def baseline(path: str = BASE, factor: float = 1.0) -> Record:
    found: Record = made.baseline(path, **{block: round(ns * factor) for block, ns in BLOCKS.items()})
    return made.replaced_quality(found, metric_loss=0.0)


def stored(*cells: Record) -> Results:
    records = {record.cell.path: record for record in cells}
    measurements = Measurements(records)
    rows = assemble.rows(records, measurements=measurements)
    return Results(folder=Path("unused"), records=records, rows=rows, measurements=measurements, peaks={}, margin=0.02)


def answer(*cells: Record, tolerance: float = TOLERANCE, **constraints: Any) -> Answer:
    results = stored(*cells)
    limits = Constraints(**{"max_metric_loss": MAX_METRIC_LOSS, **constraints})
    return answering.answer(results.measurements, results.rows, limits, tolerance=tolerance)


def test_a_winner_is_within_the_tolerance_of_every_other() -> None:
    found = answer(baseline(), cell("fast", 0.5, noise=0.001), cell("lossy", 0.3, noise=0.001, metric_loss=0.2))
    choice = found.choice
    assert choice.shipped is not None
    assert (choice.outcome, choice.shipped.variant, found.tolerance) == ("winner", "fast", None)
    assert choice.regret <= TOLERANCE
    assert choice.faster is not None
    assert choice.faster.variant == "lossy"


def test_the_model_is_kept_where_nothing_is_shown_to_be_faster() -> None:
    """The launches of both differ by 10 %, so that neither is within 5 %, and neither is faster than the baseline."""
    found = answer(baseline(), cell("one", 0.97, noise=0.1), cell("other", 0.98, noise=-0.1))
    choice = found.choice
    assert choice.shipped is not None
    assert (choice.outcome, choice.shipped.cell) == ("keep", BASE)
    assert choice.regret > TOLERANCE
    assert choice.gain == pytest.approx(1 - 1 / (1 + choice.regret))
    assert outcome.kept(choice).startswith("nothing that keeps the metric is shown to be faster; at most ")
    assert choice.further is not None


def test_the_true_gain_is_within_the_gain_that_is_told() -> None:
    """The fastest takes 3 % less time."""
    found = answer(baseline(), cell("one", 0.97, noise=0.1), cell("other", 0.98, noise=-0.1))
    assert found.choice.outcome == "keep"
    assert found.choice.gain > 0.03


def test_what_would_be_faster_if_it_kept_the_metric_is_named() -> None:
    lossy = cell("int8", 0.5, noise=0.001, size=8, metric_loss=0.087, metric_name="snr_db")
    found = answer(baseline(), lossy).choice
    assert found.shipped is not None
    assert (found.outcome, found.shipped.cell) == ("winner", BASE)
    said = outcome.faster(found) or ""
    assert said.startswith("null/native/int8/null/cpu is 2x as fast, ")
    assert "its outputs differ by 8.7 % of the signal" in said


def test_faster_cells_that_cannot_be_told_apart_are_no_reason_to_keep_the_slow_one() -> None:
    found = answer(baseline(), cell("one", 0.5, noise=0.1), cell("other", 0.51, noise=-0.1))
    assert (found.choice.outcome, found.choice.shipped) == ("none", None)
    assert found.choice.further is not None


@pytest.mark.parametrize("noise", [0.02, 0.05, 0.1, 0.2])
@pytest.mark.parametrize("num", [2, 3, 6])
def test_the_tolerance_that_is_advised_is_accepted(noise: float, num: int) -> None:
    """More cells may be as fast at a larger tolerance, and each comparison is then held to more: 13 % may take 14 %."""
    cells = [
        cell(f"c{number}", 0.5 * 1.03**number, noise=noise * (-1) ** number / (1 + number)) for number in range(num)
    ]
    found = answer(baseline(), *cells)
    if found.choice.outcome == "winner":
        return
    assert found.tolerance is not None
    again = answer(baseline(), *cells, tolerance=found.tolerance)
    assert again.choice.outcome == "winner"
    below = answer(baseline(), *cells, tolerance=round(found.tolerance - 0.01, 2))
    assert below.choice.outcome == "none"
    assert below.tolerance == found.tolerance, "the advice does not change with the tolerance"


def test_where_nothing_was_timed_there_is_no_answer() -> None:
    failed = made.record(BASE, quality=None, failure=Failure(stage="verify", reason="no kernel"))
    assert answering.of_run(stored(failed), "toy") is None


@pytest.mark.parametrize("option", ["tolerance", "max_metric_drop"])
def test_best_and_pick_have_the_same_limits(option: str) -> None:
    defaults: list[Any] = [
        inspect.signature(one).parameters[option].default for one in (command.pick, best_command.best)
    ]
    assert defaults == [f"{100 * {'tolerance': TOLERANCE, 'max_metric_drop': MAX_METRIC_LOSS}[option]:g}%"] * 2


def test_best_names_no_winner_where_pick_refuses() -> None:
    results = stored(baseline(), cell("one", 0.5, noise=0.1), cell("other", 0.51, noise=-0.1))
    (found,) = best(results.measurements, results.rows, max_metric_loss=MAX_METRIC_LOSS)
    assert found.answer.choice.outcome == "none"
    assert outcome.regret(found.answer.choice).startswith("not decided: it may be ")


def test_the_reference_and_exact_outputs_lose_nothing() -> None:
    """Ten samples tell only a loss of 26 %, of what is not the same model."""
    few = Lost(num_samples=10, score=1.0, most=1.0)
    records = [
        made.replaced_quality(baseline(), lost=few),
        cell("same", 0.5, noise=0.001, lost=few, fidelity="exact"),
        cell("close", 0.3, noise=0.001, lost=few),
        cell("int8", 0.3, noise=0.001, lost=few, fidelity="exact", precision="int8"),
    ]
    found = answer(*records)
    assert {row.variant: row.metric_loss_high for row in found.choice.group.rows} == {
        "raw": 0.0,
        "same": 0.0,
        "close": pytest.approx(1 - 0.05 ** (1 / 10)),
        "int8": pytest.approx(1 - 0.05 ** (1 / 10)),
    }
    assert [row.variant for row in found.choice.qualified.rows] == ["same", "raw"]


def test_the_answer_has_the_fewest_threads_unless_more_are_shown_to_be_faster() -> None:
    slow = [baseline(TWO, 2.0), cell("fast", 0.9, noise=0.001, beside=TWO)]
    found = answer(baseline(), cell("fast", 0.5, noise=0.001), *slow)
    assert found.choice.group.threads == 1
    assert [*outcome.beside(found)] == ["2 threads: 2 cells qualify, none of which is shown to beat 1 thread"]
    quick = [baseline(TWO, 0.2), cell("fast", 0.5, noise=0.001, beside=TWO)]
    found = answer(baseline(), cell("fast", 0.5, noise=0.001), *quick)
    assert found.choice.group.threads == 2
    assert [*outcome.beside(found)] == [
        "1 thread: 2 cells qualify, the fastest of which is slower than that at 2 threads"
    ]


def test_best_has_one_answer_for_a_task() -> None:
    results = stored(baseline(), cell("fast", 0.5, noise=0.001), baseline(TWO, 2.0))
    (found,) = best(results.measurements, results.rows, max_metric_loss=MAX_METRIC_LOSS)
    assert (found.row.variant, found.row.threads) == ("fast", 1)


def ran_with(found: Record, version: str = "1.0") -> Record:
    """The record with a package of a version."""
    lines = [replace(found.header, versions={"runtime": version}), found.quality, *found.launches]
    return Record.from_lines([line for line in lines if line is not None])


def test_cells_that_run_the_same_arithmetic_need_not_be_told_apart() -> None:
    """Five twins whose launches differ by 10 %: the simplest stands for all, and it is shipped."""
    names = ("onnxsim", "dedup", "onnxoptimizer", "onnxslim+dedup")
    cells = [cell(name, 0.5, noise=0.1 * (-1) ** number) for number, name in enumerate(names)]
    far = cell("far", 0.9, noise=0.001, loss=0.3)
    apart = answer(baseline(), *cells, far).choice
    assert apart.outcome == "none"
    found = answer(baseline(), *map(ran_with, cells), far).choice
    assert found.shipped is not None
    assert (found.outcome, found.shipped.variant) == ("winner", "dedup")
    assert len(found.twins[found.shipped.cell]) == 3
    alone = answer(*map(ran_with, [baseline(), cell("dedup", 1.0, noise=0.1)]))
    assert len(alone.choice.qualified.rows) == 2
    assert "  no other qualifies\n" in pick_report.verdict(alone, "bench pick toy", "")
    assert found.others == []
    others = [ran_with(one, str(number)) for number, one in enumerate(cells)]
    assert answer(baseline(), *others, far).choice.outcome == "none", "other versions are other programs"


def test_a_lossy_step_has_no_twin_without_it_though_the_outputs_are_the_same() -> None:
    """As where a model gives the same outputs for all inputs."""
    cells = [
        cell(name, 0.5, noise=0.04 * (-1) ** number) for number, name in enumerate(("dedup", "fp16", "dedup+fp16"))
    ]
    found = answer(baseline(), *map(ran_with, cells)).choice
    names = {cell(name, 0.5).cell.path: name for name in ("dedup", "fp16", "dedup+fp16")}
    alike = {names[one]: [names[other] for other in others] for one, others in found.twins.items() if one in names}
    assert alike == {"dedup": [], "fp16": ["dedup+fp16"]}


def test_a_cell_that_is_shown_to_be_slower_is_no_twin() -> None:
    found = answer(baseline(), ran_with(cell("a", 0.7, noise=0.001)), ran_with(cell("b", 0.5, noise=0.001))).choice
    assert found.shipped is not None
    assert (found.shipped.variant, found.twins[found.shipped.cell]) == ("b", ())


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[Any, str]:
    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main.main()
    return stopped.value.code, capsys.readouterr().out


def test_the_outcome_is_in_json_and_in_the_saved_deployment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = stored(baseline(), cell("one", 0.97, noise=0.1), cell("other", 0.98, noise=-0.1))
    monkeypatch.setattr(folder, "read", lambda *_, **__: found)
    kept: dict[str, Any] = {}

    def save(target: Path, row: Any, record: Record, **more: Any) -> list[Path]:
        kept.update(more)
        return [target / "run.py"]

    monkeypatch.setattr(deployment, "save", save)
    code, printed = run(capsys, monkeypatch, "pick", "toy", "--format", "json", "--output", str(tmp_path))
    told = json.loads(printed)
    assert not code
    assert (told["outcome"], told["cell"]) == ("keep", BASE)
    assert told["regret"] > TOLERANCE
    assert kept["outcome"] == {name: value for name, value in told.items() if name != "saved"}
    code, printed = run(capsys, monkeypatch, "best", "--format", "json")
    assert (code, json.loads(printed)) == (None, [kept["outcome"]])


def test_a_pick_of_what_was_never_timed_ends_in_none_and_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = stored(made.record(BASE, quality=None, failure=Failure(stage="verify", reason="no kernel")))
    monkeypatch.setattr(folder, "read", lambda *_, **__: found)
    code, printed = run(capsys, monkeypatch, "pick", "toy")
    assert code == 1
    assert printed == (
        "none: no cell of toy, batch 1, 1 thread was timed and is right\n  to see why:\n    bench show toy\n"
    )


def test_a_command_that_is_advised_repeats_the_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = stored(baseline(), cell("one", 0.5, noise=0.1), cell("other", 0.51, noise=-0.1))
    monkeypatch.setattr(folder, "read", lambda *_, **__: found)
    code, printed = run(capsys, monkeypatch, "pick", "toy", "--max-metric-drop", "2%", "--threads", "1")
    assert code == 1
    (advised,) = [line.split(" takes one")[0].strip() for line in printed.splitlines() if " takes one" in line]
    assert advised.startswith("bench pick toy --max-metric-drop 2% --threads 1 --tolerance ")
    monkeypatch.setattr(deployment, "save", lambda *_, **__: [Path("run.py")])
    code, printed = run(capsys, monkeypatch, *advised.split()[1:])
    assert not code
    assert "winner: " in printed
