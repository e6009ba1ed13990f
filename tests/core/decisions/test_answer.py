"""The outcome for a task: a winner, the model as it is, or what is missing; one answer over numbers of threads."""

from __future__ import annotations

import collections
import dataclasses
import inspect
import json
import math
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.api.loss_units import AllowedLoss
from bench.cli import best as best_command
from bench.cli import main
from bench.cli import pick as command
from bench.decisions import answer as answering
from bench.decisions import constraints as limiting
from bench.decisions import deployment, pick
from bench.decisions.best import best
from bench.decisions.constraints import TOLERANCE
from bench.records import folder
from bench.records.lines import Failure
from bench.records.metric_loss import Lost
from bench.records.store import Record
from bench.report import outcome
from support import records as made
from support.answers import BASE, TWO, answer, baseline, cell, stored


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
    assert outcome.why_as_it_is(found).startswith("nothing that keeps the metric is shown to be faster; at most ")
    assert choice.further is not None


def test_the_model_is_not_kept_for_single_launches() -> None:
    """What may be faster was launched once: how far its launches differ is not known, nor what could be gained."""
    one = cell("one", 0.996)
    once = dataclasses.replace(one, launches=one.launches[:1])
    found = answer(baseline(), once)
    assert (found.choice.outcome, found.choice.regret) == ("none", math.inf)
    assert found.choice.further is not None
    assert found.choice.further.launches == 2
    assert outcome.fields(found)["gain"] is None
    far = cell("far", 3.0)
    behind = dataclasses.replace(far, launches=far.launches[:1])
    noisy = [cell("one", 0.97, noise=0.1), cell("other", 0.98, noise=-0.1)]
    found = answer(baseline(), *noisy, behind)
    assert found.choice.outcome == "keep"
    assert found.choice.regret < 0.5, "one launch is enough to tell what is three times as slow"


def test_the_model_is_not_kept_where_it_was_shown_to_be_behind_the_fastest() -> None:
    """Two cells are faster by 16 %, but not called faster among the verdicts on another task, whose cells are alike."""
    pair = [cell(name, 0.84, noise=noise) for name, noise in (("one", 0.1), ("other", -0.1))]
    beside = BASE.replace("toy", "toy2")
    alike = [cell(f"alike{number}", 1.0, noise=0.03 * (-1) ** number, beside=beside) for number in range(60)]
    results = stored(baseline(), *pair, baseline(beside), *alike)
    rows = [row for row in results.rows if row.task == "toy"]
    assert {row.verdict for row in rows} == {None, "undecided"}
    limits = limiting.Constraints(max_metric_loss=AllowedLoss())
    found = answering.answer(results.measurements, rows, limits).choice
    assert found.race is not None
    assert BASE not in (found.race.first, *found.race.rivals)
    assert found.outcome == "none"


def test_the_launches_to_ask_for_are_beyond_those_of_the_cell_with_fewer() -> None:
    """It has two; the baseline has eight, two in each of four blocks, of which the other cell was in two."""
    one = cell("one", 1.0, noise=0.1)
    further = answer(baseline(), dataclasses.replace(one, launches=one.launches[:2])).choice.further
    assert further is not None
    assert further.launches == 6


def test_the_regret_that_is_told_beside_a_cell_is_its_own() -> None:
    """The cell that looks fastest has noisy launches; the regret of a quiet one is smaller."""
    cells = [cell("first", 0.508, noise=0.1), cell("a", 0.51, noise=0.001), cell("b", 0.51, noise=0.1)]
    found = answer(baseline(), *cells)
    choice = found.choice
    assert choice.outcome == "none"
    assert choice.race is not None
    assert choice.leading is not None
    regrets = choice.race.regrets
    assert choice.regret == regrets[choice.leading.cell] > choice.least_regret == min(regrets.values())
    assert outcome.regret(found) == f"not decided: it may be {100 * choice.regret:.2g} % slower than the fastest"


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({}, "that keeps the metric "),
        ({"max_metric_loss": None}, ""),
        ({"max_metric_loss": None, "max_size_bytes": 40}, "that keeps to --max-size "),
        (
            {"max_size_bytes": 40, "max_latency_ns": 1e9},
            "that keeps the metric and keeps to --max-size and --max-latency ",
        ),
    ],
)
def test_a_model_that_is_kept_is_kept_among_what_was_asked_for(limits: dict[str, Any], words: str) -> None:
    big = [cell("big", 0.5, noise=0.001, size=50)] if "max_size_bytes" in limits else []
    found = answer(baseline(), cell("one", 0.97, noise=0.1), cell("other", 0.98, noise=-0.1), *big, **limits)
    assert found.choice.outcome == "keep"
    assert outcome.why_as_it_is(found).startswith(f"nothing {words}is shown to be faster; at most ")


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


UNDECIDED_AT_5_PERCENT = [(0.1, 3), (0.1, 6), (0.2, 2), (0.2, 3), (0.2, 6), (0.3, 2), (0.3, 3), (0.3, 6)]


