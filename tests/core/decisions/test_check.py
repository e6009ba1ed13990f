"""The regression guard's verdicts, on launches made by hand; and pytest-benchmark fed with samples."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.api.artifact import Artifact
from bench.api.cell import Cell
from bench.api.errors import BenchError, ChildError
from bench.api.loss_units import AllowedLoss
from bench.decisions import check
from bench.decisions.check import Pair
from bench.measure import rounds
from bench.measure.block import Failure, Method, Result
from bench.measure.comparison import CELL, CONTROL, REFERENCE
from bench.measure.limits import Limits
from bench.measure.stats import Estimate
from bench.measure.subject import Subject
from bench.pipeline.flow import Verified
from bench.records.lines import Quality
from bench.records.metric_loss import Lost
from bench.report.check import as_json, figures, line
from bench.tasks.adopt import Adopted
from bench.testing import replayed_s
from support import records as made

CELL_PATH = "toy/null/native/raw/null/cpu/b1t1"


def verified(key: str, quality: Quality) -> Verified:
    artifact = Artifact(path=Path(key), format="null", sha256=key, size_bytes=1)
    cell = Cell.from_path(CELL_PATH)
    return Verified(cell=cell, key=key, artifact=artifact, inputs=Path("inputs"), quality=quality)


def pair(fidelity: str = "exact", reason: str | None = None, lost: float | None = 0.0) -> Pair:
    quality = made.quality(fidelity=fidelity, reason=reason, max_abs_error=0.0, metric_loss=lost)
    return Pair(pinned=verified("pinned", made.quality()), new=verified("new", quality))


def blocks(monkeypatch: pytest.MonkeyPatch, *ratios: float, control: float = 1.0) -> list[str]:
    """Blocks in which the new one is so many times as slow as the pinned one, over and over; those that ran."""
    ran: list[str] = []

    def run_block(pinned: Subject, subjects: list[Subject], method: Method, **_: object) -> Result:
        name, ns = f"block {len(ran)}", 1_000_000 * (1 + len(ran) % 2)
        ratio = ratios[len(ran) % len(ratios)]
        ran.append(name)
        seats = [
            (pinned, made.launch(name, REFERENCE, ns)),
            (pinned, made.launch(name, CONTROL, round(ns * control))),
            (subjects[0], made.launch(name, CELL, round(ns * ratio))),
        ]
        return Result(launches=tuple(seats), failures=())

    monkeypatch.setattr("bench.measure.blocks.run_block", run_block)
    return ran


@pytest.mark.parametrize(("unit", "told"), [({"metric_loss_unit": "dB"}, "dB"), ({}, "share")])
def test_what_pytest_benchmark_keeps_of_a_loss_has_its_unit(unit: dict[str, str], told: str) -> None:
    ratio = Estimate(value=1.0, low=0.9, high=1.1)
    outcome = check.Outcome(
        verdict="fine",
        ratio=ratio,
        control=None,
        num_launches=3,
        new_ns=(1,),
        quality=made.quality(metric_loss=0.04, **unit),
        max_metric_loss=0.1,
    )
    kept = figures(outcome)
    assert (kept["metric_loss"], kept["metric_loss_unit"]) == (0.04, told)


def test_notes_on_both_files_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = {"a.onnx": ("sizes were guessed", "it was mended"), "b.onnx": ("sizes were guessed", "it saturates")}
    monkeypatch.setattr(check.adopt, "adopt", lambda path, _, **__: Adopted(name="toy", notes=notes[path.name]))
    made = Artifact(path=Path("made"), format="null", sha256="made", size_bytes=1)
    monkeypatch.setattr(check.prepare, "artifact_of", lambda *_: made)
    monkeypatch.setattr(check, "pair", lambda *_, **__: pair())
    found = check.pair_of_files(Path("a.onnx"), Path("b.onnx"), limits=Limits.of(step_s=60, memory_bytes=None))
    assert found.notes == ("sizes were guessed", "a.onnx: it was mended", "b.onnx: it saturates")


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(1.05, "regression"), (1.03, "regression"), (1.01, "fine"), (1.0, "fine"), (0.5, "fine")]
)
def test_verdict(ratio: float, verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = blocks(monkeypatch, ratio * 0.999, ratio * 1.001)
    outcome = check.measure(pair(), check.goal(), Method())
    assert (outcome.verdict, outcome.passed) == (verdict, verdict == "fine")
    assert len(ran) == outcome.num_launches
    assert len(ran) in (3, 6), "a look that decides, and no launch after it"
    assert outcome.ratio.value == pytest.approx(ratio, rel=1e-3)


def test_it_goes_on_until_it_is_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first look the interval still reaches beyond the tolerance."""
    ran = blocks(monkeypatch, 1.001, 1.017)
    outcome = check.measure(pair(), check.goal(), Method())
    assert outcome.verdict == "fine"
    assert 3 < len(ran) < check.MAX_LAUNCHES


def test_what_cannot_be_told_passes_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = blocks(monkeypatch, 0.8, 1.25)
    outcome = check.measure(pair(), check.goal(max_launches=5), Method())
    assert (outcome.verdict, outcome.passed, len(ran)) == ("undecided", True, 5)
    assert "after 5 launches: undecided; outputs exact" in line(outcome)


def test_difference_that_a_copy_shows_too_is_no_regression(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks(monkeypatch, 1.05, control=1.06)
    outcome = check.measure(pair(), check.goal(max_launches=4), Method())
    assert outcome.verdict == "undecided"


def test_no_launch_begins_after_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = blocks(monkeypatch, 1.0)
    outcome = check.measure(pair(), check.goal(budget_s=0.0), Method())
    assert len(ran) == 1, "one is needed for any figure"
    assert outcome.verdict == "undecided"


def test_what_there_is_when_the_time_is_up_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """After 2 launches it is not clear; the time is up after 3, between two looks, and then it is."""
    ran = blocks(monkeypatch, 1.034, 1.054, 1.044)
    monkeypatch.setattr(rounds, "time", SimpleNamespace(monotonic=lambda: float(len(ran))))
    outcome = check.measure(pair(), replace(check.goal(budget_s=3.0), min_launches=2), Method())
    assert (len(ran), outcome.verdict) == (3, "regression")


def test_wrong_outputs_do_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks(monkeypatch, 0.5)
    outcome = check.measure(pair("broken", "snr_db is worse"), check.goal(), Method())
    assert (outcome.verdict, outcome.passed) == ("fine", False)
    assert line(outcome).endswith("fine; outputs broken (snr_db is worse)")


def test_json_tells_what_the_line_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks(monkeypatch, 1.3)
    wrong = pair("broken", "output \x1b[2J has shape (2,)")
    told = json.loads(as_json(check.measure(wrong, check.goal(max_launches=3), Method()), CELL_PATH))
    assert told["cell"] == CELL_PATH
    assert (told["passed"], told["verdict"], told["fidelity"]) == (False, "regression", "broken")
    assert told["fault"] == "output \x1b[2J has shape (2,)"
    assert told["outputs"] == r"broken (output \x1b[2J has shape (2,))", "a text for people"
    assert told["num_launches"] == 3
    assert told["ratio"]["low"] <= 1.3 <= told["ratio"]["high"]
    assert told["ratio"]["value"] == pytest.approx(1.3, rel=1e-3)
    fine = json.loads(as_json(check.measure(pair(), check.goal(max_launches=3), Method()), CELL_PATH))
    assert (fine["fault"], fine["outputs"]) == (None, "exact")


def test_json_has_null_for_an_interval_without_an_end() -> None:
    outcome = check.Outcome(
        verdict="undecided",
        ratio=Estimate(value=1.0, low=0.0, high=float("inf")),
        control=None,
        num_launches=1,
        new_ns=(1,),
        quality=made.quality(metric_loss=float("nan")),
        max_metric_loss=0.01,
    )
    told = json.loads(as_json(outcome, CELL_PATH))
    assert (told["ratio"], told["metric_loss"]) == ({"value": 1.0, "low": 0.0, "high": None}, None)


@pytest.mark.parametrize(("lost", "passed"), [(0.01, True), (0.011, False), (-0.5, True), (None, False)])
def test_metric_that_is_lost(lost: float | None, passed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks(monkeypatch, 0.5)
    outcome = check.measure(pair("drifted", lost=lost), check.goal(), Method(), max_metric_loss=AllowedLoss())
    assert outcome.passed == passed
    if lost == 0.011:
        assert line(outcome).endswith("drifted, 1.1 % worse on the samples: too much, a loss of 1 % is allowed")


def test_loss_on_the_samples_is_judged_and_its_bound_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of fifty samples is lost, 2 %; with so few, the bound of even the same outputs is 5.8 %."""
    blocks(monkeypatch, 0.5)
    lost = Lost(num_samples=50, score=1.0, most=1.0, points=((7, 1.0),))
    quality = made.quality(fidelity="close", metric_loss=0.02, lost=lost)
    two = Pair(pinned=verified("pinned", made.quality()), new=verified("new", quality))
    outcome = check.measure(two, check.goal(), Method(), max_metric_loss=AllowedLoss(share=0.02))
    assert outcome.passed
    assert lost.high() == pytest.approx(0.0914, abs=0.0005), "the bound of Clopper and Pearson, 1 of 50"
    assert line(outcome).endswith(
        "fine; outputs close, 2 % worse on the 50 samples: a loss of 2 % is allowed; "
        "on others like them at most 9.1 % worse, with 95 % confidence"
    )
    assert not check.measure(two, check.goal(), Method(), max_metric_loss=AllowedLoss(share=0.019)).passed


def test_failure_names_the_artifact(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_block(pinned: Subject, subjects: list[Subject], method: Method, **_: object) -> Result:
        error = ChildError("signal", "killed by SIGSEGV")
        return Result(launches=(), failures=(Failure(subject=subjects[0], stage="measure", error=error),))

    monkeypatch.setattr("bench.measure.blocks.run_block", run_block)
    with pytest.raises(BenchError, match="the new artifact failed: killed by SIGSEGV"):
        check.measure(pair(), check.goal(), Method())


def test_samples_are_replayed() -> None:
    """A timer is read twice a round: at its start and at its end."""
    readings = list(replayed_s([0.5, 0.25]))
    assert [readings[1] - readings[0], readings[3] - readings[2]] == [0.5, 0.25]