@pytest.mark.parametrize(("noise", "num"), UNDECIDED_AT_5_PERCENT)
def test_the_tolerance_that_is_advised_is_accepted(noise: float, num: int) -> None:
    """More cells may be as fast at a larger tolerance, and each comparison is then held to more: 13 % may take 14 %."""
    cells = [
        cell(f"c{number}", 0.5 * 1.03**number, noise=noise * (-1) ** number / (1 + number)) for number in range(num)
    ]
    found = answer(baseline(), *cells)
    assert found.choice.outcome == "none"
    assert found.tolerance is not None
    again = answer(baseline(), *cells, tolerance=found.tolerance)
    assert again.choice.outcome == "winner"
    below = answer(baseline(), *cells, tolerance=round(found.tolerance - 0.01, 2))
    assert below.choice.outcome == "none"
    assert below.tolerance == found.tolerance, "the advice does not change with the tolerance"


def test_a_tolerance_is_advised_beside_a_cell_behind_that_was_launched_once() -> None:
    """It is not shown to be slower by as much as the tolerance, but to be slower, so it hides no faster cell."""
    pair = [baseline(), cell("one", 0.5, noise=0.2), cell("other", 0.51, noise=-0.2)]
    behind = cell("behind", 0.65)
    once = dataclasses.replace(behind, launches=behind.launches[:1])
    found = answer(*pair, once)
    assert found.choice.outcome == "none"
    assert found.tolerance is not None
    assert found.tolerance == pytest.approx(answer(*pair).tolerance, abs=0.06)
    again = answer(*pair, once, tolerance=found.tolerance)
    assert again.choice.outcome == "winner"
    assert again.choice.race is not None
    assert once.cell.path in again.choice.race.rivals


def test_a_none_names_a_command_even_where_no_tolerance_and_no_number_of_launches_would_decide() -> None:
    """Launches that differ by 90 % leave two cells, both far faster than the baseline: these are measured again."""
    found = answer(baseline(), cell("one", 0.05, noise=0.9), cell("other", 0.051, noise=-0.9))
    assert (found.choice.outcome, found.tolerance) == ("none", None)
    ((purpose, line),) = outcome.missing(found, "bench pick toy", " --results r")
    assert purpose.startswith("to measure again, at a quieter hour (launches alone would not decide soon, for they ")
    cells = [BASE.replace("raw", name) for name in ("one", "other")]
    assert shlex.split(line) == ["bench", "run", *cells, "--force", "--results", "r"]


def test_the_search_for_a_tolerance_computes_only_the_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tolerance that is tried has an outcome alone; what the constraints say is asked once."""
    calls: collections.Counter[str] = collections.Counter()

    def counted(owner: Any, name: str) -> None:
        before = getattr(owner, name)

        def count(*arguments: Any, **more: Any) -> Any:
            calls[name] += 1
            return before(*arguments, **more)

        monkeypatch.setattr(owner, name, count)

    for owner, name in ((limiting, "eligible"), (pick.Chooser, "standing"), (pick.Chooser, "choice")):
        counted(owner, name)
    cells = [cell(f"c{number}", 0.5 * 1.03**number, noise=0.3 * (-1) ** number / (1 + number)) for number in range(6)]
    assert answer(baseline(), *cells).tolerance is not None
    assert calls["standing"] > 2
    assert (calls["eligible"], calls["choice"]) == (1, 1)


def test_where_nothing_was_timed_there_is_no_answer() -> None:
    failed = made.record(BASE, quality=None, failure=Failure(stage="verify", reason="no kernel"))
    assert answering.of_run(stored(failed), "toy") is None


@pytest.mark.parametrize(
    ("option", "expected"),
    [("tolerance", f"{100 * TOLERANCE:g}%"), ("max_metric_drop", AllowedLoss().option("share", "dB"))],
)
def test_best_and_pick_have_the_same_limits(option: str, expected: str) -> None:
    defaults: list[Any] = [
        inspect.signature(one).parameters[option].default for one in (command.pick, best_command.best)
    ]
    assert defaults == [expected] * 2


def test_best_names_no_winner_where_pick_refuses() -> None:
    results = stored(baseline(), cell("one", 0.5, noise=0.1), cell("other", 0.51, noise=-0.1))
    (found,) = best(results.measurements, results.rows, max_metric_loss=AllowedLoss())
    assert found.answer.choice.outcome == "none"
    assert outcome.regret(found.answer).startswith("not decided: it may be ")


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


def test_best_has_one_answer_for_a_task() -> None:
    results = stored(baseline(), cell("fast", 0.5, noise=0.001), baseline(TWO, 2.0))
    (found,) = best(results.measurements, results.rows, max_metric_loss=AllowedLoss())
    assert (found.row.variant, found.row.threads) == ("fast", 1)


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
    lines = printed.splitlines()
    (place,) = [number for number, line in enumerate(lines) if line.startswith("  to take one that is at most ")]
    assert lines[place].endswith(" % slower than the fastest:")
    assert [line for line in lines if "#" in line] == [], "zsh takes a comment behind a command for arguments"
    advised = lines[place + 1].strip()
    assert re.fullmatch(r"bench pick toy --max-metric-drop 2% --threads 1 --tolerance [\d.]+%", advised)
    monkeypatch.setattr(deployment, "save", lambda *_, **__: [Path("run.py")])
    code, printed = run(capsys, monkeypatch, *advised.split()[1:])
    assert not code
    assert "winner: " in printed
